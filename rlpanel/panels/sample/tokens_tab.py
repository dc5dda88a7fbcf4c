"""The tab of a sample's prompt and its response token by token."""

from __future__ import annotations

from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.panels.session.context import Context
from rlpanel.panels.texts.prompt_text import prompt_block, text_pane
from rlpanel.panels.texts.text_style import STYLE_SETTINGS, text_style
from rlpanel.panels.tokens.token_view import TokenView


class TokensTab(Viewer):
    """Prompt and token view of the shown sample; metric and pinned token go both ways with the selection."""

    active = param.Boolean(default=False, doc="Whether the tab is open; nothing is sent to it before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        selection = context.selection
        self._prompt = text_pane("rl-prompt")
        self._tokens = TokenView(dark=selection.dark, metric=selection.metric)
        self._tokens.__panel__().margin = (0, 14)
        self._column = pn.Column(
            self._prompt,
            self._tokens,
            sizing_mode="stretch_both",
            scroll="y-auto",
            margin=0,
        )
        for name in ("metric", "token"):
            selection.param.watch(lambda event: setattr(self._tokens, event.name, event.new), name)
            self._tokens.param.watch(lambda event: setattr(selection, event.name, event.new), name)
        selection.param.watch(lambda event: setattr(self._tokens, "dark", event.new), "dark")
        context.param.watch(self._draw, "sample")
        context.param.watch(self._draw_prompt, "text_conditions")
        context.display.param.watch(self._draw, [*STYLE_SETTINGS, "kl_estimator"])
        self.param.watch(self._draw, "active")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        if not self.active:
            return
        sample, display = self.context.sample, self.context.display
        with pn.io.hold():
            self._draw_prompt()
            self._tokens.param.update(
                sample=sample,
                pad_token=display.pad_token,
                kl_estimator=display.kl_estimator,
                token=self.context.selection.token,
            )

    def _draw_prompt(self, *_: Any) -> None:
        if self.active:
            context = self.context
            self._prompt.html = prompt_block(context.sample, text_style(context), context.text_conditions)
