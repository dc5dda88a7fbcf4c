"""Reads the calls of tools in a chat message, in all spellings that trainers use; none of their text is lost.

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
    value = _parsed(value)
    if isinstance(value, list):
        yield from map(_parsed, value)
    else:
        yield value


def _parsed(value: Any) -> Any:
    """Return what a JSON text of an object or a list holds; any other value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return parse_value(value)
        except LineError:
            return value
    return value


def _tool_call(call: Any) -> ToolCall:
    fields = call if isinstance(call, Mapping) else {}
    function = _parsed(fields.get("function"))
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
