"""Plot of a step's groups: lowest to highest reward of each, sorted by the mean, as on the board."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import holoviews as hv
from hvplot import hvPlotTabular

from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import describe
from rlpanel.number_text import number
from rlpanel.panels.plots.plot_text import shown_text
from rlpanel.plotting.element_style import (
    colors_of,
    frame_options,
    glyph_options,
    holoviews_names,
    themed,
)
from rlpanel.plotting.plotted_run import PlottedRun
from rlpanel.store.query.step_groups import ALL_HIGH, ALL_LOW, SIGNAL

#: Theme colour of each state of a group.
COLORS = {SIGNAL: "policy", ALL_LOW: "bad", ALL_HIGH: "good"}


def group_ranges(
    run: PlottedRun, step: int | None, dark: bool | None, options: Mapping[str, Any]
) -> hv.Overlay:
    """Return the plot of `RunPlots.groups`."""
    if step is None:
        steps = run.view.snapshot.steps.values
        step = int(steps[-1]) if len(steps) else 0
    frame = run.groups(step)
    if "reward_mean" not in frame:
        raise SettingError(f"no groups with rewards at step {step} in {run.name}")
    frame = frame.sort_values("reward_mean", kind="stable", ignore_index=True)
    colors = colors_of(dark)
    frame["position"] = frame.index + 1.0
    frame["color"] = [colors[COLORS[signal]] for signal in frame["signal"]]
    frame["name"] = [shown_text(name) for name in frame["group"]]
    for column in ("reward_mean", "reward_std", "reward_min", "reward_max"):
        frame[f"{column}_text"] = frame[column].map(number)
    counts = frame["signal"].value_counts()
    states = [f"{counts[state]:,} {state}" for state in (ALL_LOW, ALL_HIGH) if state in counts]
    title = ", ".join([f"{run.name}, step {step}: {len(frame):,} groups", *states])
    shared = frame_options(
        dark, options, title=title, xlabel="groups, sorted by mean", ylabel=describe("reward").axis
    )
    shared = {"xlim": (0, len(frame) + 1), **shared}
    texts = ["name", "samples", "signal", *[name for name in frame if str(name).endswith("_text")]]
    tips = [(name.removesuffix("_text").replace("_", " "), f"@{{{name}}}") for name in texts]
    segments = hv.Segments(frame, ["position", "reward_min", "position", "reward_max"], ["color"]).opts(
        color="color", alpha=0.45, line_width=5, backend="bokeh", **holoviews_names(shared)
    )
    marks = hvPlotTabular(frame).scatter(
        "position", "reward_mean", hover_cols=[*texts, "color"], hover_tooltips=tips,
        **{"color": "color", "size": 36, **glyph_options(options)}, **shared,
    )  # fmt: skip
    return hv.Overlay([themed(segments, dark), themed(marks, dark)])
