"""Curve of a column over the steps, with a band: the numbers of `Run.steps` and of the board's cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import holoviews as hv
import numpy as np
import pandas as pd
from hvplot import hvPlotTabular

from rlpanel.display_settings import Display
from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import describe, step_names
from rlpanel.panels.plots.series import Points, bucket_size
from rlpanel.panels.plots.series import curve as curve_points
from rlpanel.plotting.chosen_steps import check_column
from rlpanel.plotting.element_style import colors_of, frame_options, glyph_options, themed
from rlpanel.plotting.linked_samples import linked, sample_table
from rlpanel.queries.run_data import RunData
from rlpanel.store.snapshot.run_view import step_name

#: Name of each band in the title.
BANDS = {"iqr": "mean and quartiles (25–75%)", "std": "mean ± standard deviation", "range": "mean and range"}


def step_curve(
    run: RunData, column: str, band: str, dark: bool | None, options: Mapping[str, Any]
) -> hv.Overlay:
    """Return the plot of `RunPlots.curve`."""
    if band not in (*BANDS, "none"):
        raise SettingError(f"no band {band!r}; available: {', '.join(BANDS)}, none")
    view = run.view
    per_step = column in step_names() or view.is_statistic(column)
    if not (per_step and view.has(column)):
        check_column(view, column)
    points = curve_points(view, column, Display(band=band))
    info, colors = describe(column), colors_of(dark)
    title = f"{run.name}: {_title(info.label, band, per_step, len(view.snapshot.steps.values))}"
    frame = frame_options(dark, options, title=title, xlabel="step", ylabel=info.axis)
    name = column if per_step else step_name(column, "mean")
    line_options = {"color": colors.get(info.color, colors["muted"]), "line_width": 1.8}
    line_options |= glyph_options(options)

    def draw_line(samples: pd.DataFrame) -> Any:
        shown = points if per_step else _points_of(samples, column, points, band)
        data = pd.DataFrame({"step": shown["x"], name: shown["y"], "samples": shown["n"]})
        line = hvPlotTabular(data).line("step", name, hover_cols=["samples"], **line_options, **frame)
        return themed(line, dark)

    def draw_band(samples: pd.DataFrame) -> Any:
        shown = _points_of(samples, column, points, band)
        data = pd.DataFrame({"step": shown["x"], f"{name}_low": shown["lo"], f"{name}_high": shown["hi"]})
        area = hvPlotTabular(data).area(
            "step", f"{name}_low", f"{name}_high", color=line_options["color"], alpha=0.18, line_width=0,
            hover=False, **frame,
        )  # fmt: skip
        return themed(area, dark)

    table = sample_table(view, view.snapshot.alive_rows, [] if per_step else [column])
    if per_step or band == "none":
        return hv.Overlay([linked(table, draw_line)])
    return hv.Overlay([linked(table, draw_band), linked(table, draw_line)])


def _title(label: str, band: str, per_step: bool, steps: int) -> str:
    what = label if per_step else f"{label}, {BANDS.get(band, 'mean')}"
    size = bucket_size(steps)
    return what if size == 1 else f"{what}; each point is {size} steps"


def _points_of(samples: pd.DataFrame, column: str, whole: Points, band: str) -> Points:
    """Return the points of some samples, at the steps of ``whole``; ``whole`` itself if these are all."""
    values = samples[column].to_numpy()
    step, finite = samples["step"].to_numpy(), np.isfinite(values)
    if finite.sum() == np.nansum(whole["n"]):
        return whole
    point = np.searchsorted(whole["x"], step[finite], side="right") - 1
    grouped = pd.Series(values[finite]).groupby(point)
    mean, low, high = grouped.mean(), grouped.min(), grouped.max()
    if band == "std":
        spread = grouped.std()
        low, high = np.maximum(mean - spread, low), np.minimum(mean + spread, high)
    elif band == "iqr":
        low, high = grouped.quantile(0.25), grouped.quantile(0.75)
    all_points = range(len(whole["x"]))
    shown = {"y": mean, "lo": low, "hi": high, "n": grouped.count()}
    return {"x": whole["x"], **{name: part.reindex(all_points).to_numpy() for name, part in shown.items()}}
