"""Plots of a column over the steps: its curve, its histogram, and a ridge per step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import holoviews as hv
import numpy as np
import pandas as pd
from hvplot import hvPlotTabular

from rlpanel.display_settings import Display
from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import describe, step_names
from rlpanel.number_text import number
from rlpanel.panels.plots.plot_elements import ridge_area, ridges
from rlpanel.panels.plots.series import Points, bucket_size
from rlpanel.panels.plots.series import curve as curve_points
from rlpanel.plotting.element_style import colors_of, frame_options, glyph_options, themed
from rlpanel.plotting.plotted_run import Steps, check_column, linked, rows_at, sample_table, steps_text
from rlpanel.queries.run_data import RunData
from rlpanel.store.snapshot.run_view import step_name
from rlpanel.store.snapshot.value_density import Density, density

#: Name of each band in the title.
BANDS = {
    "iqr": "mean and quartiles (25–75%)",
    "std": "mean ± standard deviation",
    "se": "mean ± 2 standard errors",
    "range": "mean and range",
}


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
    if band in ("std", "se"):
        spread = grouped.std() if band == "std" else 2 * grouped.sem()
        low, high = np.maximum(mean - spread, low), np.minimum(mean + spread, high)
    elif band == "iqr":
        low, high = grouped.quantile(0.25), grouped.quantile(0.75)
    all_points = range(len(whole["x"]))
    shown = {"y": mean, "lo": low, "hi": high, "n": grouped.count()}
    return {"x": whole["x"], **{name: part.reindex(all_points).to_numpy() for name, part in shown.items()}}


def value_histogram(
    run: RunData,
    column: str,
    steps: Steps,
    bins: int,
    dark: bool | None,
    options: Mapping[str, Any],
) -> Any:
    """Return the plot of `RunPlots.distribution`."""
    view = run.view
    check_column(view, column)
    rows = rows_at(view, steps)
    values = np.asarray(view.counted(column, rows), float)
    finite = values[np.isfinite(values)]
    edges = _edges_around(view.histogram(column, bins).edges, finite)
    info, colors = describe(column), colors_of(dark)
    mean = f", mean {number(float(finite.mean()))}" if len(finite) else ""
    title = f"{run.name}, {steps_text(steps)}: {len(finite):,} samples{mean}"
    frame = frame_options(dark, options, title=title, xlabel=info.axis, ylabel="samples")
    style = {"color": colors.get(info.color, colors["muted"]), "line_color": colors["surface"]}
    style |= glyph_options(options)

    def draw(samples: pd.DataFrame) -> Any:
        counted = samples.loc[np.isfinite(samples[column]), [column]]
        return themed(hvPlotTabular(counted).hist(column, bins=edges, **style, **frame), dark)

    return linked(sample_table(view, rows, [column]), draw)


def _edges_around(edges: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the edges of the intervals from the one of the smallest to that of the largest value."""
    if not len(values):
        return edges
    first = int(np.searchsorted(edges, values.min(), side="right")) - 1
    last = int(np.searchsorted(edges, values.max(), side="right"))
    return edges[max(first, 0) : last + 1]


def value_ridges(run: RunData, column: str, dark: bool | None, options: Mapping[str, Any]) -> hv.Overlay:
    """Return the plot of `RunPlots.ridge`."""
    view = run.view
    check_column(view, column)
    snapshot = view.snapshot
    counted = density(snapshot, column, log=False)
    assert counted is not None  # the column has a finite value
    shape = ridges(counted)
    info, colors = describe(column), colors_of(dark)
    title = f"{run.name}: {info.label}, {int(counted.counts.sum()):,} samples"
    frame = frame_options(dark, options, title=title, xlabel=info.axis, ylabel="steps") | {
        "yticks": shape.ticks
    }
    style = {"color": colors.get(info.color, colors["muted"]), "alpha": 0.7, "line_width": 0.8}
    style |= {"line_color": colors["surface"], **glyph_options(options)}

    def draw(ridge: int, samples: pd.DataFrame) -> Any:
        inside = samples[samples["step"].between(shape.first[ridge], shape.last[ridge])]
        part = ridges(counted, _counts_of(counted, inside, column))
        return themed(ridge_area(part, ridge, column, **style, **frame), dark)

    table = sample_table(view, snapshot.alive_rows, [column])
    return hv.Overlay([linked(table, partial(draw, ridge)) for ridge in range(len(shape.heights))])


def _counts_of(counted: Density, samples: pd.DataFrame, column: str) -> Density:
    """Count the values of some samples in the same cells."""
    values = samples[column].to_numpy()
    finite = np.isfinite(values)
    step = samples["step"].to_numpy()[finite].astype(np.int64)
    bins = counted.axis.bins
    cells = (step - counted.first) // counted.width * bins + counted.axis.bin_of(values[finite])
    counts = np.bincount(cells, minlength=counted.counts.size).reshape(counted.counts.shape)
    return replace(counted, counts=counts)
