"""Prompts tab of the sample panel: history of the sample's prompt, or table of unsolved prompts."""

from __future__ import annotations

from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.panels.inputs.input_fields import FieldRow, select_field
from rlpanel.panels.language.labels import tr
from rlpanel.panels.prompts.prompt_history import PromptHistory
from rlpanel.panels.prompts.unsolved_prompts import UnsolvedPrompts
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text

_HISTORY, _UNSOLVED = "one", "stuck"


class PromptsTab(Viewer):
    """Tab with the choice of view and a line of text about it."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self._mode = select_field("what", tr("Prompts"), 250)
        self._mode.param.update(
            options={tr("History of this prompt"): _HISTORY, tr("Unsolved prompts"): _UNSOLVED},
            value=_HISTORY,
        )
        self._note = Html(
            stylesheets=[theme.CSS], sizing_mode="stretch_width", margin=(6, 8),
            css_classes=["rl-over-time-note"],
        )  # fmt: skip
        self._history = PromptHistory(context, self._show_note)
        self._unsolved = UnsolvedPrompts(context, self._show_note)
        self._column = pn.Column(
            FieldRow(self._mode, self._note, margin=(8, 10, 0, 10)),
            self._history,
            self._unsolved,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-over-time"],
        )
        self._mode.param.watch(self._activate, "value")
        self.param.watch(self._activate, "active")
        self._unsolved.param.watch(lambda _: setattr(self._mode, "value", _HISTORY), "picks")
        self._activate()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _activate(self, *_: Any) -> None:
        """Show and activate the chosen view only."""
        for key, view in ((_HISTORY, self._history), (_UNSOLVED, self._unsolved)):
            view.__panel__().visible = self._mode.value == key
            view.active = self.active and self._mode.value == key

    def _show_note(self, text: str) -> None:
        self._note.html = f'<span class="note">{safe_text(text)}</span>'
