"""A card with bars: title, notes, export menu and plot in one component, drawn as SVG by the browser.

A Bokeh figure would be some forty models in each page that opens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import param

from rlpanel.panels.export.card_export import CardExport
from rlpanel.panels.export.exporter import EXPORT_SCRIPTS, EXPORT_STYLES, Exporter
from rlpanel.panels.plots.bar_layers import HEIGHT
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text


class BarCard(Exporter):
    """One card; `on_pick` is called with the x coordinate of a click, `on_brush` with both ends of a drag.

    Parameters
    ----------
    context : Context
    get_export : callable
        Returns what the card shows now; None while it shows nothing.
    css_name : str
        CSS class of the card.
    on_pick, on_brush : callable, optional
    """

    head = param.Dict(default={}, doc="Title, tip (tooltip) and notes: pairs of text and CSS class.")
    plot = param.Dict(default={}, doc="The plot, as returned by `bar_plot`.")
    marker = param.Number(default=None, allow_None=True, doc="Position of a vertical line.")
    clickable = param.Boolean(default=False, doc="Whether bars can be clicked.")
    brushable = param.Boolean(default=False, doc="Whether a drag over the bars chooses a range.")
    height_px = param.Integer(default=HEIGHT, doc="Height of the plot in pixels.")

    _esm = read_assets(*EXPORT_SCRIPTS, "panels/plots/bar_plot.js", "panels/export/bar_card.js")
    _stylesheets: ClassVar[list[str]] = [
        theme.CSS,
        *EXPORT_STYLES,
        read_assets("panels/plots/bar_plot.css"),
        read_assets("panels/export/bar_card.css"),
    ]

    def __init__(
        self,
        context: Context,
        get_export: Callable[[], CardExport | None],
        css_name: str,
        *,
        on_pick: Callable[[float], None] | None = None,
        on_brush: Callable[[float, float], None] | None = None,
        **params: Any,
    ) -> None:
        defaults: dict[str, Any] = {
            "styles": {**theme.CARD, "overflow": "visible", "flex": "1 1 165px", "min-width": "165px"},
            "margin": 0,
            "css_classes": ["rl-card", css_name],
        }
        usable = {"clickable": on_pick is not None, "brushable": on_brush is not None}
        super().__init__(context, get_export, **{**defaults, **usable, **params})
        self._on_pick, self._on_brush = on_pick, on_brush

    def draw(self, head: dict[str, Any], plot: dict[str, Any], marker: float | None = None) -> None:
        """Show the card with another head and plot, both JSON objects, and a vertical line."""
        self.param.update(head=head, plot=plot, marker=marker, visible=True)

    def receive(self, message: Any) -> None:
        """Export the card, or pick the bar or range that was chosen."""
        match message:
            case ["pick", int(x) | float(x)] if self._on_pick is not None:
                self._on_pick(float(x))
            case ["brush", int(low) | float(low), int(high) | float(high)] if self._on_brush is not None:
                self._on_brush(float(low), float(high))
            case str():
                super().receive(message)

    def head_html(self) -> str:
        """Return the head as HTML, for a page without a server."""
        notes = "".join(
            f' <span class="unit {safe_text(style)}">{safe_text(text)}</span>'
            for text, style in self.head.get("notes", [])
        )
        title, tip = safe_text(self.head.get("title", "")), safe_text(self.head.get("tip", ""))
        return f'<div class="head" title="{tip}"><b>{title}</b>{notes}</div>'
