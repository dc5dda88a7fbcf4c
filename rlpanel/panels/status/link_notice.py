"""Notice about a link of another site: its search, filter and comparisons wait for the viewer."""

from __future__ import annotations

from typing import Any

from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.status.notice import Notice
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


class LinkNotice(Notice):
    """Shows what a link asks for, with buttons that run it or leave it out; hidden if nothing waits."""

    def __init__(self, context: Context) -> None:
        super().__init__(buttons={"run": tr("Run"), "leave": tr("Leave out")}, css_classes=["rl-link"])
        self.context = context
        context.param.watch(self._draw, "waiting_values")
        context.selection.param.watch(self._leave_out, "run")
        self._draw()

    def _draw(self, *_: Any) -> None:
        held = self.context.waiting_values
        self.param.update(html=notice_html(held) if held else "", visible=bool(held))

    def receive(self, message: Any) -> None:
        """Run what waits, or leave it out. The message comes from the browser."""
        if message == "run":
            held, self.context.waiting_values = self.context.waiting_values, {}
            self.context.selection.param.update(**held)
        elif message == "leave":
            self._leave_out()

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
    return f'<div class="row asks" role="status"><b>{question}</b>{values}</div>'


def _shortened(value: Any) -> str:
    return shorten(", ".join(value) if isinstance(value, list) else str(value), _LONGEST)
