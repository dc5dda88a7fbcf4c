"""What the board takes the training's constants to be, and where it has them from."""

from __future__ import annotations

from typing import Any

import panel as pn
from panel.viewable import Viewer

from rlpanel.metrics.engine.constants import DECLARED
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.html_pane import HtmlPane
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.snapshot.run_view import RunView

#: A usual value is worth a line only where a number of the run may rest on it.
_RESTS_ON = {
    "gamma": "return_pooled",
    "lam": "return_pooled",
    "epsilon": "clipfrac",
    "pass_reward": "pass_at_1",
}


class TrainingConstants(Viewer):
    """A quiet list in the side panel: value, and on hover where it comes from."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._pane = HtmlPane(
            "",
            stylesheets=[theme.CSS, read_assets("panels/sidebar/training_constants.css")],
            margin=(14, 12, 2, 12),
            sizing_mode="stretch_width",
            css_classes=["rl-known"],
        )
        context.param.watch(self._draw, "view")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._pane

    def _draw(self, *_: Any) -> None:
        rows = "".join(
            f'<div title="{safe_text(tip)}">{text}</div>' for text, tip in lines(self.context.view)
        )
        shown = f'<span class="caption">Training</span>{rows}' if rows else ""
        if shown != self._pane.object:
            self._pane.object = shown


def lines(view: RunView) -> list[tuple[str, str]]:
    """A line a constant, safe as HTML, with what stands behind it."""
    found = []
    for declared in DECLARED:
        known = view.constants.known.get(declared.name)
        if known is None or (known.origin == "usual" and _RESTS_ON.get(known.name) not in view.step_metrics):
            continue
        value = f"{known.value:g}" if isinstance(known.value, float) else str(known.value)
        text = (
            f"{safe_text(declared.label)} <b>{safe_text(value)}</b>"
            f' <span class="origin">{safe_text(known.origin)}</span>'
        )
        found.append((text, f"{declared.help} {known}"))
    return found
