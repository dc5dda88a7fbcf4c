"""List of the training constants (β, γ, λ, ε, …) in the sidebar, with the source of each value."""

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

#: Constant → step metric computed from it. A default value is listed only if the run has that metric.
_USED_BY = {
    "gamma": "return_pooled",
    "lam": "return_pooled",
    "epsilon": "clipfrac",
    "pass_reward": "pass_at_1",
}


class TrainingConstants(Viewer):
    """List of constants with their values; the tooltip explains where a value comes from."""

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
        html = f'<span class="caption">Training</span>{rows}' if rows else ""
        if html != self._pane.object:
            self._pane.object = html


def lines(view: RunView) -> list[tuple[str, str]]:
    """Return a line of HTML and a tooltip (plain text) for each constant."""
    pairs = []
    for declared in DECLARED:
        constant = view.constants.by_name.get(declared.name)
        if constant is None or (
            constant.origin == "usual" and _USED_BY.get(constant.name) not in view.step_metrics
        ):
            continue
        value = f"{constant.value:g}" if isinstance(constant.value, float) else str(constant.value)
        text = (
            f"{safe_text(declared.label)} <b>{safe_text(value)}</b>"
            f' <span class="origin">{safe_text(constant.origin)}</span>'
        )
        pairs.append((text, f"{declared.help} {constant}"))
    return pairs
