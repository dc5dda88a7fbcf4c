"""Chat messages of a sample in one shape for all trainers, without embedded media, and their text.

`chat_shapes` finds the messages, `content_parts` reads their content and `tool_calls` the calls of tools.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from rlpanel.sources.records.chat_shapes import chat_items
from rlpanel.sources.records.content_parts import MessageContent, read_content, reasoning_text
from rlpanel.sources.records.embedded_media import Image, Medium, without_embedded
from rlpanel.sources.records.field_values import unix_time
from rlpanel.sources.records.message_spellings import ROLE_OF, ROLES, names_of, role_of
from rlpanel.sources.records.tool_calls import (
    NO_NAME,
    ToolCall,
    calls_in,
    first_of,
    parsed_text,
    plain_text,
    read_tool_calls,
)

_CONTENTS, _REASONING, _IDS = (names_of("message", means) for means in ("content", "reasoning", "id"))
#: Roles of messages that hold a tool's result.
TOOL_ROLES = frozenset({"tool"})
#: Role of an item that is not a message.
_NO_ROLE = "?"
_ROLES: Mapping[Any, str] = {name: role for name, role in ROLE_OF.items() if role != "call"}
_NUMBERS: tuple[Literal["seconds", "reward"], ...] = ("seconds", "reward")
#: Keys that few messages have.
_RARE = frozenset((*_REASONING, *_NUMBERS, "additional_kwargs", "invalid_tool_calls"))
#: Parts that a message is shown for, beside its text.
_SHOWN = frozenset(("reasoning_content", "tool_calls", "images", "media"))
_NOTHING = MessageContent()
_ERROR_TEXT = re.compile(
    r"\s*(?:Traceback \(most recent call last\)|(?:[A-Za-z_][\w.]{0,80})?(?:Error|Exception):)"
)
_ERROR_OBJECT = re.compile(r"""\s*\{\s*["']error["']\s*:""")
#: A longer text is not parsed to find out whether it is an error.
_MAX_ERROR = 10_000


class Message(TypedDict):
    """One chat message; keys other than role and content exist only if they were logged.

    ``is_error`` marks a tool's failure. If it was not logged, but its text is one of an error,
    ``error_inferred`` is True as well. ``timestamp`` is in Unix seconds; the log may have it in
    milliseconds or in ISO 8601.
    """

    role: str
    content: str
    reasoning_content: NotRequired[str]
    tool_calls: NotRequired[list[ToolCall]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]
    images: NotRequired[list[Image]]
    media: NotRequired[list[Medium]]
    is_error: NotRequired[bool]
    error_inferred: NotRequired[bool]
    seconds: NotRequired[float]
    timestamp: NotRequired[float]
    reward: NotRequired[float]


def is_messages(value: Any) -> bool:
    """Return True for a conversation in any known shape."""
    return chat_items(value) is not None


def find_messages(value: Any) -> list[Message] | None:
    """Return the messages of a conversation in any known shape; None for any other value."""
    items = chat_items(value)
    return None if items is None else read_items(items)


def read_messages(value: Any) -> list[Message]:
    """Return chat messages in the common shape; other items of a list become messages of unknown role.

    Parameters
    ----------
    value : list or dict
        One message, or messages in order, as parsed from JSON.
    """
    items = chat_items(value)
    return read_items((value if isinstance(value, list) else [value]) if items is None else items)


def read_items(items: Iterable[Any]) -> list[Message]:
    """Return items with roles, as `chat_items` gives them, as messages; results of tools become their own."""
    messages: list[Message] = []
    for item in items:
        _add(messages, item)
    return messages


def remarks_on(messages: Sequence[Message]) -> list[str]:
    """Return what could not be read of messages: items, unknown roles, calls without a name."""
    remarks: list[str] = []
    if not {message["role"] for message in messages} <= ROLES:
        odd = Counter(message["role"] for message in messages if message["role"] not in ROLES)
        if unread := odd.pop(_NO_ROLE, 0):
            remarks.append(f"'messages' has {unread} items without a role; they are kept as they are")
        if odd:
            names = ", ".join(repr(role[:40]) for role in [*odd][:4])
            remarks.append(f"'messages' has the unknown role {names}; it does not count as the policy's")
    calls = (call for message in messages for call in message.get("tool_calls", ()))
    if nameless := sum(call["name"] == NO_NAME for call in calls):
        remarks.append(f"'tool_calls' has {nameless} calls without a name; their text is kept")
    return remarks


def messages_text(messages: Iterable[Message]) -> str:
    """Return messages as one text: ``[role] content``, one after the other, with reasoning and tool calls."""
    return "\n".join(f"[{message['role']}] {body_text(message)}".rstrip() for message in messages)


def response_text(messages: list[Message]) -> str:
    """Return the text of a response: without a role if it is a single message.

    What the environment says after the policy's last message is not part of it.
    """
    while len(messages) > 1 and messages[-1]["role"] == "environment":
        messages = messages[:-1]
    return body_text(messages[0]) if len(messages) == 1 else messages_text(messages)


def body_text(message: Message) -> str:
    """Return a message's reasoning, content and tool calls as text."""
    # Names from the line and punctuation only: the text search looks for a text's parts in the line's bytes.
    calls = [f"[call] {call['name']}({call['arguments']})" for call in message.get("tool_calls", ())]
    return "\n".join(part for part in (message.get("reasoning_content"), message["content"], *calls) if part)


def _add(messages: list[Message], item: Any) -> None:
    """Append a message, and the results of tools that its content holds, as messages of their own."""
    content = item.get("content") if isinstance(item, dict) else None
    if type(content) is str and (role := _ROLES.get(item.get("role"))):  # most messages
        message: Message = {"role": role, "content": without_embedded(content)}
        if len(item) > 2 or role in TOOL_ROLES:
            _complete(message, item, _NOTHING)
        messages.append(message)
        return
    if not isinstance(item, Mapping) or not ("role" in item or "content" in item):
        messages.append({"role": _NO_ROLE, "content": without_embedded(plain_text(item))})
        return
    if content is None:
        content = first_of(item, _CONTENTS)
    role = role_of(plain_text(item.get("role") or _NO_ROLE))
    if role == "call":
        role, read = "assistant", MessageContent(calls=calls_in(content))
    else:
        read = _NOTHING if content is None else read_content(content)
    message = {"role": role, "content": read.text}
    _complete(message, item, read)
    results = read_items(read.results) if read.results else []
    if "timestamp" in message:
        for result in results:
            result.setdefault("timestamp", message["timestamp"])
    if role == "assistant" or not results:
        messages += [message, *results]
    else:  # the results come first, and often alone
        messages += results
        if message["content"] or not _SHOWN.isdisjoint(message):
            messages.append(message)


def _complete(message: Message, item: Mapping[str, Any], read: MessageContent) -> None:
    """Add to a message what its keys and the parts of its content hold beside the text."""
    if not _RARE.isdisjoint(item) or read.reasoning or read.calls:
        _add_rare(message, item, read)
    elif calls := read_tool_calls(item):
        message["tool_calls"] = calls
    if (identifier := first_of(item, _IDS)) is not None:
        message["tool_call_id"] = str(identifier)
    if "timestamp" in item and (stamp := unix_time(item["timestamp"])) is not None:
        message["timestamp"] = stamp
    if item.get("name") is not None:
        message["name"] = str(item["name"])
    if read.images:
        message["images"] = read.images
    if read.media:
        message["media"] = read.media
    if message["role"] in TOOL_ROLES:
        _mark_error(message, item)


def _add_rare(message: Message, item: Mapping[str, Any], read: MessageContent) -> None:
    """Add reasoning, calls and numbers, wherever a message has them."""
    beside = item.get("additional_kwargs")  # LangChain
    places = (item, beside) if isinstance(beside, Mapping) else (item,)
    reasoning = next(filter(None, map(_reasoning, places)), "") or reasoning_text(read.reasoning)
    if reasoning:
        message["reasoning_content"] = reasoning
    calls = next(filter(None, map(read_tool_calls, places)), [])
    if invalid := item.get("invalid_tool_calls"):  # LangChain
        calls = [*calls, *calls_in(invalid)]
    known = {call.get("id") for call in calls}  # LangChain repeats Anthropic's calls beside the content
    calls = [*calls, *(call for call in read.calls if not calls or call.get("id") not in known)]
    if calls:
        message["tool_calls"] = calls
    for key in _NUMBERS:
        number = item.get(key)
        if isinstance(number, int | float) and not isinstance(number, bool):
            message[key] = float(number)


def _reasoning(item: Mapping[str, Any]) -> str:
    for key in _REASONING:
        value = item.get(key)
        if value and (text := reasoning_text(value)):
            return text
    return ""


def _mark_error(message: Message, item: Mapping[str, Any]) -> None:
    """Mark a tool's message as an error, if it was logged as one or its whole text is one."""
    logged = [item[key] for key in ("is_error", "error") if item.get(key) is not None]
    if logged or item.get("status") is not None:
        message["is_error"] = any(map(bool, logged)) or item.get("status") == "error"
    elif _is_error_text(message["content"]):
        message["is_error"] = message["error_inferred"] = True


def _is_error_text(text: str) -> bool:
    """Return True if a tool's result is only an error: ``{"error": …}``, a traceback, ``Error: …``."""
    if _ERROR_TEXT.match(text):
        return True
    if not _ERROR_OBJECT.match(text) or len(text) > _MAX_ERROR:
        return False
    value = parsed_text(text)
    return isinstance(value, dict) and set(value) == {"error"} and bool(value["error"])
