"""Writes a mapping as the option ``--map``, as ``rlpanel.toml``, and into that file of a folder.

What else the file says is kept, with its comments: only the table ``[map]`` is replaced.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rlpanel.errors import SettingError
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.adapters.key_mapping import create_mapping, parse_mapping
from rlpanel.sources.discovery.folder_config import NAME
from rlpanel.sources.files.file_access import AnyPath, read_small

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
