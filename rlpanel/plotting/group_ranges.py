"""Plot of a step's groups: lowest to highest reward of each, sorted by the mean, as on the board."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import holoviews as hv
import numpy as np
import pandas as pd
from hvplot import hvPlotTabular

from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import describe
from rlpanel.number_text import number
from rlpanel.panels.plots.plot_elements import GROUP_COLORS
from rlpanel.plotting.element_style import (
    colors_of,
    frame_options,
    glyph_options,
    holoviews_names,
    themed,
)
from rlpanel.plotting.linked_samples import GROUP, group_numbers, linked, sample_table
from rlpanel.queries.groups import groups
from rlpanel.queries.run_data import RunData
from rlpanel.store.query.step_groups import ALL_HIGH, ALL_LOW, groups_of
from rlpanel.texts.shorten import plot_text

_REWARDS = ("mean", "std", "min", "max")


def group_ranges(run: RunData, step: int | None, dark: bool | None, options: Mapping[str, Any]) -> hv.Overlay:
    """Return the plot of `RunPlots.groups`."""
    if step is None:
        steps = run.view.snapshot.steps.values
        step = int(steps[-1]) if len(steps) else 0
    view, frame = run.view, groups(run, step, all_steps=True).frame()
    found = groups_of(view, step)
    if found is None or "reward_mean" not in frame:
        raise SettingError(f"no groups with rewards at step {step} in {run.name}")
    frame[GROUP] = group_numbers(view.snapshot, np.array([rows[0] for rows in found.members]))
    table = sample_table(view, np.concatenate(found.members), ["reward"])
    frame = frame.sort_values("reward_mean", kind="stable", ignore_index=True)
    colors = colors_of(dark)
    frame["position"] = frame.index + 1.0
    frame["color"] = [colors[GROUP_COLORS[signal]] for signal in frame["signal"]]
    frame["name"] = [plot_text(name) for name in frame["group"]]
    frame = _with_texts(frame)
    counts = frame["signal"].value_counts()
    states = [f"{counts[state]:,} {state}" for state in (ALL_LOW, ALL_HIGH) if state in counts]
    title = ", ".join([f"{run.name}, step {step}: {len(frame):,} groups", *states])
    shared = frame_options(
        dark, options, title=title, xlabel="groups, sorted by mean", ylabel=describe("reward").axis
    )
    shared = {"xlim": (0, len(frame) + 1), **shared}
    texts = ["name", "samples", "signal", *[name for name in frame if str(name).endswith("_text")]]
    tips = [(name.removesuffix("_text").replace("_", " "), f"@{{{name}}}") for name in texts]

    def draw_segments(samples: pd.DataFrame) -> Any:
        ranges = ["position", "reward_min", "position", "reward_max"]
        segments = hv.Segments(_groups_of_samples(frame, samples), ranges, ["color"]).opts(
            color="color", alpha=0.45, line_width=5, backend="bokeh", **holoviews_names(shared)
        )
        return themed(segments, dark)

    def draw_marks(samples: pd.DataFrame) -> Any:
        marks = hvPlotTabular(_groups_of_samples(frame, samples)).scatter(
            "position", "reward_mean", hover_cols=[*texts, "color"], hover_tooltips=tips,
            **{"color": "color", "size": 36, **glyph_options(options)}, **shared,
        )  # fmt: skip
        return themed(marks, dark)

    def selects(marks: hv.dim) -> hv.dim:
        chosen = frame.loc[marks.apply(hv.Dataset(frame)), GROUP].tolist()
        return (hv.dim("step") == step) & hv.dim(GROUP).isin(chosen)

    segments = linked(table, draw_segments, selects=lambda _: None)  # a box selects by the means
    return hv.Overlay([segments, linked(table, draw_marks, selects)])


def _groups_of_samples(frame: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Return the groups as they are without the other samples, each at its place."""
    rewards = samples.dropna(subset=[GROUP, "reward"]).groupby(GROUP)["reward"]
    found = rewards.agg(["count", "mean", "std", "min", "max"]).reindex(frame[GROUP]).reset_index(drop=True)
    if (found["count"] == frame["samples"]).all():
        return frame
    part = frame.assign(samples=found["count"], **{f"reward_{name}": found[name] for name in _REWARDS})
    return _with_texts(part[found["count"] > 0])


def _with_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the groups with the texts of their rewards for the tooltip."""
    return frame.assign(**{f"reward_{name}_text": frame[f"reward_{name}"].map(number) for name in _REWARDS})
