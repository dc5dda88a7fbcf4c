"""Ridge plot of a column's values over the run: a few ridges, each a range of steps, the newest in front.

It is built with HoloViews on demand. Ridges are replaced as a whole, so nothing is streamed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import panel as pn
from bokeh.events import Tap

from rlpanel.panels.plots.plot_elements import ON_BOARD, Ridges, holoviews, ridge_area, ridges
from rlpanel.panels.plots.value_axis import ValueRange
from rlpanel.panels.ui import theme
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.value_density import Density, density


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
        colors, selected = theme.palette(self._dark), self._ridge_of(self._step)
        areas = []
        for ridge in range(len(shape.heights)):
            line: dict[str, Any] = (
                {"line_color": colors["text"], "line_width": 1.4, "fill_alpha": 0.9}
                if ridge == selected
                else {"line_color": colors["surface"], "line_width": 0.8, "fill_alpha": 0.6}
            )
            areas.append(
                ridge_area(shape, ridge, "value", color=colors[self._color], responsive=True, **line)
            )
        return holoviews().Overlay(areas).opts(
            **ON_BOARD, height=self._height, responsive=True, yticks=shape.ticks[::2], xlabel="", ylabel="",
            logx=self.log, hooks=[self._finish],
        )  # fmt: skip

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


def _equal(before: Density, after: Density) -> bool:
    return before.axis == after.axis and np.array_equal(before.counts, after.counts)
