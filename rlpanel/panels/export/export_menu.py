"""The export menu in the head of a card whose plot is a Bokeh figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import panel as pn
import param

from rlpanel.panel_fixes.html_pane import HtmlPane
from rlpanel.panels.export.card_export import CardExport
from rlpanel.panels.export.exporter import EXPORT_SCRIPTS, EXPORT_STYLES, Exporter
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text


class ExportMenu(Exporter):
    """The menu of one card, with its exports; it finds the card's figure in the browser.

    Parameters
    ----------
    context : Context
    get_export : callable
        As for `Exporter`.
    actions : sequence of tuple of str and callable
        Further entries: label, and what a click calls.
    **params
        Parameters of the component.
    """

    entries = param.List(default=[], item_type=str, doc="Labels of the further entries.")

    _esm = read_assets(*EXPORT_SCRIPTS, "panels/export/export_menu.js")
    _stylesheets = EXPORT_STYLES

    def __init__(
        self,
        context: Context,
        get_export: Callable[[], CardExport | None],
        actions: Sequence[tuple[str, Callable[[], None]]] = (),
        **params: Any,
    ) -> None:
        super().__init__(
            context,
            get_export,
            width=22,
            margin=(6, 6, 0, 2),
            css_classes=["rl-take"],
            entries=[label for label, _ in actions],
            **params,
        )
        self._actions = dict(actions)

    def receive(self, message: Any) -> None:
        """Export the card, or run the chosen entry."""
        action = self._actions.get(str(message))
        if action is None:
            super().receive(message)
        else:
            action()


def head_with_menu(head: HtmlPane, menu: ExportMenu) -> pn.Row:
    """Return a card's head with the export menu at its end."""
    head.margin = (7, 0, 0, 12)
    return pn.Row(head, menu, sizing_mode="stretch_width", margin=0)


def plot_with_menu(title: str, plot: Any, menu: ExportMenu, **options: Any) -> pn.Column:
    """Return a plot that is a part of a card, below its title and export menu."""
    caption = f'<span class="caption">{safe_text(title)}</span>'
    head = HtmlPane(caption, stylesheets=[theme.CSS], sizing_mode="stretch_width")
    return pn.Column(head_with_menu(head, menu), plot, margin=0, css_classes=["rl-plot"], **options)
