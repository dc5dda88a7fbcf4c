"""Converts columns to and from the bytes of their files, and drops columns whose metric has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from rlpanel.metrics.engine import column_info
from rlpanel.store.cache.append_file import AppendFile
from rlpanel.store.cache.fingerprint import column_fingerprints
from rlpanel.store.columns.columns import Column, Columns, Labels
from rlpanel.store.columns.page_memory import SavedBytes

#: Column that identifies duplicates; needed before it is decided which rows count.
SURPRISAL = "surprisal_sum"


def new_parts(columns: Columns, written: dict[str, AppendFile]) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yield the data that each file lacks.

    Parameters
    ----------
    columns : Columns
    written : dict of str to AppendFile
        The files so far by key.

    Yields
    ------
    key : str
        ``<kind>/<name>``
    items : int
        Number of rows or texts.
    data : ndarray of uint8
    """
    empty = AppendFile()
    for key, column in saved_columns(columns).items():
        values = column.view(columns.rows)[written.get(key, empty).items :]
        yield key, len(values), values.view(np.uint8)
        column.release()
    for name, labels in columns.labels.items():
        texts = labels.names[written.get(f"texts/{name}", empty).items :]
        lines = "".join(f"{json.dumps(text)}\n" for text in texts).encode()
        yield f"texts/{name}", len(texts), np.frombuffer(lines, np.uint8)


def saved_columns(columns: Columns) -> dict[str, Column]:
    """Return the columns to save by key, ``<kind>/<name>``; columns derived from others are left out."""
    derived = {m.name for m in column_info.of_level("sample")}
    return {
        **{f"place/{name}": column for name, column in columns.metadata.items()},
        **{f"number/{name}": column for name, column in columns.numbers.items() if name not in derived},
        **{f"label/{name}": labels.codes for name, labels in columns.labels.items()},
    }


def restore_column(columns: Columns, key: str, data: SavedBytes) -> None:
    """Set a column from its saved bytes.

    Parameters
    ----------
    columns : Columns
        With its number of rows; the codes of labels are restored before their texts.
    key : str
        ``<kind>/<name>``, as `new_parts` yields it.
    data : SavedBytes

    Raises
    ------
    ValueError
        If the bytes do not fit, or the column now has the name of a metric.
    KeyError
        If there is no such column.
    """
    kind, _, name = key.partition("/")
    if kind == "texts":
        columns.labels[name].restore(_texts(data.content))
        return
    column = _column_to_fill(columns, kind, name)
    if len(data.content) != columns.rows * column.dtype.itemsize:
        raise ValueError(f"{key} has the wrong length")
    column.adopt(data)


def _column_to_fill(columns: Columns, kind: str, name: str) -> Column:
    """Return the column to restore; number and label columns are created."""
    if kind == "number":
        derived = {m.name for m in column_info.of_level("sample")}
        if name in derived and name in column_info.computed_columns():
            raise ValueError(f"the logged column {name!r} has the name of a new metric")
        columns.numbers[name] = Column(np.float64, np.nan)
        return columns.numbers[name]
    if kind == "label":
        columns.labels[name] = Labels()
        return columns.labels[name].codes
    if kind == "place":
        return columns.metadata[name]
    raise KeyError(kind)


def drop_outdated(columns: Columns, made_by: dict[str, str]) -> tuple[str, ...]:
    """Drop columns whose metric was removed or changed; return the columns that must be computed.

    Parameters
    ----------
    columns : Columns
    made_by : dict of str to str
        Fingerprint of the metric behind each saved column.

    Raises
    ------
    ValueError
        If a logged column has the name of a new metric, or the metric that identifies duplicates changed.
    """
    now = column_fingerprints()
    if SURPRISAL in now and now[SURPRISAL] != made_by.get(SURPRISAL):
        raise ValueError(f"the metric {SURPRISAL}, which identifies duplicates, has changed")
    for name in set(now) - set(made_by):
        if name in columns.numbers:
            raise ValueError(f"the logged column {name!r} has the name of a new metric")
    for name in [name for name, code in made_by.items() if now.get(name) != code]:
        columns.numbers.pop(name, None)
    return tuple(name for name, code in now.items() if made_by.get(name) != code)


def _texts(raw: np.ndarray) -> list[str]:
    return [str(text) for text in json.loads(b"[" + raw.tobytes()[:-1].replace(b"\n", b",") + b"]")]
