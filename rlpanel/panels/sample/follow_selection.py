"""Lets a view of texts follow theme, metric, scale and pinned token of the selection."""

from __future__ import annotations

from collections.abc import Sequence

from rlpanel.panels.conversation.conversation_view import ConversationView
from rlpanel.panels.session.context import Selection
from rlpanel.panels.tokens.token_view import TokenView

#: Parameters that views and selection have in common.
SHARED = ("metric", "token", "scale")


def follow_selection(
    view: TokenView | ConversationView, selection: Selection, shared: Sequence[str] = SHARED
) -> None:
    """Let a view follow the theme; the shared parameters go both ways with the selection."""
    view.scale = selection.scale
    for name in shared:
        selection.param.watch(lambda event: setattr(view, event.name, event.new), name)
        view.param.watch(lambda event: setattr(selection, event.name, event.new), name)
    selection.param.watch(lambda event: setattr(view, "dark", event.new), "dark")
