"""Rows that link to samples: each is a button with a bar, a text and numbers.

A click on a share, a difference or a cluster filters the grid, and selects a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.errors import SampleNotFound
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.export.card_export import well_formed
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.texts.shorten import marked_line

#: Maximum number of characters of a label.
LABEL_CHARS = 200
_PARAGRAPHS = "p { margin: 0 0 6px; overflow-wrap: anywhere; }"


class LinkRows(Component):
    """A list of rows, drawn by ``link_rows.js``; a click calls ``pick`` with the row's key."""

    rows = param.List(default=[], doc="Rows as made by `link_row`, and headings: ``{'heading': text}``.")
    titles = param.List(default=[], doc="Titles: bar, value, label, and each number.")
    chosen = param.String(default="", doc="Key of the row that was clicked last.")
    drawn = param.Boolean(default=False, doc="Set by the browser once it has drawn the rows.")

    _esm = read_assets("panels/ui/dom.js", "panels/explain/link_rows.js")
    _stylesheets: ClassVar[list[str]] = [theme.CSS, read_assets("panels/explain/link_rows.css")]

    def __init__(self, pick: Callable[[str], None], name: str) -> None:
        super().__init__(sizing_mode="stretch_width", margin=(4, 8), css_classes=[name])
        self._pick = pick

    def receive(self, message: Any) -> None:
        """Mark and pick the row that was clicked."""
        keys = {row.get("key") for row in self.rows}
        if isinstance(message, str) and message in keys:  # the rows may have changed since
            self.chosen = message
            self._pick(message)


def link_row(
    key: str,
    label: str,
    value: str,
    bar: float,
    numbers: list[str],
    *,
    kind: str = "",
    tip: str = "",
    signed: bool = False,
    error: float = 0.0,
) -> dict[str, Any]:
    """Return a row with texts and a bar: its length is from -1 to 1, its standard error on the same scale."""
    return {
        "key": well_formed(key),
        "label": well_formed(marked_line(label, LABEL_CHARS)),
        "value": value,
        "bar": bar if bar == bar else 0.0,
        "numbers": numbers,
        "kind": well_formed(kind),
        "tip": well_formed(tip),
        "signed": signed,
        "error": error if error == error else 0.0,
    }


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


def note_pane(name: str) -> Html:
    """Return an empty pane for paragraphs of escaped text; ``name`` is its CSS class."""
    return Html(
        stylesheets=[theme.CSS, _PARAGRAPHS],
        sizing_mode="stretch_width",
        margin=(8, 16, 0, 16),
        css_classes=[name],
    )


def caption(text: str) -> Html:
    """Return a short text before a field."""
    return Html(
        html=f'<span class="note">{theme.safe_text(text)}</span>',
        stylesheets=[theme.CSS],
        margin=(4, 4),
        align="center",
    )


def both(*filters: str) -> str:
    """Return a filter that passes what all of these pass; empty ones pass everything."""
    given = [text for text in filters if text]
    return given[0] if len(given) == 1 else " and ".join(f"({text})" for text in given)


def show_samples(context: Context, where: str, uids: Sequence[str], step: int | None = None) -> None:
    """Filter the grid, and select the first of these samples that the run has.

    Parameters
    ----------
    context : Context
    where : str
        Filter expression; empty keeps the grid's filter, and only selects the sample.
    uids : sequence of str
    step : int, optional
        Step to show; None for a filter over the whole run.
    """
    selection = context.selection
    uid = next((uid for uid in uids if _step_of(context, uid) is not None), "")
    at = step if step is not None else _step_of(context, uid) if uid else None
    changes: dict[str, object] = {"follow": False, "token": -1, "uid": uid}
    if at is not None:
        changes["step"] = at
    if where:
        changes |= {"filter": where, "scope": "step" if step is not None else "run", "search": ""}
    selection.param.update(**changes)


def _step_of(context: Context, uid: str) -> int | None:
    """Return the step of a sample; None if the run does not have it."""
    try:
        return int(context.snapshot.metadata("step")[context.snapshot.row(uid)])
    except SampleNotFound:
        return None
