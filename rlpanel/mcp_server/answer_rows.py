"""Makes the rows of an answer small: columns once, five digits, and no values that say nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlpanel.queries.table import TableColumn

#: Significant digits of a number in a short answer; whole digits are always kept.
DIGITS = 5
_WHOLE = 10**DIGITS
#: Rows from which on a value that all have is stated once.
_REPEATED = 3


class ArrayRows(NamedTuple):
    """Rows as arrays.

    Attributes
    ----------
    columns : list of str
        Names of the columns, in the order of the values of each row.
    rows : list of list
    empty : list of str
        Columns that were left out, since each of these rows has no value there.
    same : dict
        The value of each column that was left out, since all of these rows have the same value there.
    """

    columns: list[str]
    rows: list[list[Any]]
    empty: list[str]
    same: dict[str, Any]


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
        return ArrayRows(names, [list(row.values()) for row in rows], [], {})
    shown = {name: [short(row[name]) for row in rows] for name in names}
    empty = [name for name in names if all(is_empty(row[name]) for row in rows)]
    same = {
        name: values[0]
        for name, values in shown.items()
        if len(rows) >= _REPEATED and name not in empty and len(set(map(repr, values))) == 1
    }
    if len(same) + len(empty) == len(names) and same:  # a row keeps a value, so that rows are counted
        del same[next(iter(same))]
    kept = [name for name in names if name not in same and name not in set(empty)]
    return ArrayRows(kept, [[shown[name][at] for name in kept] for at in range(len(rows))], empty, same)


def lean(row: Mapping[str, Any], columns: Sequence[TableColumn], left: Sequence[str]) -> dict[str, Any]:
    """Return a row as a short answer has it: without the columns ``left``, long lists and derived keys."""
    found = {}
    for column in columns:
        if column.name in left:
            continue
        value = row[column.name]
        if column.most is not None and value is not None:
            value = value[: column.most]
        if column.brief is not None and value is not None:
            value = {key: item for key, item in value.items() if column.brief(key, value, row)}
        found[column.name] = value
    return found


def omitted_keys(rows: Sequence[Mapping[str, Any]], column: TableColumn) -> int:
    """Return the number of keys of a column's objects that a short answer leaves out."""
    brief = column.brief
    if brief is None:
        return 0
    pairs = [(row[column.name] or {}, row) for row in rows]
    return len({key for value, row in pairs for key in value if not brief(key, value, row)})


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
