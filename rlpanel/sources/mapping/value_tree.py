"""Lists the values of a record as the lines of a tree: key, type and the beginning of each value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from rlpanel.sources.adapters.key_mapping import value_at

#: Most lines of a tree, most of one object, and how deep objects and lists are entered.
MAX_LINES, _MAX_INSIDE, _MAX_DEPTH = 200, 60, 5
#: Most characters of a value and of a name that are shown, and of a dotted key that can be mapped.
VALUE_CHARS, _NAME_CHARS, MAX_KEY = 120, 80, 300
#: Most items of a list or object in one line.
_MAX_ITEMS = 24


@dataclass(frozen=True)
class TreeLine:
    """A value of a record.

    Attributes
    ----------
    depth : int
    name : str
        The last part of its key; ``[0]`` for the first item of a list.
    kind : str
        ``text``, ``number``, ``true or false``, ``null``, ``list`` or ``object``.
    count : int
        Number of items or keys inside; -1 for a value without.
    value : str
        The beginning of the value; empty for an object and a list of objects, which are entered.
    key : str
        The dotted key as a mapping names it; empty if a mapping cannot reach the value.
    """

    depth: int
    name: str
    kind: str
    count: int
    value: str
    key: str


def tree_lines(record: Mapping[str, Any]) -> list[TreeLine]:
    """Return the lines of a record's tree, at most `MAX_LINES`."""
    return list(islice(_inside(record, "", 0, top=record), MAX_LINES))


def value_text(value: Any, chars: int = VALUE_CHARS) -> str:
    """Return the beginning of a value in one line; a text is in quotes, as in JSON."""
    if isinstance(value, str):
        return json.dumps(_cut(value, chars), ensure_ascii=False)
    if isinstance(value, (list, Mapping)):
        return _cut(_compact(value, 2), chars)
    return _cut(json.dumps(value) if isinstance(value, (bool, type(None))) else str(value), chars)


def _inside(record: Mapping[str, Any], before: str, depth: int, top: Mapping[str, Any]) -> Iterator[TreeLine]:
    for name, value in islice(record.items(), _MAX_INSIDE):
        yield from _lines(name, value, f"{before}{name}", depth, top)


def _lines(name: str, value: Any, key: str, depth: int, top: Mapping[str, Any]) -> Iterator[TreeLine]:
    kind, count = kind_of(value), len(value) if isinstance(value, (list, Mapping)) else -1
    enters = depth < _MAX_DEPTH and _is_entered(value)
    text = "" if enters else value_text(value)
    reached = key if len(key) <= MAX_KEY and value_at(top, key) is value else ""
    yield TreeLine(depth, _cut(name, _NAME_CHARS), kind, count, text, reached)
    if not enters:
        return
    if isinstance(value, Mapping):
        yield from _inside(value, f"{key}.", depth + 1, top)
    else:
        yield from _lines("[0]", value[0], f"{key}.0", depth + 1, top)


def _is_entered(value: Any) -> bool:
    """Return True for an object, and a list that begins with one."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, Mapping) and len(first) > 0


def kind_of(value: Any) -> str:
    """Return the type of a value in one word."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "text"
    return "list" if isinstance(value, list) else "object"


def _compact(value: Any, levels: int) -> str:
    """Return the beginning of a value as JSON, from the first items of some levels only."""
    if not isinstance(value, (list, Mapping)):
        return value_text(value, 40)
    if not levels:
        return "…"
    if isinstance(value, Mapping):
        inside = [
            f"{json.dumps(_cut(str(key), 40), ensure_ascii=False)}: {_compact(item, levels - 1)}"
            for key, item in islice(value.items(), _MAX_ITEMS)
        ]
    else:
        inside = [_compact(item, levels - 1) for item in islice(value, _MAX_ITEMS)]
    text = ", ".join([*inside, *(["…"] if len(value) > _MAX_ITEMS else [])])
    return f"{{{text}}}" if isinstance(value, Mapping) else f"[{text}]"


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[: chars - 1]}…"
