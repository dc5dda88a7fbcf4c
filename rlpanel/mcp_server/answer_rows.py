"""Makes the rows of an answer small: columns once, five digits, and no values that say nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

#: Significant digits of a number in a short answer; whole digits are always kept.
DIGITS = 5
_WHOLE = 10**DIGITS


class ArrayRows(NamedTuple):
    """Rows as arrays.

    Attributes
    ----------
    columns : list of str
        Names of the columns, in the order of the values of each row.
    rows : list of list
    empty : list of str
        Columns that were left out, since each of these rows has no value there.
    """

    columns: list[str]
    rows: list[list[Any]]
    empty: list[str]


def columnar(rows: Sequence[Mapping[str, Any]], *, full: bool) -> ArrayRows:
    """Return rows as arrays.

    Parameters
    ----------
    rows : sequence of mappings
        Plain values of JSON; all have the same keys.
    full : bool
        Keep all digits and all columns.
    """
    names = list(rows[0]) if rows else []
    if full:
        return ArrayRows(names, [list(row.values()) for row in rows], [])
    kept = [name for name in names if any(not is_empty(row[name]) for row in rows)]
    empty = [name for name in names if name not in set(kept)]
    return ArrayRows(kept, [[short(row[name]) for name in kept] for row in rows], empty)


def lean(row: Mapping[str, Any], left: Sequence[str], most: Mapping[str, int]) -> dict[str, Any]:
    """Return a row without the columns ``left``, and with at most so many items of a list."""
    return {
        name: value[: most[name]] if name in most and value is not None else value
        for name, value in row.items()
        if name not in left
    }


def short(value: Any) -> Any:
    """Return a value of JSON with few digits, and without what is empty in its objects."""
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, Mapping):
        return {key: short(item) for key, item in value.items() if not is_empty(item)}
    if isinstance(value, list):
        return [short(item) for item in value]
    return value


def rounded(value: float) -> float | int:
    """Return a number with `DIGITS` significant digits; one of more whole digits keeps these.

    A number that becomes whole is an int, which is shorter in JSON.
    """
    if not math.isfinite(value):
        return value
    found = float(f"{value:.{DIGITS}g}") if abs(value) < _WHOLE else float(round(value))
    return int(found) if found.is_integer() else found


def is_empty(value: Any) -> bool:
    """Return whether a value of JSON says nothing: null, or an empty text, list or object."""
    return value is None or (isinstance(value, (str, list, dict)) and not value)
