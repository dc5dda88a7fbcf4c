"""Joins logged states of a conversation, each of which repeats the messages before it.

Items of OpenAI's Responses API become chat messages in `records.responses_items`.
"""

from __future__ import annotations

from collections.abc import Iterable

from rlpanel.sources.records.responses_items import Message, chat_messages

__all__ = ["Message", "chat_messages", "join_snapshots"]


def join_snapshots(snapshots: Iterable[list[Message]]) -> list[Message]:
    """Return the messages of all snapshots; of each, those that come after the ones before it.

    A snapshot that does not continue the conversation is appended from the first message that differs.

    Parameters
    ----------
    snapshots : iterable of list
        Chat messages after each turn. The last message of each belongs to its own turn.
    """
    messages: list[Message] = []
    for snapshot in snapshots:
        same = 0
        while same < min(len(messages), len(snapshot) - 1) and _is_same(messages[same], snapshot[same]):
            same += 1
        messages += snapshot[same:]
    return messages


def _is_same(earlier: Message, later: Message) -> bool:
    """Return True for a message that is repeated; the policy's may have lost its reasoning by then."""
    if earlier.get("role") != later.get("role"):
        return False
    return earlier.get("role") == "assistant" or earlier.get("content") == later.get("content")
