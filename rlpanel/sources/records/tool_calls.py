"""Reads the calls of tools in a chat message, in all spellings that projects use; none of their text is lost.

Calls are ``{"function": {"name", "arguments"}}`` or flat, and so is OpenAI's old ``function_call``. Arguments
are an object or JSON text. The list of calls, and each call, may be JSON text as well: in columns of parquet,
for example.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NotRequired, TypedDict

from rlpanel.errors import LineError
from rlpanel.sources.records.embedded_media import without_embedded
from rlpanel.sources.records.json_parser import MAX_LISTS, parse_value
from rlpanel.sources.records.message_spellings import names_of
from rlpanel.sources.records.python_text import OBJECT, python_value

_KEYS = names_of("message", "calls")
_NAMES = names_of("call", "name")
_ARGUMENTS = names_of("call", "arguments")
_IDS = names_of("call", "id")
#: Keys that hold the call itself, beside its id and type.
_INNER = ("function", "custom")
#: Name of a call that was logged without one.
NO_NAME = "?"
#: Longer texts are not parsed.
_MAX_PARSED = 16 << 20


class ToolCall(TypedDict):
    """A call of a tool that the policy asked for; ``arguments`` is JSON text."""

    name: str
    arguments: str
    id: NotRequired[str]


def read_tool_calls(message: Mapping[str, Any]) -> list[ToolCall]:
    """Return the calls of a message; a call that has no known shape keeps its text as arguments."""
    for key in _KEYS:
        value = message.get(key)
        if value and (calls := calls_in(value)):
            return calls
    return []


def calls_in(value: Any) -> list[ToolCall]:
    """Return the calls in a list of calls, in a single one, or in the text of either."""
    return [_tool_call(call) for call in _each(value) if call]


def plain_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def first_of(item: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """Return the first of some keys' values that is not null."""
    return next((item[key] for key in keys if item.get(key) is not None), None)


def parsed_text(value: Any) -> Any:
    """Return the object or list in a text of JSON or Python's notation; other values stay.

    Longer texts than any log of messages stay texts, and so do those that are nested too deeply.
    """
    if not isinstance(value, str) or not (value.lstrip()[:1] in ("{", "[") or OBJECT.match(value)):
        return value
    if len(value) > _MAX_PARSED or value.count("[") + value.count("{") > MAX_LISTS:
        return value
    try:
        return parse_value(value)
    except LineError:
        pass
    try:
        return python_value(value)
    except ValueError:
        return value


def _each(value: Any) -> Iterator[Any]:
    """Yield the calls of a list, of an object that is the only call, or of a text of either."""
    value = parsed_text(value)
    if isinstance(value, list):
        yield from map(parsed_text, value)
    else:
        yield value


def _tool_call(call: Any) -> ToolCall:
    function = call.get("function") if type(call) is dict else None
    if type(function) is dict:  # most calls
        name, arguments, identifier = function.get("name"), function.get("arguments"), call.get("id")
        if name and type(name) is str and type(arguments) is str and type(identifier) is str:
            return {"name": name, "arguments": without_embedded(arguments), "id": identifier}
    fields = call if isinstance(call, Mapping) else {}
    function = parsed_text(first_of(fields, _INNER))
    parts = [part for part in (function, fields) if isinstance(part, Mapping)]
    named = next((part[key] for part in parts for key in _NAMES if part.get(key)), None)
    name = named or (function if isinstance(function, str) else None)
    arguments = next((part[key] for part in parts for key in _ARGUMENTS if part.get(key) is not None), None)
    if arguments is None:
        arguments = "" if name or not call else call
    read: ToolCall = {"name": str(name or NO_NAME), "arguments": without_embedded(plain_text(arguments))}
    if (identifier := first_of(fields, _IDS)) is not None:
        read["id"] = str(identifier)
    return read
