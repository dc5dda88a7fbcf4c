"""Small multiples: a curve card per column over the steps, with bands and a cursor at the selected step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.board_url import STEP, TIME
from rlpanel.display_settings import BANDS
from rlpanel.number_text import number
from rlpanel.panels.curves.curve_bar import Curve, CurveBar, curves_of
from rlpanel.panels.curves.curve_card import CurveCard
from rlpanel.panels.curves.curve_plot import CurveWindow, round_ends
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.snapshot.alignment import alignment_of, chosen_axis
from rlpanel.store.snapshot.run_view import RunView

#: Number of steps on either side of the selected one that the button shows.
_AROUND = 10
#: Class of a row whose cards have no plots: it keeps no room for them.
_PLAIN = "rl-plain"
#: Band → its label; a card without a band has none.
BAND_LABELS = {band: label for label, band in BANDS.items() if band not in ("auto", "none")}


class Curves(Viewer):
    """The row of curve cards, with their bar above it.

    Parameters
    ----------
    context : Context
    linked : bool
        Whether a zoom in one card moves the others. A report draws each plot in a document of its own.
    lazy : bool
        Whether the caller creates the cards by `card_steps`.
    """

    active = param.Boolean(default=True, doc="Whether the curves are in sight; nothing is drawn while not.")

    def __init__(self, context: Context, *, linked: bool = True, lazy: bool = False, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._linked = linked
        self._building = lazy  # whether the steps of `card_steps` are not done
        self._drawn: RunView | None = None  # the view that all cards have drawn
        self._run = context.snapshot.name  # the run of the cards
        #: The cards by their columns, and whether the axis is logarithmic.
        self.cards: dict[tuple[tuple[str, ...], bool], CurveCard] = {}
        self._window = self._new_window()
        #: The layout of the cards.
        self.row = pn.Row(
            sizing_mode="stretch_width",
            margin=0,
            css_classes=["rl-curves"],
            stylesheets=[read_assets("panels/curves/curve_row.css")],
        )
        #: The bar above them.
        self.bar = CurveBar(context, self._zoom)
        self._column = pn.Column(self.bar, self.row, sizing_mode="stretch_width", margin=0)
        selection, display = context.selection, context.display
        context.param.watch(self._on_snapshot, ["view"])
        context.param.watch(self._on_overlay, ["overlays", "hidden_runs"])
        selection.param.watch(self._on_axis, ["align", "zoom"])
        selection.param.watch(self._redraw, ["smooth"])
        selection.param.watch(self._update_cards, ["curves", "log_curves"])
        selection.param.watch(self._move_cursors, ["step"])
        context.param.watch(self._shade, ["shaded_steps", "shaded_by_column"])
        context.param.watch(self._reveal, ["revealed_column"])
        selection.param.watch(self._restyle, ["dark"])
        display.param.watch(self._update_cards, ["kl_estimator", "per_sequence"])
        display.param.watch(self._redraw, ["band", "variance_scale", "zero_shift", "run_events"])
        context.param.watch(self._redraw, ["notes_version", "chain_marks"])
        self.param.watch(self._on_active, "active")
        self._update_cards()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def card_steps(self) -> Iterator[Callable[[], None]]:
        """Yield the steps that create the cards: one for each card, since a card takes long."""
        for curve in curves_of(self.context):
            if self.active:
                yield partial(self._create_card, curve)
        yield self._finish_building

    def _finish_building(self) -> None:
        self._building = False
        self._update_cards()
        self.bar.zoom_to(self._window.zoomed)

    def _create_card(self, curve: Curve) -> None:
        """Create the card of a curve unless it exists."""
        key = (curve.columns, curve.log)
        if key not in self.cards:
            window = self._window if self._linked else None
            self.cards[key] = CurveCard(self.context, curve, window)

    def _update_cards(self, *_: object) -> None:
        """Keep the cards that are still wanted and create the missing ones, unless steps create them."""
        if self._building or not self.active:
            return
        if self._run != self.context.snapshot.name:
            self._discard_cards()
        curves = curves_of(self.context)
        for curve in curves:
            self._create_card(curve)
        keys = [(curve.columns, curve.log) for curve in curves]
        self.cards = {key: self.cards[key] for key in keys}
        cards = [card.card for card in self.cards.values()]
        if cards != list(self.row.objects):
            self.row.objects = cards
        self._redraw()

    def _on_snapshot(self, event: Any) -> None:
        # Cards that a page of the new run has drawn stay. The browser would never get cards that are replaced
        # in the same hold, but it would get the changes of their figures.
        if event.new.snapshot.name != self._run:
            self._discard_cards()
            self._building = self.active
            for step in self.card_steps():
                self.context.draw_later(step)
        else:
            self._update_cards()

    def _on_axis(self, *changes: param.parameterized.Event) -> None:
        """Show the axis and the zoom of the selection; a zoom of another axis has no meaning."""
        changed, selection = {change.name for change in changes}, self.context.selection
        if "align" in changed:
            if "zoom" not in changed:
                selection.zoom = None
            self._discard_cards()
            self._update_cards()
        elif selection.zoom != self._window.zoomed:
            self._window.zoomed = selection.zoom
            self.bar.zoom_to(selection.zoom)

    def _discard_cards(self) -> None:
        """Let all cards be created again: an axis that was zoomed cannot follow another run."""
        self.cards, self._window, self._run = {}, self._new_window(), self.context.snapshot.name

    def _new_window(self) -> CurveWindow:
        window = CurveWindow(zoomed=self.context.selection.zoom)
        window.param.watch(self._on_zoom, "zoomed")
        return window

    def _on_zoom(self, *_: object) -> None:
        """Fit the value axes to the zoomed steps; a zoom that shows all steps is none."""
        zoomed = self._window.zoomed
        if zoomed is not None and self.cards and all(card.is_whole for card in self.cards.values()):
            self._window.zoomed = None
            return
        with theme.hold_changes():
            for card in self.cards.values():
                card.fit()
            self._name_zoom()
        if self._linked:
            self.context.selection.zoom = zoomed

    def _name_zoom(self) -> None:
        """Write the range of the zoom into the bar, once the run has steps."""
        self.bar.zoom = self._zoom_text() if len(self.context.snapshot.steps.values) else ""

    def _zoom_text(self) -> str:
        """Return the range of the zoom; empty if all steps are shown."""
        if self._window.zoomed is None:
            return ""
        alignment = alignment_of(self.context.snapshot, self.context.selection.align)
        start, end = self._window.zoomed
        if alignment == TIME:
            return tr("hours {first}–{last}", first=number(start), last=number(end))
        first, last = math.ceil(start), math.floor(end)
        if alignment == STEP:
            steps = self.context.snapshot.steps.values
            inside = first <= steps[-1] and last >= steps[0]
            first, last = (max(first, steps[0]), min(last, steps[-1])) if inside else (first, last)
            return tr("steps {first}–{last}", first=first, last=last)
        return tr("samples {first:,}–{last:,}", first=max(first, 0), last=last)

    def _zoom(self, near: bool) -> None:
        """Show the steps around the selected one, or all steps."""
        selection = self.context.selection
        if not near:
            selection.zoom = None
            return
        axis, step = chosen_axis(self.context.snapshot, selection.align), selection.step
        if step is None or not len(axis.steps):
            return
        at = int(np.searchsorted(axis.steps, step))
        around = axis.positions[max(0, at - _AROUND) : at + _AROUND + 1]
        if around[-1] > around[0]:
            selection.zoom = round_ends(float(around[0]), float(around[-1]))

    def _follow(self) -> None:
        """Let the common axis follow the lines of the cards, and describe the bands that they show.

        The browser must have the cards: the axis refers to parts of their figures.
        """
        cards = self.cards.values()
        for card in cards:
            card.follow([line for each in (cards if self._linked else [card]) for line in each.lines])
        by_band: dict[str, list[str]] = {}
        for card in cards:
            if card.band in BAND_LABELS:
                by_band.setdefault(tr(BAND_LABELS[card.band]), []).append(card.curve.title)
        plots = any(card.pane.visible for card in cards)
        self.bar.plots = plots
        self.row.css_classes = ["rl-curves"] if plots else ["rl-curves", _PLAIN]
        self.bar.show_events(self._window.events.of(self.context))
        several = len(by_band) > 1
        self.bar.said = " · ".join(
            f"{', '.join(titles)}: {band}" if several else band for band, titles in by_band.items()
        )

    def _on_active(self, *_: object) -> None:
        self._update_cards()
        self._move_cursors()
        if self.active and self._window.zoomed is not None:
            self.bar.zoom_to(self._window.zoomed)

    def _redraw(self, *_: object) -> None:
        if not self.active:
            return
        self._drawn = self.context.view
        with theme.hold_changes():
            for card in self.cards.values():
                card.draw()
            self._follow()
            self._name_zoom()

    def _on_overlay(self, event: Any) -> None:
        if event.name == "hidden_runs" or bool(event.old) != bool(event.new):
            self._redraw()  # the selected run's colour changes as well
            self._restyle()
            return
        with theme.hold_changes():
            for card in self.cards.values():
                card.overlay.draw()
                card.fit()
            self._follow()

    def _move_cursors(self, *_: object) -> None:
        if not self._building and self._drawn is not self.context.view:
            return  # the newest step was followed; the cards are drawn next
        with theme.hold_changes():
            for card in self.cards.values():
                card.move_cursor()

    def _shade(self, *_: object) -> None:
        with theme.hold_changes():
            for card in self.cards.values():
                card.shade()

    def _reveal(self, *_: object) -> None:
        """Scroll to the card of the revealed column."""
        shown = [columns[0] for columns, _ in self.cards]
        if self.context.revealed_column in shown:
            self.bar.scroll_to(shown.index(self.context.revealed_column), len(shown))

    def _restyle(self, *_: object) -> None:
        with theme.hold_changes():
            for card in self.cards.values():
                card.restyle()
