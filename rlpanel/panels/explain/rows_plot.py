"""A plot of what the rows below it list, which is hidden while there is nothing to draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel as pn
from panel.viewable import Viewer

from rlpanel.panels.explain.link_rows import LinkRows


class RowsPlot(Viewer):
    """Plot above rows; it is drawn as soon as the browser has drawn the rows.

    A browser that still builds the tab's views ignores a child that is replaced: the plot would stay blank.

    Parameters
    ----------
    rows : LinkRows
    name : str
        CSS class.
    draw : callable
        Returns the plot, a HoloViews object, or None while there is nothing to draw.
    """

    def __init__(self, rows: LinkRows, name: str, draw: Callable[[], Any]) -> None:
        super().__init__()
        self._rows, self._draw = rows, draw
        self._pane = pn.pane.HoloViews(None, sizing_mode="stretch_width", margin=0, linked_axes=False)
        self._box = pn.Column(
            self._pane, sizing_mode="stretch_width", margin=(0, 8), visible=False, css_classes=[name]
        )
        rows.param.watch(self.update, "drawn")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._box

    def update(self, *_: Any) -> None:
        """Draw the plot again."""
        if self._rows.drawn:
            plot = self._draw()
            self._pane.object = plot
            self._box.visible = plot is not None
