"""Scatter plot of two columns: one point per sample, or counts in cells where these would be too many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import holoviews as hv
import numpy as np
import pandas as pd

from rlpanel.metrics.engine.column_info import describe
from rlpanel.number_text import number
from rlpanel.panels.plots.density_plot import ramp
from rlpanel.panels.plots.plot_elements import scatter_points
from rlpanel.plotting.chosen_steps import Steps, check_column, rows_at, steps_text
from rlpanel.plotting.element_style import (
    colors_of,
    frame_options,
    glyph_options,
    holoviews_names,
    is_dark,
    themed,
)
from rlpanel.plotting.linked_samples import linked, sample_table
from rlpanel.queries.run_data import RunData
from rlpanel.store.snapshot.run_view import RunView

#: Maximum number of points that a browser draws; more samples are counted in cells.
MAX_POINTS = 20_000
#: Maximum number of cells along each axis.
CELLS = 128


def sample_scatter(
    run: RunData, x: str, y: str, steps: Steps, dark: bool | None, options: Mapping[str, Any]
) -> Any:
    """Return the plot of `RunPlots.scatter`."""
    view = run.view
    for column in (x, y):
        check_column(view, column)
    rows = rows_at(view, steps)
    finite = np.isfinite(view.values(x, rows)) & np.isfinite(view.values(y, rows))
    rows = rows[finite]
    left_out = len(finite) - len(rows)
    title = f"{run.name}, {steps_text(steps)}: {len(rows):,} samples"
    title += f", {left_out:,} without both" if left_out else ""
    labels = {"xlabel": describe(x).axis, "ylabel": describe(y).axis}
    table = sample_table(view, rows, [x, y])
    if len(rows) <= MAX_POINTS:
        frame = frame_options(dark, options, title=title, **labels)
        return linked(table, lambda samples: _points(samples, x, y, dark, frame, glyph_options(options)))
    edges = [_edges(view, rows, column) for column in (x, y)]
    title += f" in cells of {_width(edges[0])} × {_width(edges[1])}"
    frame = frame_options(dark, options, title=title, **labels)
    return linked(table, lambda samples: _cells(samples, x, y, edges, dark, frame, glyph_options(options)))


def _points(
    samples: pd.DataFrame,
    x: str,
    y: str,
    dark: bool | None,
    frame: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Any:
    style = {"color": colors_of(dark)["policy"], "size": 26, "alpha": 0.7, **options}
    return themed(scatter_points(samples, x, y, hover_cols=["step", "rank"], **style, **frame), dark)


def _cells(
    samples: pd.DataFrame,
    x: str,
    y: str,
    edges: list[np.ndarray],
    dark: bool | None,
    frame: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Any:
    """Return the number of samples in each cell as an image; hvPlot has no plot that counts exactly."""
    counts, _, _ = np.histogram2d(samples[x], samples[y], bins=(edges[0], edges[1]))
    shown = np.where(counts > 0, counts, np.nan).T[::-1]
    bounds = (edges[0][0], edges[1][0], edges[0][-1], edges[1][-1])
    colors = colors_of(dark)
    image = hv.Image(shown, [x, y], "samples", bounds=bounds)
    style = {
        "cmap": ramp(colors["policy"], colors["surface"], is_dark(dark))[1:],
        "cnorm": "log",
        "colorbar": True,
        "tools": ["hover"],
        "clipping_colors": {"NaN": "transparent"},
    }
    return themed(image.opts(**{**style, **holoviews_names(frame), **options}, backend="bokeh"), dark)


def _edges(view: RunView, rows: np.ndarray, column: str) -> np.ndarray:
    """Return the edges of the cells: intervals of `Run.histogram`, at least 1 wide for whole numbers."""
    edges = view.histogram(column, CELLS).edges
    whole = (view.values(column, rows) % 1 == 0).all()
    return (
        np.arange(np.floor(edges[0]), np.ceil(edges[-1]) + 1) if whole and edges[1] - edges[0] < 1 else edges
    )


def _width(edges: np.ndarray) -> str:
    return number(float(edges[1] - edges[0]))
