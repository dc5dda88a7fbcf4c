"""Chat messages of a sample in one shape for all trainers, without embedded media, and their text.

Trainers write content as text or as a list of parts. `embedded_media` reads parts that are not text, and
`tool_calls` the calls of tools.

Reads the calls of tools in a chat message, in all spellings that trainers use; none of their text is lost.

Calls are ``{"function": {"name", "arguments"}}`` or flat, and so is OpenAI's old ``function_call``. Arguments
are an object or JSON text. The list of calls, and each call, may be JSON text as well: in columns of parquet,
for example.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NotRequired, TypedDict

from rlpanel.errors import LineError
from rlpanel.sources.records.embedded_media import (
    LONGEST_URL,
    Image,
    Medium,
    frames_of,
    is_image_part,
    played_kind,
    read_image,
    read_medium,
    without_embedded,
)
from rlpanel.sources.records.json_parser import parse_value

_KEYS = ("tool_calls", "function_call")
_ARGUMENTS = ("arguments", "args", "parameters", "input")
#: Name of a call that was logged without one.
_NO_NAME = "?"


class ToolCall(TypedDict):
    """A call of a tool that the policy asked for; ``arguments`` is JSON text."""

    name: str
    arguments: str
    id: NotRequired[str]


def read_tool_calls(message: Mapping[str, Any]) -> list[ToolCall]:
    """Return the calls of a message; a call that has no known shape keeps its text as arguments."""
    for key in _KEYS:
        value = message.get(key)
        if value and (calls := [_tool_call(call) for call in _each(value) if call]):
            return calls
    return []


def plain_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _each(value: Any) -> Iterator[Any]:
    """Yield the calls of a list, of an object that is the only call, or of a JSON text of either."""
    value = _parsed_arguments(value)
    if isinstance(value, list):
        yield from map(_parsed_arguments, value)
    else:
        yield value


def _parsed_arguments(value: Any) -> Any:
    """Return what a JSON text of an object or a list holds; any other value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return parse_value(value)
        except LineError:
            return value
    return value


def _tool_call(call: Any) -> ToolCall:
    fields = call if isinstance(call, Mapping) else {}
    function = _parsed_arguments(fields.get("function"))
    parts = [part for part in (function, fields) if isinstance(part, Mapping)]
    named = next((part["name"] for part in parts if part.get("name")), None)
    name = named or (function if isinstance(function, str) else None)
    arguments = next((part[key] for part in parts for key in _ARGUMENTS if part.get(key) is not None), None)
    if arguments is None:
        arguments = "" if name or not call else call
    read: ToolCall = {"name": str(name or _NO_NAME), "arguments": without_embedded(plain_text(arguments))}
    if fields.get("id") is not None:
        read["id"] = str(fields["id"])
    return read


_REASONING = ("reasoning_content", "reasoning", "thinking")
#: Roles of messages that hold a tool's result.
TOOL_ROLES = frozenset({"tool", "function"})
_ERROR_TEXT = re.compile(
    r"\s*(?:Traceback \(most recent call last\)|(?:[A-Za-z_][\w.]{0,80})?(?:Error|Exception):)"
)
_ERROR_OBJECT = re.compile(r"""\s*\{\s*["']error["']\s*:""")
#: A longer text is not parsed to find out whether it is an error.
_LONGEST_ERROR = 10_000
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")


class Message(TypedDict):
    """One chat message; keys other than role and content exist only if they were logged.

    ``is_error`` marks a tool's failure. If it was not logged, but its text is one of an error,
    ``error_inferred`` is True as well.
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
    reward: NotRequired[float]


def is_messages(value: Any) -> bool:
    """Return True for a list of chat messages, or a single one."""
    items = value if isinstance(value, list) else [value]
    return bool(items) and all(isinstance(item, dict) and "role" in item for item in items)


def read_messages(value: Any) -> list[Message]:
    """Return chat messages in the common shape; other items of a list become messages of unknown role.

    Parameters
    ----------
    value : list or dict
        One message, or messages in order, as parsed from JSON.
    """
    return [_message(item) for item in (value if isinstance(value, list) else [value])]


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


def _message(item: Any) -> Message:
    if not isinstance(item, Mapping) or not ({"role", "content"} & item.keys()):
        return {"role": "?", "content": without_embedded(plain_text(item))}
    texts, images, media = _content(item.get("content"))
    message: Message = {"role": str(item.get("role") or "?"), "content": "\n".join(texts)}
    reasoning = next((item[key] for key in _REASONING if isinstance(item.get(key), str) and item[key]), None)
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls := read_tool_calls(item):
        message["tool_calls"] = calls
    if item.get("tool_call_id") is not None:
        message["tool_call_id"] = str(item["tool_call_id"])
    if item.get("name") is not None:
        message["name"] = str(item["name"])
    if images:
        message["images"] = images
    if media:
        message["media"] = media
    if message["role"] in TOOL_ROLES:
        _mark_error(message, item)
    for key in ("seconds", "reward"):
        number = item.get(key)
        if isinstance(number, int | float) and not isinstance(number, bool):
            message[key] = float(number)
    return message


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
    if not _ERROR_OBJECT.match(text) or len(text) > _LONGEST_ERROR:
        return False
    value = _parsed(text)
    return isinstance(value, dict) and set(value) == {"error"} and bool(value["error"])


def _parsed(text: str) -> Any:
    """Return a value from JSON, or from Python's notation, which TRL writes; None if it is neither."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def _content(content: Any) -> tuple[list[str], list[Image], list[Medium]]:
    """Return the texts of a message's content in order, with a mark for each medium, and the media."""
    if content is None:
        return [], [], []
    parts = content if isinstance(content, list) else [content]
    texts: list[str] = []
    images: list[Image] = []
    media: list[Medium] = []
    for part in parts:
        if not isinstance(part, Mapping):
            texts.append(without_embedded(plain_text(part)))
            continue
        text = next((part[key] for key in _TEXT_PARTS if isinstance(part.get(key), str)), None)
        if text is not None:
            texts.append(without_embedded(text))
        elif is_image_part(part):
            images.append(read_image(part))
            texts.append("[image]")
        elif kind := played_kind(part):
            frames = frames_of(part)
            images += frames
            media += [] if frames else [read_medium(part, kind)]
            texts.append(f"[{kind}]")
        else:
            texts.append(_other_part(part))
    return [text for text in texts if text], images, media


def _other_part(part: Mapping[str, Any]) -> str:
    """Return a part that is neither text nor medium: as JSON, or its type if it is a long medium."""
    text = without_embedded(plain_text(part))
    return text if len(text) <= LONGEST_URL else f"[{part.get('type', 'part')}]"
