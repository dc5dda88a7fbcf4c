"""Component with a menu that exports a card: its plot as PNG or SVG, its data as CSV.

Formulas in a CSV are defused, unless the raw one is chosen.

Nothing is computed or sent before the browser requests it. For CSV it receives the file; for a picture it
receives title, subtitle, legend and colours, and draws them around its own plot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rlpanel.panel_fixes.component import Component
from rlpanel.panels.export.card_export import CardExport, well_formed
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.query.csv_text import csv_text

#: Kind of export that the browser may request → file extension.
KINDS = {"png": "png", "svg": "svg", "csv": "csv", "csv-raw": "csv"}

#: Scripts of the menu; the component's own script follows.
EXPORT_SCRIPTS = (
    "panels/ui/dom.js",
    "panels/ui/svg.js",
    "panels/export/download.js",
    "panels/ui/closing.js",
    "panels/ui/menu.js",
    "panels/export/plot_image.js",
    "panels/export/card_menu.js",
)
EXPORT_STYLES = [read_assets("panels/ui/menu.css"), read_assets("panels/export/export_menu.css")]


class Exporter(Component):
    """Base class of components with an export menu.

    Parameters
    ----------
    context : Context
    get_export : callable
        Returns what the card shows now; None while it shows nothing.
    """

    __abstract = True

    def __init__(self, context: Context, get_export: Callable[[], CardExport | None], **params: Any) -> None:
        super().__init__(**params)
        self._context, self._get_export = context, get_export
        self._csv_task: BackgroundTask[dict[str, Any]] = BackgroundTask(self.send, context.threads.views)

    def receive(self, message: Any) -> None:
        """Send the export of the chosen kind."""
        kind, export = str(message), self._get_export()
        if export is None or kind not in KINDS:
            return
        name = well_formed(f"{export.name}.{KINDS[kind]}")
        if KINDS[kind] == "csv":
            self._csv_task.start(_csv_message(name, export, raw=kind == "csv-raw"))
        else:
            colors = theme.palette(self._context.selection.dark)
            texts = {"title": well_formed(export.title), "words": well_formed(export.words)}
            legend = [[well_formed(text), colors.get(color, color)] for text, color in export.legend]
            look = {key: colors[key] for key in ("surface", "text", "muted")} | {"font": theme.FONT}
            self.send({"file": name, "kind": kind, **texts, "legend": legend, "look": look})


def _csv_message(name: str, export: CardExport, *, raw: bool) -> Iterator[dict[str, Any]]:
    yield {"file": name, "kind": "csv", "text": well_formed(csv_text(export.rows(), raw=raw))}
