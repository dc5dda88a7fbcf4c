"""Ridge plot of a column's values over the run: a few ridges, each a range of steps, the newest in front.

It is built with HoloViews on demand. Ridges are replaced as a whole, so nothing is streamed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import panel as pn
from bokeh.events import Tap

from rlpanel.panels.plots.value_range import ValueRange
from rlpanel.panels.ui import theme
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.value_density import Density, density

#: Maximum number of ridges, and the greatest height of a ridge in units of their distance.
RIDGES, REACH = 7, 1.9
#: Smoothing kernel of the outlines.
_SMOOTH = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16


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


def _counts_by_range(counted: Density, ranges: list[np.ndarray]) -> np.ndarray:
    return np.stack([counted.counts[columns].sum(axis=0) for columns in ranges]).astype(float)


def _outlines(counted: Density, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values and heights of the outlines: bars if few values are distinct, else smoothed."""
    edges = counted.axis.edges
    if counted.axis.distinct:
        return np.repeat(edges, 2)[1:-1], np.repeat(shares, 2, axis=1)
    values = np.sqrt(edges[1:] * edges[:-1]) if counted.axis.log else (edges[1:] + edges[:-1]) / 2
    return values, np.stack([np.convolve(share, _SMOOTH, mode="same") for share in shares])


class RidgePlot:
    """The ridges of one column; like `DensityPlot`, but it highlights a ridge instead of moving a cursor."""

    def __init__(
        self,
        column: str,
        color: str,
        height: int,
        *,
        log: bool,
        on_pick: Callable[[float, ValueRange], None],
    ) -> None:
        self.log = log
        self.density: Density | None = None
        self._column, self._color, self._on_pick = column, color, on_pick
        self._height = height
        self._dark = True
        self._step: int | None = None
        self._drawn: Ridges | None = None
        self.pane = pn.pane.HoloViews(
            None,
            sizing_mode="stretch_width",
            height=height,
            margin=(0, 4, 0, 4),
            linked_axes=False,
        )

    def draw(self, snapshot: Snapshot) -> None:
        """Update the ridges to a snapshot."""
        before, self.density = (
            self.density,
            density(snapshot, self._column, log=self.log, before=self.density),
        )
        if before is None or self.density is None or not _equal(before, self.density):
            self._rebuild()

    def move_cursor(self, step: int | None) -> None:
        """Highlight the ridge that contains the selected step."""
        if self._drawn is not None and self._ridge_of(step) != self._ridge_of(self._step):
            self._step = step
            self._rebuild()
        self._step = step

    def restyle(self, dark: bool) -> None:
        """Apply the colours of the dark or light theme."""
        if dark != self._dark:
            self._dark = dark
            self._rebuild()

    def _rebuild(self) -> None:
        self._drawn = ridges(self.density) if self.density is not None else None
        self.pane.object = self._overlay(self._drawn) if self._drawn is not None else None

    def _overlay(self, shape: Ridges) -> Any:
        """Return the ridges as a HoloViews overlay. Time runs downwards; the newest ridge is drawn last."""
        import holoviews as hv

        if "bokeh" not in hv.Store.renderers:
            hv.extension("bokeh")
        colors = theme.palette(self._dark)
        selected = self._ridge_of(self._step)
        areas = []
        for ridge, heights in enumerate(shape.heights):
            base = np.full(len(heights), -float(ridge))
            area = hv.Area((shape.values, base, base + heights * REACH), "value", ["base", "top"])
            areas.append(
                area.opts(
                    color=colors[self._color],
                    line_color=colors["text"] if ridge == selected else colors["surface"],
                    line_width=1.4 if ridge == selected else 0.8,
                    fill_alpha=0.9 if ridge == selected else 0.6,
                    backend="bokeh",
                )
            )
        labels = [(-ridge, _label(first, last)) for ridge, (first, last) in _step_ranges(shape)][::2]
        return hv.Overlay(areas).opts(
            height=self._height,
            responsive=True,
            toolbar=None,
            default_tools=[],
            yticks=labels,
            xlabel="",
            ylabel="",
            logx=self.log,
            show_frame=False,
            hooks=[self._finish],
            backend="bokeh",
        )

    def _finish(self, plot: Any, _: Any) -> None:
        """Style the figure that HoloViews made, and handle clicks."""
        figure = plot.state
        theme.restyle(figure, self._dark)
        figure.ygrid.visible = False
        figure.on_event(Tap, self._on_tap)

    def _ridge_of(self, step: int | None) -> int:
        """Return the index of the ridge that a step belongs to; -1 without step or ridges."""
        if step is None or self._drawn is None:
            return -1
        return int(np.clip(np.searchsorted(self._drawn.last, step), 0, len(self._drawn.last) - 1))

    def _on_tap(self, event: Any) -> None:
        if self.density is None or self._drawn is None or event.x is None:
            return
        ridge = int(np.clip(round(-event.y + 0.4), 0, len(self._drawn.last) - 1))
        step = float(self._drawn.last[ridge])
        low, high = self.density.value_range(self.density.column_of(step), event.x)
        self._on_pick(step, ValueRange(self._column, low, high))


def _step_ranges(shape: Ridges) -> list[tuple[int, tuple[int, int]]]:
    return list(enumerate(zip(shape.first.tolist(), shape.last.tolist(), strict=True)))


def _label(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"


def _equal(before: Density, after: Density) -> bool:
    return before.axis == after.axis and np.array_equal(before.counts, after.counts)
