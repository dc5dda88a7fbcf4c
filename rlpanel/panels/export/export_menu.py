"""The small menu in a card's head: its plot as PNG or SVG, its numbers as CSV, defused or raw.

Nothing is made or sent before it is asked for: the browser asks, and gets the numbers as a file, or the
words and colours around a picture that it takes of its own plot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import panel as pn
from panel.custom import JSComponent

from rlpanel.panels.export.card_export import CardExport, well_formed
from rlpanel.panels.session.background_task import BackgroundTask
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.query.csv_export import csv_text

#: What the browser may ask for, and the ending of the file.
KINDS = {"png": "png", "svg": "svg", "csv": "csv", "csv-raw": "csv"}


class ExportMenu(JSComponent):
    """The menu.

    Parameters
    ----------
    context : Context
    tell : callable
        What the card shows now; None while it shows nothing.
    """

    _esm = read_assets(
        "panels/ui/dom.js",
        "panels/export/download.js",
        "panels/ui/menu.js",
        "panels/export/plot_image.js",
        "panels/export/export_menu.js",
    )
    _stylesheets = [read_assets("panels/ui/menu.css"), read_assets("panels/export/export_menu.css")]

    def __init__(self, context: Context, tell: Callable[[], CardExport | None], **params: Any) -> None:
        super().__init__(width=22, margin=(6, 6, 0, 2), css_classes=["rl-take"], **params)
        self._context, self._tell = context, tell
        self._making: BackgroundTask[dict[str, Any]] = BackgroundTask(self._send_msg)

    def _handle_msg(self, msg: Any) -> None:
        kind, taken = str(msg), self._tell()
        if taken is None or kind not in KINDS:
            return
        name = well_formed(f"{taken.name}.{KINDS[kind]}")
        if KINDS[kind] == "csv":
            self._making.start(_numbers(name, taken, raw=kind == "csv-raw"))
        else:
            colors = theme.palette(self._context.selection.dark)
            picture = {"title": well_formed(taken.title), "words": well_formed(taken.words)}
            legend = [[well_formed(text), colors.get(color, color)] for text, color in taken.legend]
            look = {key: colors[key] for key in ("surface", "text", "muted")} | {"font": theme.FONT}
            self._send_msg({"file": name, "kind": kind, **picture, "legend": legend, "look": look})


def headed(head: pn.pane.HTML, take: ExportMenu) -> pn.Row:
    """A card's head with the menu at its end."""
    head.margin = (7, 0, 0, 12)
    return pn.Row(head, take, sizing_mode="stretch_width", margin=0)


def plot_with_menu(title: str, plot: Any, take: ExportMenu, **options: Any) -> pn.Column:
    """A plot that is a part of a card, under its title with the menu."""
    said = f'<span class="caption">{safe_text(title)}</span>'
    head = pn.pane.HTML(said, stylesheets=[theme.CSS], sizing_mode="stretch_width")
    return pn.Column(headed(head, take), plot, margin=0, css_classes=["rl-plot"], **options)


def _numbers(name: str, taken: CardExport, *, raw: bool) -> Iterator[dict[str, Any]]:
    yield {"file": name, "kind": "csv", "text": well_formed(csv_text(taken.rows(), raw=raw))}
