"""Plots that the board shows in a pane and notebooks get from `run.plot`: one function of arrays for each.

Options are those of hvPlot. HoloViews and hvPlot take long to import, so that happens with the first plot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rlpanel.panels.ui import theme
from rlpanel.store.query.step_groups import ALL_HIGH, ALL_LOW, SIGNAL
from rlpanel.store.snapshot.value_density import Density
from rlpanel.texts.shorten import shorten

#: Maximum number of ridges, and the greatest height of a ridge in units of their distance.
RIDGES, REACH = 7, 1.9
#: Maximum number of bars in rows, and characters of their labels.
MAX_BARS, LABEL_CHARS = 12, 26
#: Theme colour of each state of a group.
GROUP_COLORS = {SIGNAL: "policy", ALL_LOW: "reference", ALL_HIGH: "good"}
#: Options of HoloViews for a plot in a card of the board.
ON_BOARD: dict[str, Any] = {"toolbar": None, "default_tools": [], "show_frame": False, "backend": "bokeh"}
#: Smoothing kernel of the outlines.
_SMOOTH = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16
_ROW_HEIGHT, _AXES_HEIGHT = 19, 40


@dataclass(frozen=True)
class Ridges:
    """Outlines of the ridges, from the oldest to the newest.

    Attributes
    ----------
    values : ndarray, shape (P,)
    heights : ndarray, shape (R, P)
        Share of the ridge's samples at each value, scaled to an overall maximum of 1. If few values are
        distinct, the outlines are bars.
    first, last : ndarray of int, shape (R,)
        First and last step of each ridge.
    """

    values: np.ndarray
    heights: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @property
    def ticks(self) -> list[tuple[int, str]]:
        """Position and steps of each ridge on the vertical axis. Time runs downwards."""
        ranges = zip(self.first.tolist(), self.last.tolist(), strict=True)
        return [
            (-ridge, f"{first}" if first == last else f"{first}–{last}")
            for ridge, (first, last) in enumerate(ranges)
        ]


def ridges(counted: Density, part: Density | None = None) -> Ridges:
    """Split the steps that have values into at most `RIDGES` ranges of about equal length.

    Parameters
    ----------
    counted : Density
        At least one value.
    part : Density, optional
        Counts of some of the samples, in the same cells: the outlines are theirs, within those of all.
    """
    filled = np.flatnonzero(counted.counts.sum(axis=1))
    ranges = np.array_split(filled, min(RIDGES, len(filled)))
    whole = _counts_by_range(counted, ranges)
    sizes = whole.sum(axis=1, keepdims=True)
    values, heights = _outlines(counted, whole / sizes)
    most = heights.max()
    if part is not None:
        _, heights = _outlines(part, _counts_by_range(part, ranges) / sizes)
    edges, zeros = counted.axis.edges, np.zeros((len(heights), 1))
    return Ridges(
        np.concatenate([edges[:1], values, edges[-1:]]),
        np.hstack([zeros, heights / most, zeros]),
        np.array([counted.first + columns[0] * counted.width for columns in ranges]),
        np.array([counted.first + (columns[-1] + 1) * counted.width - 1 for columns in ranges]),
    )


def ridge_area(shape: Ridges, ridge: int, column: str, **options: Any) -> Any:
    """Return one ridge as an area; an overlay of all, the newest last, is the plot."""
    base = np.full(len(shape.values), -float(ridge))
    top = base + shape.heights[ridge] * REACH
    data = pd.DataFrame({column: shape.values, "base": base, "top": top})
    return _hvplot(data).area(column, "base", "top", hover=False, **options)


def scatter_points(frame: pd.DataFrame, x: str, y: str, **options: Any) -> Any:
    """Return one point per row of a frame of samples."""
    return _hvplot(frame).points(x, y, **{"line_color": None, **options})


def cluster_bars(labels: Sequence[str], sizes: np.ndarray, dark: bool) -> Any:
    """Return the numbers of samples of the first clusters, shape (B,), as bars, the first on top."""
    frame = _rows_of("response", labels, "samples", sizes)
    color = theme.palette(dark)["policy"]
    bars = _hvplot(frame).barh("response", "samples", color=color, line_color=None, **_size(frame))
    return bars.opts(**_row_options(frame, dark, "samples"))


def holoviews() -> Any:
    """Import HoloViews with the Bokeh backend."""
    import holoviews as hv

    if "bokeh" not in hv.Store.renderers:
        hv.extension("bokeh")
    return hv


def finish_on_board(figure: Any, dark: bool) -> None:
    """Apply the board's style to a figure that HoloViews made."""
    theme.style_plot(figure)
    theme.restyle(figure, dark)
    figure.xgrid.visible = True
    figure.xgrid.grid_line_color = theme.palette(dark)["line"]
    for axis in figure.axis:
        axis.update(axis_label_text_font_style="normal", axis_label_text_font_size="11px")


def _hvplot(frame: pd.DataFrame) -> Any:
    holoviews()
    from hvplot import hvPlotTabular

    return hvPlotTabular(frame)


def _counts_by_range(counted: Density, ranges: list[np.ndarray]) -> np.ndarray:
    return np.stack([counted.counts[columns].sum(axis=0) for columns in ranges]).astype(float)


def _outlines(counted: Density, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values and heights of the outlines: bars if few values are distinct, else smoothed."""
    edges = counted.axis.edges
    if counted.axis.distinct:
        return np.repeat(edges, 2)[1:-1], np.repeat(shares, 2, axis=1)
    values = np.sqrt(edges[1:] * edges[:-1]) if counted.axis.log else (edges[1:] + edges[:-1]) / 2
    return values, np.stack([np.convolve(share, _SMOOTH, mode="same") for share in shares])


def _rows_of(name: str, labels: Sequence[str], number: str, values: np.ndarray) -> pd.DataFrame:
    """Return the first rows in reverse, as the axis counts upwards, with short and different labels.

    The names of both columns are in the tooltip.
    """
    names: list[str] = []
    for label in [*labels[:MAX_BARS]][::-1]:
        text = shorten(label, LABEL_CHARS, within=True)
        while text in names:  # a categorical axis needs different names
            text += "\u200b"
        names.append(text)
    return pd.DataFrame({name: names, number: values[:MAX_BARS][::-1]})


def _size(frame: pd.DataFrame) -> dict[str, Any]:
    return {"height": len(frame) * _ROW_HEIGHT + _AXES_HEIGHT, "responsive": True}


def _row_options(frame: pd.DataFrame, dark: bool, axis: str) -> dict[str, Any]:
    """Return the options of bars in rows, in the board's style."""

    def finish(plot: Any, _: Any) -> None:
        figure = plot.state
        finish_on_board(figure, dark)
        figure.ygrid.visible = False
        figure.yaxis.major_label_text_color = theme.palette(dark)["text"]
        figure.min_border_left = 8

    # The axes of horizontal bars are exchanged.
    return {**ON_BOARD, **_size(frame), "show_legend": False, "xlabel": "", "ylabel": axis, "hooks": [finish]}
