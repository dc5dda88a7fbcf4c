"""How a column's values shift over the run: a few ridges, the newest in front, each a stretch of steps.

Built with HoloViews when it is asked for: a ridge is replaced whole, so nothing is streamed.
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

#: Most ridges, and how far each may reach into those behind it.
RIDGES, REACH = 7, 1.9
#: Weights of a part and its neighbours, so that the outline is calm.
_SMOOTH = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16


@dataclass(frozen=True)
class Ridges:
    """Outlines, from the oldest to the newest.

    Attributes
    ----------
    values : ndarray, shape (P,)
    heights : ndarray, shape (R, P)
        Share of the stretch's values, bars where few values are distinct; the highest of all is 1.
    first, last : ndarray of int, shape (R,)
        The steps of each stretch.
    """

    values: np.ndarray
    heights: np.ndarray
    first: np.ndarray
    last: np.ndarray


def ridges(found: Density) -> Ridges:
    """The run in at most `RIDGES` stretches of steps that hold values, about equally many each."""
    held = np.flatnonzero(found.counts.sum(axis=1))
    stretches = np.array_split(held, min(RIDGES, len(held)))
    counts = np.stack([found.counts[stretch].sum(axis=0) for stretch in stretches]).astype(float)
    shares = counts / counts.sum(axis=1, keepdims=True)
    edges = found.axis.edges
    if found.axis.known:
        values = np.repeat(edges, 2)[1:-1]
        shares = np.repeat(shares, 2, axis=1)
    else:
        values = np.sqrt(edges[1:] * edges[:-1]) if found.axis.log else (edges[1:] + edges[:-1]) / 2
        shares = np.stack([np.convolve(share, _SMOOTH, mode="same") for share in shares])
    nothing = np.zeros((len(shares), 1))
    return Ridges(
        np.concatenate([edges[:1], values, edges[-1:]]),
        np.hstack([nothing, shares / shares.max(), nothing]),
        np.array([found.first + stretch[0] * found.width for stretch in stretches]),
        np.array([found.first + (stretch[-1] + 1) * found.width - 1 for stretch in stretches]),
    )


class RidgePlot:
    """The ridges of one column; as `rlpanel.panels.plots.density_plot.DensityPlot` without a cursor."""

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
        self.found: Density | None = None
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
        """Bring the ridges to a snapshot."""
        before, self.found = self.found, density(snapshot, self._column, log=self.log, before=self.found)
        if before is None or self.found is None or not _equal(before, self.found):
            self._rebuild()

    def move_cursor(self, step: int | None) -> None:
        """The stretch with the selected step stands out."""
        if self._drawn is not None and self._at(step) != self._at(self._step):
            self._step = step
            self._rebuild()
        self._step = step

    def restyle(self, dark: bool) -> None:
        """Colours for dark or light."""
        if dark != self._dark:
            self._dark = dark
            self._rebuild()

    def _rebuild(self) -> None:
        self._drawn = ridges(self.found) if self.found is not None else None
        self.pane.object = self._overlay(self._drawn) if self._drawn is not None else None

    def _overlay(self, shape: Ridges) -> Any:
        """The ridges as HoloViews has them; time runs down, so the newest is drawn last."""
        import holoviews as hv

        if "bokeh" not in hv.Store.renderers:
            hv.extension("bokeh")
        colors = theme.palette(self._dark)
        here = self._at(self._step)
        areas = []
        for place, heights in enumerate(shape.heights):
            base = np.full(len(heights), -float(place))
            area = hv.Area((shape.values, base, base + heights * REACH), "value", ["base", "top"])
            areas.append(
                area.opts(
                    color=colors[self._color],
                    line_color=colors["text"] if place == here else colors["surface"],
                    line_width=1.4 if place == here else 0.8,
                    fill_alpha=0.9 if place == here else 0.6,
                    backend="bokeh",
                )
            )
        labels = [(-place, _label(first, last)) for place, (first, last) in _stretches(shape)][::2]
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
        """The house's style, and the click."""
        figure = plot.state
        theme.restyle(figure, self._dark)
        figure.ygrid.visible = False
        figure.on_event(Tap, self._tapped)

    def _at(self, step: int | None) -> int:
        """Which ridge a step belongs to; -1 for none."""
        if step is None or self._drawn is None:
            return -1
        return int(np.clip(np.searchsorted(self._drawn.last, step), 0, len(self._drawn.last) - 1))

    def _tapped(self, event: Any) -> None:
        if self.found is None or self._drawn is None or event.x is None:
            return
        place = int(np.clip(round(-event.y + 0.4), 0, len(self._drawn.last) - 1))
        step = float(self._drawn.last[place])
        low, high = self.found.cell(self.found.place(step), event.x)
        self._on_pick(step, ValueRange(self._column, low, high))


def _stretches(shape: Ridges) -> list[tuple[int, tuple[int, int]]]:
    return list(enumerate(zip(shape.first.tolist(), shape.last.tolist(), strict=True)))


def _label(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"


def _equal(before: Density, after: Density) -> bool:
    return before.axis == after.axis and np.array_equal(before.counts, after.counts)
