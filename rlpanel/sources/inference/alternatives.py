"""Finds the columns that hold the answers of several systems to one prompt, and their verdicts.

The names of such columns differ in one part, the system: ``gpt4_answer`` and ``llama_answer``, ``answer_a``
and ``answer_b``, or ``chosen`` and ``rejected``. `parallel_columns` reads them under one key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlpanel.sources.adapters.parallel_columns import PLUS, columns_of, values_of
from rlpanel.sources.inference.aliases import fields_of, plain_name
from rlpanel.sources.inference.model_names import names_model
from rlpanel.sources.records.messages import is_messages

#: Fewest and most columns that belong together, and most keys of a record that are compared.
_MIN_COLUMNS, _MAX_COLUMNS, _MAX_KEYS = 2, 512, 600
_NUMBERED = re.compile(r"(?P<stem>.*[^\d])(?P<number>\d{1,4})", re.ASCII | re.DOTALL)
#: Ends of names under which a system has a text or a verdict, whatever else they mean.
_TEXTS = frozenset(
    {"predicted", "prediction", "pred", "response", "output", "answer", "completion", "generation"}
)
_VERDICTS = frozenset({"correct", "score", "passed", "reward", "success", "acc", "accuracy", "exact_match"})
#: Names of the two sides of a comparison.
_SIDES = (
    *({"a", "b"}, {"chosen", "rejected"}, {"preferred", "dispreferred"}, {"accepted", "rejected"}),
    *({"left", "right"}, {"winner", "loser"}, {"win", "lose"}, {"better", "worse"}),
)
#: Words of a system's name that say who else wrote the text.
_OTHERS = frozenset({"gold", "golden", "gt", "reference", "ref", "expected", "correct", "target", "human"})

#: A part of a name that is the system, and the rest: ``("before", "answer")`` of ``gpt4_answer``.
_Place = tuple[str, str]


def parallel_keys(record: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the keys that stand for columns of a record, each with its values.

    Numbered columns count from 0 or 1, and hold all texts or all numbers. Named ones count if each of the
    same systems has a text and a verdict, if all systems are models, or if they are two sides.
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
        and (_are(values.values(), _is_text) or _are(values.values(), _is_number))
    }


def _of_systems(record: Mapping[str, Any]) -> dict[str, list[Any]]:
    names = [name for name in record if not set("*+") & set(name)]
    texts = _by_place(names, record, _is_text)
    numbers = _by_place(names, record, _is_number)
    texts = {place: each for place, each in texts.items() if place[1] == "" or _may_answer(place[1])}
    numbers = {place: each for place, each in numbers.items() if place[1] and _may_judge(place[1])}
    found: dict[str, list[Any]] = {}
    for place, columns in texts.items():
        verdicts = [each for each in numbers.values() if _are_systems(each, columns, place)]
        for each in verdicts:
            found |= _joined([columns[system] for system in each], record)
            found |= _joined([*each.values()], record)
        if verdicts:
            continue
        models = {system: name for system, name in columns.items() if names_model(name)}
        if len(models) >= _MIN_COLUMNS and (place[1] or len(models) == len(columns) - _asked(columns)):
            found |= _joined([*models.values()], record)
        elif sides := next((each for each in _SIDES if each == _plain_sides(columns, place)), None):
            found |= _joined([columns[system] for system in columns if system in sides], record)
    return found


def _by_place(names: Iterable[str], record: Mapping[str, Any], fits: Any) -> dict[_Place, dict[str, str]]:
    """Return the names of columns by system, for each place of the system in the names."""
    found: dict[_Place, dict[str, str]] = {}
    for name in names:
        if record[name] is None or fits(record[name]):
            for place, system in _splits(plain_name(name)):
                found.setdefault(place, {}).setdefault(system, name)
    return {
        place: each
        for place, each in found.items()
        if len(each) >= _MIN_COLUMNS and any(record[name] is not None for name in each.values())
    }


def _splits(name: str) -> Iterator[tuple[_Place, str]]:
    yield ("all", ""), name
    words = name.split("_")
    for at in range(1, len(words)):
        yield ("before", "_".join(words[at:])), "_".join(words[:at])
        yield ("after", "_".join(words[:at])), "_".join(words[at:])


def _are_systems(verdicts: Mapping[str, str], columns: Mapping[str, str], place: _Place) -> bool:
    """Return True if systems with a verdict each have a text as well, and none of them is another field."""
    if not verdicts.keys() <= columns.keys() or any(system.isdecimal() for system in verdicts):
        return False
    if not all(_OTHERS.isdisjoint(system.split("_")) for system in verdicts):
        return False
    return place[1] != "" or not any(fields_of(system) for system in verdicts)


def _plain_sides(columns: Mapping[str, str], place: _Place) -> set[str]:
    """Return the systems; beside a column that is the whole name, only those that have no other meaning."""
    return set(columns) if place[1] else {system for system in columns if any(system in s for s in _SIDES)}


def _asked(columns: Mapping[str, str]) -> int:
    """Return the number of columns that are other fields than a response."""
    return sum(bool(fields_of(name)) and not names_model(name) for name in columns.values())


def _may_answer(rest: str) -> bool:
    return rest in _TEXTS or not {"response", "messages"}.isdisjoint(fields_of(rest))


def _may_judge(rest: str) -> bool:
    return rest in _VERDICTS or "reward" in fields_of(rest)


def _joined(names: list[str], record: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the key that stands for columns, with its values: ``*_answer``, or else their names."""
    end = f"_{names[0].rpartition('_')[2]}"
    short = f"*{end}"
    is_short = all(name.endswith(end) for name in names) and set(columns_of(short, record)) == set(names)
    key = short if is_short else PLUS.join(names)
    return {key: values} if (values := values_of(key, record)) is not None else {}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and bool(value) and is_messages(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _are(values: Iterable[Any], fits: Any) -> bool:
    """Return True if all values fit; some may be missing."""
    found = [value for value in values if value is not None]
    return bool(found) and all(map(fits, found))
