"""Chat messages of a sample in one shape for all trainers, without embedded images, and their text.

Trainers write tool calls as ``{"function": {"name", "arguments"}}`` or flat, arguments as an object or as
JSON text, and content as text or as a list of parts. Of an image embedded as base64, type and size are kept.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NotRequired, TypedDict

from xxhash import xxh3_64_hexdigest

#: Base64 text of an image (or another medium), with its MIME type.
_EMBEDDED = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,([A-Za-z0-9+/=_-]*)")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+=*")
#: Every text with an embedded medium contains this.
EMBEDDED_MARK = ";base64,"
#: An address of an image that is longer than this is taken for the image itself.
_LONGEST_URL = 2048
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


class ToolCall(TypedDict):
    """A call of a tool that the policy asked for; ``arguments`` is JSON text."""

    name: str
    arguments: str
    id: NotRequired[str]


class Image(TypedDict):
    """An image of a message: its MIME type if known, its address if it has one.

    An embedded image has its size in bytes, and the hash of its text in the line (see `embedded_key`).
    """

    media_type: NotRequired[str]
    url: NotRequired[str]
    size: NotRequired[int]
    key: NotRequired[str]


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

    What the environment says after the policy's last message is no part of it.
    """
    while len(messages) > 1 and messages[-1]["role"] == "environment":
        messages = messages[:-1]
    return body_text(messages[0]) if len(messages) == 1 else messages_text(messages)


def body_text(message: Message) -> str:
    """Return a message's reasoning, content and tool calls as text."""
    # Names from the line and punctuation only: the text search looks for a text's parts in the line's bytes.
    calls = [f"[call] {call['name']}({call['arguments']})" for call in message.get("tool_calls", ())]
    return "\n".join(part for part in (message.get("reasoning_content"), message["content"], *calls) if part)


def embedded_key(source: str) -> str:
    """Return the hash of an embedded image's text, by which it is found in its line again."""
    return xxh3_64_hexdigest(source.encode("utf-8", "surrogatepass"))


def without_embedded(text: str) -> str:
    """Replace media embedded as base64 by their type: ``[image/png]``."""
    return _EMBEDDED.sub(r"[\1]", text) if EMBEDDED_MARK in text else text


def without_embedded_values(value: Any) -> Any:
    """Replace media embedded as base64 in the texts of a nested value, also without a data URL around it."""
    if isinstance(value, str):
        if len(value) > _LONGEST_URL and _BASE64.fullmatch(value):
            return f"[{len(value) * 3 // 4:,} bytes of base64]"
        return without_embedded(value)
    if isinstance(value, list):
        return [without_embedded_values(item) for item in value]
    if isinstance(value, dict):
        return {key: without_embedded_values(item) for key, item in value.items()}
    return value


def _message(item: Any) -> Message:
    if not isinstance(item, Mapping) or not ({"role", "content"} & item.keys()):
        return {"role": "?", "content": without_embedded(_plain_text(item))}
    texts, images = _content(item.get("content"))
    message: Message = {"role": str(item.get("role") or "?"), "content": "\n".join(texts)}
    reasoning = next((item[key] for key in _REASONING if isinstance(item.get(key), str) and item[key]), None)
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    calls = item.get("tool_calls")
    if isinstance(calls, list) and calls:
        message["tool_calls"] = [_tool_call(call) for call in calls]
    if item.get("tool_call_id") is not None:
        message["tool_call_id"] = str(item["tool_call_id"])
    if item.get("name") is not None:
        message["name"] = str(item["name"])
    if images:
        message["images"] = images
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


def _content(content: Any) -> tuple[list[str], list[Image]]:
    """Return the texts of a message's content in order, with a mark for each image, and the images."""
    if content is None:
        return [], []
    parts = content if isinstance(content, list) else [content]
    texts: list[str] = []
    images: list[Image] = []
    for part in parts:
        if not isinstance(part, Mapping):
            texts.append(without_embedded(_plain_text(part)))
            continue
        text = next((part[key] for key in _TEXT_PARTS if isinstance(part.get(key), str)), None)
        if text is not None:
            texts.append(without_embedded(text))
        elif "image" in str(part.get("type", "")) or "image" in part or "image_url" in part:
            images.append(_image(part))
            texts.append("[image]")
        else:
            texts.append(_other_part(part))
    return [text for text in texts if text], images


def read_image(part: Any) -> Image:
    """Return an image that was logged beside the messages: as a path, as a data URL or as a part."""
    return _image(part if isinstance(part, Mapping) else {"image": part})


def _image(part: Mapping[str, Any]) -> Image:
    source = part.get("image_url", part.get("image", part.get("source")))
    if isinstance(source, Mapping):
        source = source.get("url", source.get("data", source.get("path")))
    if not isinstance(source, str):
        return {}
    if match := _EMBEDDED.match(source):
        return {"media_type": match[1], "size": len(match[2]) * 3 // 4, "key": embedded_key(source)}
    if len(source) > _LONGEST_URL:  # base64 without a data URL around it
        return {"size": len(source) * 3 // 4, "key": embedded_key(source)}
    return {"url": source}


def _other_part(part: Mapping[str, Any]) -> str:
    """Return a part that is neither text nor image: as JSON, or its type if it is a long medium."""
    text = without_embedded(_plain_text(part))
    return text if len(text) <= _LONGEST_URL else f"[{part.get('type', 'part')}]"


def _tool_call(call: Any) -> ToolCall:
    fields = call if isinstance(call, Mapping) else {}
    function = fields.get("function", fields)
    if not isinstance(function, Mapping):
        function = {"name": function}
    arguments = function.get("arguments", function.get("input", ""))
    read: ToolCall = {
        "name": str(function.get("name") or "?"),
        "arguments": without_embedded("" if arguments is None else _plain_text(arguments)),
    }
    if fields.get("id") is not None:
        read["id"] = str(fields["id"])
    return read


def _plain_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
