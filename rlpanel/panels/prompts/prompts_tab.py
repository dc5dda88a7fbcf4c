"""Through training: the sample's prompt over the steps, and the prompts that never get better."""

from __future__ import annotations

from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.panels.compare.response_diff import select
from rlpanel.panels.prompts.prompt_history import PromptHistory
from rlpanel.panels.prompts.unsolved_prompts import UnsolvedPrompts
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.theme import safe_text

_ONE, _STUCK = "one", "stuck"


class PromptsTab(Viewer):
    """The sample's tab: a choice of the two, and what there is to say."""

    active = param.Boolean(default=False, doc="Whether the view is in sight; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self._what = select("what", 250)
        self._what.param.update(
            options={"this prompt over the steps": _ONE, "prompts that never get better": _STUCK}, value=_ONE
        )
        self._note = pn.pane.HTML(
            "", stylesheets=[theme.CSS], sizing_mode="stretch_width", margin=(6, 8),
            css_classes=["rl-over-time-note"],
        )  # fmt: skip
        self._one = PromptHistory(context, self._say)
        self._stuck = UnsolvedPrompts(context, self._say)
        self._column = pn.Column(
            pn.Row(self._what, self._note, sizing_mode="stretch_width", margin=(8, 10, 0, 10)),
            self._one,
            self._stuck,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
            css_classes=["rl-over-time"],
        )
        self._what.param.watch(self._turned, "value")
        self.param.watch(self._turned, "active")
        self._stuck.param.watch(lambda _: setattr(self._what, "value", _ONE), "picks")
        self._turned()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _turned(self, *_: Any) -> None:
        for key, part in ((_ONE, self._one), (_STUCK, self._stuck)):
            part.__panel__().visible = self._what.value == key
            part.active = self.active and self._what.value == key

    def _say(self, words: str) -> None:
        self._note.object = f'<span class="note">{safe_text(words)}</span>'
