"""Tab *History* of the sample: its prompt over the steps, below a line of text about it."""

from __future__ import annotations

from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.panels.prompts.prompt_history import PromptHistory
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text


class PromptsTab(Viewer):
    """History of the sample's prompt."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self._note = Html(
            stylesheets=[theme.CSS], sizing_mode="stretch_width", margin=(10, 14, 0, 14),
            css_classes=["rl-over-time-note"],
        )  # fmt: skip
        self._history = PromptHistory(context, self._show_note)
        self._column = pn.Column(
            self._note,
            self._history,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-over-time"],
        )
        self.param.watch(self._activate, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _activate(self, *_: Any) -> None:
        self._history.active = self.active

    def _show_note(self, text: str) -> None:
        self._note.html = f'<span class="note">{safe_text(text)}</span>'
