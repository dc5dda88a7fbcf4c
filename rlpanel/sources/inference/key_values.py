"""The values of each key in the sampled records, and the fields that a key may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rlpanel.sources.inference.aliases import NameMatch, fields_of

#: Least share of the records that have a key.
_MIN_PRESENT = 0.3


class KeyValues(NamedTuple):
    """The values of a key in the records that have it, and the number of all records."""

    key: str
    values: list[Any]
    records: int

    @property
    def present(self) -> float:
        """Share of the records that have the key."""
        return len(self.values) / self.records


def read_key_values(sample: Sequence[Mapping[str, Any]]) -> list[KeyValues]:
    """Return the columns of enough records; a list's objects are read once, all of them or the only one."""
    values: dict[str, list[Any]] = {}
    for record in sample:
        for key, value in record.items():
            values.setdefault(key, []).append(value)
    columns = [KeyValues(key, each, len(sample)) for key, each in values.items()]
    several = {
        column.key.partition(".*.")[0]
        for column in columns
        if ".*." in column.key and any(len(value) > 1 for value in column.values)
    }
    return [
        column for column in columns if column.present >= _MIN_PRESENT and _is_entered(column.key, several)
    ]


def _is_entered(key: str, several: set[str]) -> bool:
    """Return True unless a list's objects are read otherwise: all of them, or the only one."""
    outer, star, inner = key.partition(".*.")
    if star:
        return outer in several and ".*." not in inner
    return not any(key.startswith(f"{name}.0.") for name in several)


def fields_of_keys(columns: Sequence[KeyValues]) -> dict[str, Mapping[str, NameMatch]]:
    """Return the fields that each key names; an object's only key may mean what the object means."""
    children: dict[str, set[str]] = {}
    for column in columns:
        parent, _, name = column.key.rpartition(".")
        children.setdefault(parent, set()).add(name)

    def around(key: str) -> str:
        parts = key.split(".")
        kept = [
            part
            for at, part in enumerate(parts)
            if not at or len(children.get(".".join(parts[:at]), ())) != 1
        ]
        return ".".join(kept)

    return {
        column.key: {**fields_of(around(column.key)), **fields_of(column.key)}
        if "." in column.key
        else fields_of(column.key)
        for column in columns
    }


def whole_texts(columns: list[KeyValues]) -> set[str]:
    """Return keys whose texts begin with those of one other key and end with those of another one."""
    texts = {
        column.key: column.values
        for column in columns
        if column.present == 1.0
        and {"prompt", "response"} & fields_of(column.key).keys()
        and all(isinstance(value, str) and value for value in column.values)
    }

    def relates(key: str, test: Callable[[str, str], bool]) -> set[str]:
        return {
            other
            for other, values in texts.items()
            if other != key
            and all(len(b) < len(a) and test(a, b) for a, b in zip(texts[key], values, strict=True))
        }

    return {
        key
        for key in texts
        if (ends := relates(key, str.endswith))
        and (starts := relates(key, str.startswith))
        and ends != starts
    }
