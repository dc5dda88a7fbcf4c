"""Converts items of OpenAI's Responses API (messages, reasoning, function calls) to chat messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpanel.errors import LineError

Message = dict[str, Any]


def is_item(item: Mapping[str, Any]) -> bool:
    """Return True for a call, a result or reasoning, which other projects do not write as items."""
    kind = item.get("type")
    if not isinstance(kind, str) or "role" in item:
        return False
    return kind == "reasoning" or kind.endswith(("_call", "_call_output"))


def chat_messages(items: Any) -> list[Message]:
    """Return items as chat messages; reasoning and function calls become parts of the policy's message.

    Raises
    ------
    LineError
        If the items are neither a text, which is the user's, nor a list of objects.
    """
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise LineError("a conversation is not a list of items of the Responses API")
    messages: list[Message] = []
    for item in items:
        _add_item(messages, item)
    return messages


def _add_item(messages: list[Message], item: Mapping[str, Any]) -> None:
    kind = item.get("type") or "message"
    if kind == "reasoning":
        _policy_message(messages)["reasoning_content"] = _reasoning(item)
    elif kind == "message":
        _add_message(messages, item)
    elif kind.endswith("_call_output"):
        messages.append({"role": "tool", "content": item.get("output"), "tool_call_id": item.get("call_id")})
    elif kind.endswith("_call"):
        call = {"id": item.get("call_id"), "name": item.get("name") or kind}
        arguments = item.get("arguments", item.get("action", item.get("input")))
        message = _policy_message(messages, calling=True)
        message.setdefault("tool_calls", []).append(call | {"arguments": arguments})
    else:
        messages.append({"role": kind, "content": dict(item)})


def _add_message(messages: list[Message], item: Mapping[str, Any]) -> None:
    role, content = item.get("role") or "?", item.get("content")
    if role == "assistant" and "tool_calls" not in item:
        _policy_message(messages)["content"] = content
    elif "tool_calls" in item:  # a chat message among the items
        messages.append(dict(item))
    else:
        messages.append({"role": role, "content": content})


def _policy_message(messages: list[Message], *, calling: bool = False) -> Message:
    """Return the policy's message to which an item belongs: a new one unless the last one lacks this part.

    The model's turn is its reasoning, then its text, then its calls, each of which may be missing.
    """
    last = messages[-1] if messages else {}
    joins = last.get("role") == "assistant" and "tool_calls" not in last and last.get("content") is None
    if joins or (calling and last.get("role") == "assistant"):
        return last
    messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _reasoning(item: Mapping[str, Any]) -> str:
    """Return the text of a reasoning item: its full content, or else its summary."""
    parts = item.get("content") or item.get("summary") or []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))
