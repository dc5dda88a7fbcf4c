"""Reads the calls of tools in a chat message, in all spellings, among them Python's notation."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NotRequired, TypedDict

from rlpanel.errors import LineError
from rlpanel.sources.records.embedded_media import without_embedded
from rlpanel.sources.records.json_parser import MAX_LISTS, parse_value
from rlpanel.sources.records.message_spellings import names_of

# -- python text ---------------------------------------------------------------------------------------
# Reads a value from Python's notation, as ``str`` and ``repr`` write it, without running any of it.
#
# Objects of classes, such as ``Function(name='f', arguments='{}')``, become an object of their fields with
# the class as ``type``, unless they have a field of this name. Loggers write them with ``default=str``.


#: Longer texts are not parsed: the tree takes some hundred times their memory.
_MAX_PARSED_PYTHON = 1 << 20
#: An object of a class, with its first field.
OBJECT = re.compile(r"\s*[A-Z]\w*\(\w+=")
#: Calls that stand for their only value.
_WRAPPERS = re.compile(r"array|tensor|(?:float|int|uint|bool|str)_?\d*|Decimal|UUID")
_PYTHON_NAMES = {"nan": float("nan"), "inf": float("inf"), "null": None, "true": True, "false": False}


def python_value(text: str) -> Any:
    """Return the value of a text in Python's notation; ValueError for any other text."""
    if len(text) > _MAX_PARSED_PYTHON:
        raise ValueError("the text is too long")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"not Python's notation: {error}") from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and not isinstance(node.value, bytes | complex):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {_value(key): _value(item) for key, item in zip(node.keys, node.values, strict=True) if key}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.Name) and node.id in _PYTHON_NAMES:
        return _PYTHON_NAMES[node.id]
    if isinstance(node, ast.Call):
        return _object(node)
    raise ValueError(f"{type(node).__name__} is not a value")


def _object(node: ast.Call) -> Any:
    """Return the fields of an object of a class, or the only value of one such as ``array([1.0])``."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if node.args and _WRAPPERS.fullmatch(name):
        return _value(node.args[0])
    if node.args or not name[:1].isupper() or any(field.arg is None for field in node.keywords):
        raise ValueError(f"{name} is not an object of fields")
    return {"type": name} | {str(field.arg): _value(field.value) for field in node.keywords}


# -- tool calls ----------------------------------------------------------------------------------------
# Reads the calls of tools in a chat message, in all spellings that projects use; none of their text is lost.
#
# Calls are ``{"function": {"name", "arguments"}}`` or flat, and so is OpenAI's old ``function_call``.
# Arguments are an object or JSON text. The list of calls, and each call, may be JSON text as well: in columns
# of parquet, for example.


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
