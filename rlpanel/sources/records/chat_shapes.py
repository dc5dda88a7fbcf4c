"""Recognises a conversation in the shapes of several projects, such as OpenAI's Responses API."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter
from typing import Any

from rlpanel.errors import LineError
from rlpanel.sources.records.message_spellings import ROLES, TYPE_ROLES, names_of, role_of
from rlpanel.sources.records.tool_calls import first_of, parsed_text

__all__ = ["Message", "chat_messages", "join_snapshots"]


# -- responses items -----------------------------------------------------------------------------------
# Converts items of OpenAI's Responses API (messages, reasoning, function calls) to chat messages.


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


# -- chat shapes ---------------------------------------------------------------------------------------
# Recognises a conversation in the shapes of several projects, and gives it as a list of chat messages.
#
# Known are OpenAI's messages, ShareGPT (``from``, ``value``), LangChain (``type``, ``content``; serialised
# with ``kwargs`` or ``data``), Gemini (``contents`` with ``parts``), items of the Responses API, objects that
# hold one of them, and their text in JSON or in Python's notation.


Item = Mapping[str, Any]

_ROLES = names_of("message", "role")
_CONTENTS = (*names_of("message", "content"), *names_of("message", "calls"))
_WHOLE = names_of("whole", "messages")
#: Keys of an object beside its messages that hold the system prompt.
_SYSTEM = ("system", "systemInstruction", "system_instruction", "instructions")
#: A text of messages begins with brackets and one of these keys, or with an object of a message's class.
_OTHERS = ("id", "lc", "data", "name", "index", "message", "object")
_FIRST_KEYS = (*_ROLES, *_CONTENTS, *_WHOLE, *_SYSTEM, *_OTHERS)
_BEGINS = re.compile(
    r"""[\[{][\s\[{\\"']*(?:(?:""" + "|".join(_FIRST_KEYS) + r""")\\?["']\s*:|[A-Z]\w*Message\w*\(\w+=)"""
)
#: First characters of a text of messages.
OPENINGS = frozenset("[{")
_first_character = itemgetter(0)


def chat_items(value: Any) -> list[Item] | None:
    """Return a conversation's messages, each with a role; None for any other value.

    Parameters
    ----------
    value : list, dict or any other value
        As parsed from JSON. A list is a conversation if at least one of its items is a message; its other
        items are given as they are.
    """
    if isinstance(value, Mapping):
        return _in_object(value)
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, dict) and "role" in item for item in value):
        return value
    if len(value) == 1 and isinstance(value[0], list):  # LangChain: a batch of conversations
        return chat_items(value[0])
    if all(isinstance(item, str) for item in value):
        value = [parsed_text(item) if begins_as_messages(item) else item for item in value]
    if any(isinstance(item, Mapping) and is_item(item) for item in value):
        try:
            return [*chat_messages(value)]
        except LineError:
            return None
    items = [_chat_item(item) for item in value]
    return items if any(isinstance(item, Mapping) and "role" in item for item in items) else None


def text_items(text: str) -> list[Item] | None:
    """Return the messages of which a text is the JSON or Python's notation; None if it is an ordinary text.

    Unlike in a list that was logged as one, all items must be messages with a known role.
    """
    if not begins_as_messages(text):
        return None
    value = parsed_text(text)
    items = None if isinstance(value, str) else chat_items(value)
    if items is None or not all(isinstance(item, Mapping) and _is_known(item) for item in items):
        return None
    return items


def begins_as_messages(text: str) -> bool:
    """Return True if a text begins as the text of messages does."""
    return text[:1] in OPENINGS and _BEGINS.match(text) is not None


def any_begins_as_messages(texts: Collection[str]) -> bool:
    """Return True if one of many texts begins as the text of messages does."""
    try:
        if OPENINGS.isdisjoint(map(_first_character, texts)):
            return False
    except IndexError:  # an empty text
        pass
    return any(map(begins_as_messages, texts))


def _is_known(item: Item) -> bool:
    role = item.get("role")
    known = isinstance(role, str) and role_of(role) in (*ROLES, "call")
    return known and not item.keys().isdisjoint(_CONTENTS)


def _in_object(value: Item) -> list[Item] | None:
    """Return the messages of an object: of a message alone, or of one that holds them."""
    for key in _WHOLE:
        inner = value.get(key)
        if isinstance(inner, list) and (items := chat_items(inner)):
            told = first_of(value, _SYSTEM)
            if told and items[0].get("role") != "system":
                told = told.get("parts", told) if isinstance(told, Mapping) else told
                return [{"role": "system", "content": told}, *items]
            return items
    item = _chat_item(value)
    return [item] if isinstance(item, Mapping) and "role" in item else None


def _chat_item(item: Any) -> Any:
    """Return an item with its role; any other item as it is."""
    if not isinstance(item, Mapping) or "role" in item:
        return item
    for key in ("kwargs", "data", "message", "content"):
        inner = item.get(key)
        if isinstance(inner, Mapping):
            role = _serialised_role(item) or logged_role(inner)
            if role and not inner.keys().isdisjoint(_CONTENTS):
                return {**inner, "role": role}
    role = logged_role(item)
    return {**item, "role": role} if role and not item.keys().isdisjoint(_CONTENTS) else item


def _serialised_role(item: Item) -> str | None:
    """Return the role that LangChain writes beside ``data``, as a type, or beside ``kwargs``, as a class."""
    kind, place = item.get("type"), item.get("id")
    if isinstance(kind, str) and kind.lower() in TYPE_ROLES:
        return kind
    named = place[-1] if kind == "constructor" and isinstance(place, list) and place else None
    return named if isinstance(named, str) else None


def logged_role(item: Item) -> str | None:
    """Return the role that an item names, in the log's spelling; None without one."""
    for key in _ROLES:
        role = item.get(key)
        role = role.get("role") if isinstance(role, Mapping) else role
        if isinstance(role, str) and role and (key != "type" or role.lower() in TYPE_ROLES):
            return role
    return None


# -- responses api -------------------------------------------------------------------------------------
# Joins logged states of a conversation, each of which repeats the messages before it.
#
# Items of OpenAI's Responses API become chat messages in `records.responses_items`.


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
