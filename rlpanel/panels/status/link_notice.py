"""Notice about a link of another site: its search, filter and comparisons wait for the viewer."""

from __future__ import annotations

from typing import Any

import panel as pn
from panel.viewable import Viewer

from rlpanel.panel_fixes.html_pane import HtmlPane
from rlpanel.panels.inputs.input_fields import button
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.theme import safe_text
from rlpanel.texts.shorten import shorten

#: Parameter of the selection → its name in the notice.
_NAMES = {
    "search": marked("search"),
    "filter": marked("filter"),
    "sort": marked("sort"),
    "overlay_runs": marked("runs over the curves"),
    "compared_run": marked("compared run"),
}
#: Most characters of a value that are shown.
_LONGEST = 200


class LinkNotice(Viewer):
    """Shows what a link asks for, with buttons that run it or leave it out; hidden if nothing waits."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._pane = HtmlPane(
            "",
            stylesheets=[theme.CSS, read_assets("panels/status/link_notice.css")],
            sizing_mode="stretch_width",
            align="center",
            margin=0,
        )
        self._row = pn.Row(
            self._pane,
            button(tr("Run"), self._run, margin=(0, 0, 0, 12), css_classes=["rl-run-link"]),
            button(tr("Leave out"), self._leave_out, margin=(0, 0, 0, 8)),
            sizing_mode="stretch_width",
            margin=0,
            visible=False,
            css_classes=["rl-link"],
        )
        context.param.watch(self._draw, "waiting_values")
        context.selection.param.watch(self._leave_out, "run")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._row

    def _draw(self, *_: Any) -> None:
        held = self.context.waiting_values
        with pn.io.hold():
            if held:
                self._pane.object = notice_html(held)
            self._row.visible = bool(held)

    def _run(self, *_: Any) -> None:
        held, self.context.waiting_values = self.context.waiting_values, {}
        self.context.selection.param.update(**held)

    def _leave_out(self, *_: Any) -> None:
        """Forget what the link asks for; also if another run is chosen, of which it knows nothing."""
        self.context.waiting_values = {}


def notice_html(held: dict[str, Any]) -> str:
    """Return the notice as HTML, with the values that wait."""
    values = "".join(
        f"<span>{tr(name)} <code>{safe_text(_shortened(held[key]))}</code></span>"
        for key, name in _NAMES.items()
        if held.get(key)
    )
    question = tr("This link comes from another site. Run its search and filter?")
    return f'<div class="row" role="status"><b>{question}</b>{values}</div>'


def _shortened(value: Any) -> str:
    return shorten(", ".join(value) if isinstance(value, list) else str(value), _LONGEST)
