"""Where? Small multiples of any column over the steps, with bands and the selected step's cursor."""

from __future__ import annotations

from typing import Any

import panel as pn
from panel.viewable import Viewer

from rlpanel.panels.curves.curve_card import CurveCard
from rlpanel.panels.curves.curve_selection import curves_of
from rlpanel.panels.curves.run_legend import RunLegend
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme


class Curves(Viewer):
    """The row of curve cards."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._cards: dict[tuple[str, ...], CurveCard] = {}
        self._row = pn.FlexBox(
            gap="10px",
            flex_wrap="wrap",
            align_content="stretch",
            sizing_mode="stretch_width",
            margin=0,
            css_classes=["rl-curves"],
        )
        self._column = pn.Column(RunLegend(context), self._row, sizing_mode="stretch_width", margin=0)
        selection, display = context.selection, context.display
        context.param.watch(self._data, ["view"])
        context.param.watch(self._overlay, ["others", "muted"])
        selection.param.watch(self._redraw, ["align", "smooth"])
        selection.param.watch(self._lay_out, ["curves"])
        selection.param.watch(self._cursor, ["step"])
        selection.param.watch(self._restyle, ["dark"])
        display.param.watch(self._lay_out, ["kl_estimator", "per_sequence"])
        display.param.watch(self._redraw, ["band", "variance_scale", "zero_shift", "log_values"])
        self._lay_out()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _lay_out(self, *_: object) -> None:
        """Keep the cards that stay, make those that are new."""
        before = self._cards
        self._cards = {
            curve.columns: before.get(curve.columns) or CurveCard(self.context, curve)
            for curve in curves_of(self.context)
        }
        cards = [card.card for card in self._cards.values()]
        if cards != list(self._row.objects):
            self._row.objects = cards
        self._redraw()

    def _data(self, event: Any) -> None:
        if event.old.snapshot.name != event.new.snapshot.name:
            self._cards = {}
        self._lay_out()

    def _redraw(self, *_: object) -> None:
        with theme.drawing():
            for card in self._cards.values():
                card.draw()

    def _overlay(self, event: Any) -> None:
        if event.name == "muted" or bool(event.old) != bool(event.new):
            self._redraw()  # the run's own colour changes, too
            self._restyle()
            return
        with theme.drawing():
            for card in self._cards.values():
                card.overlay.draw()

    def _cursor(self, *_: object) -> None:
        with theme.drawing():
            for card in self._cards.values():
                card.move_cursor()

    def _restyle(self, *_: object) -> None:
        with theme.drawing():
            for card in self._cards.values():
                card.restyle()
