"""Columns with a value for each of several samples: ``gen_0``, ``gen_1``, or ``base_answer``, ``new_answer``.

A key with ``*`` inside of a name stands for all of them: ``gen_*`` for numbers, ``*_answer`` for names. Its
value is the list of theirs, so that a record with such columns reads like a line with one group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

#: Fewest and most columns that belong together, and most keys of a record that are compared.
_MIN_COLUMNS, _MAX_COLUMNS, _MAX_KEYS = 2, 512, 600
_NUMBERED = re.compile(r"(?P<stem>.*[^\d])(?P<number>\d{1,4})", re.ASCII | re.DOTALL)
#: Ends of names under which each of several systems has a text, and its verdict.
_TEXTS = frozenset(
    {"predicted", "prediction", "pred", "response", "output", "answer", "completion", "generation"}
)
_VERDICTS = frozenset({"correct", "score", "passed", "reward", "success", "acc", "accuracy", "exact_match"})


def stands_for_columns(key: str) -> bool:
    """Return True for a key with ``*`` inside of a name, such as ``gen_*``, not one that enters a list."""
    return "*" in key and "." not in key and len(key) > 1 and key.count("*") == 1


def columns_of(key: str, names: Iterable[str]) -> list[str]:
    """Return the names for which a key stands, in the order of their numbers, or of the record."""
    before, _, after = key.partition("*")
    if not after:
        numbers = {name: name[len(before) :] for name in names if name.startswith(before)}
        numbered = {name: int(number) for name, number in numbers.items() if _is_number(number)}
        return sorted(numbered, key=lambda name: numbered[name])
    least = len(before) + len(after)
    return [name for name in names if name.startswith(before) and name.endswith(after) and len(name) > least]


def values_of(key: str, record: Mapping[str, Any], default: Any = None) -> Any:
    """Return the list of the values for which a key stands; the default if the record has none of them."""
    return [record[name] for name in columns_of(key, record)] or default


def parallel_keys(record: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the keys that stand for columns of a record, each with its values.

    Numbered columns count from 0 or 1, and hold all texts or all numbers. Named ones count only if each of
    the same systems has a text and a verdict.
    """
    if not _MIN_COLUMNS <= len(record) <= _MAX_KEYS:
        return {}
    return {**_numbered(record), **_of_systems(record)}


def _numbered(record: Mapping[str, Any]) -> dict[str, list[Any]]:
    stems: dict[str, dict[int, Any]] = {}
    for name, value in record.items():
        if (found := _NUMBERED.fullmatch(name)) is not None and "*" not in name:
            stems.setdefault(found["stem"], {})[int(found["number"])] = value
    return {
        f"{stem}*": [values[number] for number in sorted(values)]
        for stem, values in stems.items()
        if _MIN_COLUMNS <= len(values) <= _MAX_COLUMNS
        and min(values) in (0, 1)
        and max(values) - min(values) == len(values) - 1
        and _are_alike(values.values())
    }


def _of_systems(record: Mapping[str, Any]) -> dict[str, list[Any]]:
    systems: dict[str, set[str]] = {}
    for name in record:
        system, _, what = name.rpartition("_")
        if system and what in _TEXTS | _VERDICTS:
            systems.setdefault(what, set()).add(system)
    texts = {what: names for what, names in systems.items() if what in _TEXTS and len(names) >= _MIN_COLUMNS}
    verdicts = [what for what, names in systems.items() if what in _VERDICTS and names in texts.values()]
    if not verdicts:
        return {}
    shared = [systems[what] for what in verdicts]
    found = [*verdicts, *(what for what, names in texts.items() if names in shared)]
    values = {f"*_{what}": values_of(f"*_{what}", record) for what in found}
    return {key: each for key, each in values.items() if _are_alike(each)}


def _are_alike(values: Iterable[Any]) -> bool:
    """Return True for texts, or for numbers; some may be missing."""
    found = [value for value in values if value is not None]
    return bool(found) and (
        all(isinstance(value, str) for value in found)
        or all(isinstance(value, (int, float)) for value in found)
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 4
