"""Texts of a mapping, as an option and as ``rlpanel.toml``; and a record's values as a tree."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rlpanel.errors import SettingError
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.adapters.key_mapping import create_mapping, parse_mapping, value_at
from rlpanel.sources.discovery.folder_config import NAME
from rlpanel.sources.files.file_access import AnyPath, read_small

# -- mapping text --------------------------------------------------------------------------------------
# Writes a mapping as the option ``--map``, as ``rlpanel.toml``, and into that file of a folder.
#
# What else the file says is kept, with its comments: only the table ``[map]`` is replaced.


#: A mapping: rlpanel's name → key of the record; the step of all records is an integer.
Keys = Mapping[str, str | int]

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_HEADER = re.compile(r"^\s*\[")
_MAP_HEADER = re.compile(r"^\s*\[\s*map\s*\]\s*(#.*)?$")
#: Larger files are not configurations.
_MAX_BYTES = 64 << 10


def explicit(keys: Keys) -> Keys:
    """Return a mapping without the fields whose keys have rlpanel's names, unless there are no others."""
    return {name: key for name, key in keys.items() if name != key} or keys


def option_text(keys: Keys) -> str:
    """Return the value of ``--map``; empty if a key cannot be written so, such as one with a comma."""
    text = ",".join(
        f'{name}="{key}"' if name == "step" and isinstance(key, str) and key.lstrip("-").isdecimal()
        else f"{name}={key}"
        for name, key in keys.items()
    )  # fmt: skip
    with suppress(SettingError):
        # A command with invisible characters could not be typed again.
        if text.isprintable() and parse_mapping(text) == create_mapping(keys):
            return text
    return ""


def toml_text(keys: Keys) -> str:
    """Return the table ``[map]`` of an ``rlpanel.toml``."""
    lines = [
        f"{_toml_name(name)} = {key if isinstance(key, int) else _quoted(key)}" for name, key in keys.items()
    ]
    return "\n".join(["[map]", *lines, ""])


def save(folder: AnyPath, keys: Keys) -> str:
    """Write a mapping into the ``rlpanel.toml`` of a folder, and return the path of the file.

    Raises
    ------
    SettingError
        If the mapping is not valid, or the file holds one in a form that cannot be replaced.
    OSError
        If the folder is on another machine, or the file cannot be written.
    """
    create_mapping(keys)
    if not isinstance(folder, Path):
        raise SettingError("the folder is on another machine, which is only read")
    try:
        before = read_small(folder / NAME, _MAX_BYTES).data.decode("utf-8")
    except FileNotFoundError:
        before = ""
    except UnicodeDecodeError as error:
        raise SettingError(f"{NAME} is not UTF-8") from error
    text = _merged(before, keys)
    with SafeFolder.open(folder) as opened:
        opened.replace(NAME, text.encode())
    return str(folder / NAME)


def _merged(before: str, keys: Keys) -> str:
    """Return the text of a file with another mapping; everything else stays as it is."""
    kept, inside = [], False
    for line in before.splitlines():
        if _HEADER.match(line):
            inside = _MAP_HEADER.match(line) is not None
        if not inside:
            kept.append(line)
    head = "\n".join(kept).strip("\n")
    text = f"{head}\n\n{toml_text(keys)}" if head else toml_text(keys)
    try:
        wanted = tomllib.loads(before) | {"map": dict(keys)}
        if tomllib.loads(text) == wanted:
            return text
    except ValueError as error:
        raise SettingError(f"{NAME} exists, but is not valid TOML: {error}") from error
    raise SettingError(f"{NAME} exists, and holds its map in a form that only you can change")


def _toml_name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """Return a text as a basic string of TOML; JSON differs in DEL alone."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# -- value tree ----------------------------------------------------------------------------------------
# Lists the values of a record as the lines of a tree: key, type and the beginning of each value.


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
