"""The head of a card with a Bokeh figure: what the figure shows, and the export menu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import panel as pn
import param

from rlpanel.panels.export.card_export import CardExport
from rlpanel.panels.export.exporter import EXPORT_SCRIPTS, EXPORT_STYLES, Exporter
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text


class CardHead(Exporter):
    """The head of a card: what its figure shows, and the export menu. It stands beside the figure.

    It does not contain the figure: Panel visits all models of a component at each change of a value.

    Parameters
    ----------
    context : Context
    get_export : callable
        As for `Exporter`.
    actions : sequence of tuple of str and callable
        Further entries of the menu: label, and what a click calls.
    **params
        Parameters of the component.
    """

    head = param.String(default="", doc="The head as HTML; the caller has escaped what comes from a log.")
    value = param.String(default="", doc="What the head ends with, as HTML: it changes at each step.")
    entries = param.List(default=[], item_type=str, doc="Labels of the menu's further entries.")

    _esm = read_assets(*EXPORT_SCRIPTS, "panels/export/card_head.js")
    _stylesheets: ClassVar[list[str]] = [
        theme.CSS,
        *EXPORT_STYLES,
        read_assets("panels/export/card_head.css"),
    ]

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
            entries=[label for label, _ in actions],
            sizing_mode="stretch_width",
            margin=0,
            **params,
        )
        self._actions = dict(actions)

    @property
    def html(self) -> str:
        """The whole head as HTML, without the menu."""
        return self.head.removesuffix("</div>") + self.value + "</div>"

    def receive(self, message: Any) -> None:
        """Export the card, or run the chosen entry."""
        action = self._actions.get(str(message))
        if action is None:
            super().receive(message)
        else:
            action()


def titled_plot(title: str, plot: Any, head: CardHead, **params: Any) -> pn.Column:
    """Return a plot that is a part of a card, below its title and export menu."""
    head.head = f'<span class="caption">{safe_text(title)}</span>'
    return pn.Column(head, plot, margin=0, css_classes=["rl-plot"], **params)
