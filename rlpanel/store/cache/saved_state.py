"""Saved state of a run between two starts of the program: its files, and its columns as bytes.

Columns are append-only files, each with a running hash of its valid content. Those whose metric has changed
are dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import xxhash

from rlpanel.metrics.engine import column_info
from rlpanel.regular_files import write_all
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.mounts import NETWORK_FILE_SYSTEMS, file_system
from rlpanel.sources.readers.tail import ReadPosition
from rlpanel.sources.records.record_types import NO_HOLE, Hole
from rlpanel.store.cache.fingerprint import column_fingerprints
from rlpanel.store.columns.columns import Column, Columns, Labels
from rlpanel.store.columns.page_memory import CAN_MAP, SavedBytes, mapped_content


@dataclass(frozen=True)
class OpenFileState:
    """Progress of a file that is read in ranges of ``range_bytes``, from ``start`` up to ``limit``.

    ``parts`` are the ranges already read: start offset and number of lines. Line numbers of their rows are
    relative to the range. ``bad`` are the bad lines, each with the start offset of its range.
    """

    start: int
    limit: int
    lines_before: int
    range_bytes: int
    parts: list[tuple[int, int]]
    bad: list[tuple[int, int, int, str]]

    @classmethod
    def from_json(cls, plain: dict[str, Any] | None) -> OpenFileState | None:
        """Convert from parsed JSON."""
        if plain is None:
            return None
        parts = [(int(start), int(lines)) for start, lines in plain["parts"]]
        return cls(**{**plain, "parts": parts, "bad": [tuple(bad) for bad in plain["bad"]]})


@dataclass(frozen=True)
class FileState:
    """Reading state of one file."""

    name: str
    number: int
    adapter: str
    mark: ReadPosition
    bad_count: int
    blank_count: int
    bad: list[tuple[int, int, str]]
    unsettled: OpenFileState | None = None
    hole: Hole = NO_HOLE
    empty_count: int = 0

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> FileState:
        """Convert from parsed JSON."""
        hole = Hole(*map(int, plain["hole"]))
        mark, unsettled = ReadPosition.from_json(plain["mark"]), OpenFileState.from_json(plain["unsettled"])
        return cls(**{**plain, "mark": mark, "unsettled": unsettled, "hole": hole})

    def to_json(self) -> dict[str, Any]:
        """Convert to what JSON can hold."""
        return {**asdict(self), "mark": self.mark.plain()}


@dataclass(frozen=True)
class SavedRun:
    """Saved state of a run; rows with a file number that is not in ``files`` are dead.

    So are those in ``dead``: pairs of a row and the row after the last one.
    ``constants`` are the training constants that the rows were computed with. ``missing`` are the columns of
    token metrics that are not in the cache or whose code has changed. If ``has_repeats`` is False, no two
    rows have the same line, step and part.
    """

    columns: Columns
    files: list[FileState]
    newest_line: float
    left_out: str
    constants: list[Any]
    missing: tuple[str, ...] = ()
    has_repeats: bool = True
    dead: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class AppendFile:
    """Length and hash of a file's valid content. Immutable, so that a failed append changes nothing.

    Attributes
    ----------
    items, bytes : int
        Number of items written, in the caller's unit, and of bytes.
    """

    items: int = 0
    bytes: int = 0
    _hash: xxhash.xxh3_64 = field(default_factory=xxhash.xxh3_64)

    @property
    def hash(self) -> str:
        """Hash of all valid bytes."""
        return self._hash.hexdigest()

    def append(self, folder: SafeFolder, name: str, items: int, data: np.ndarray) -> AppendFile:
        """Write bytes (dtype uint8) after the valid ones; leftovers of a killed process are cut off."""
        if not len(data):
            return self
        descriptor = folder.open_to_write(name, create=not self.bytes)
        try:
            os.ftruncate(descriptor, self.bytes)
            os.lseek(descriptor, 0, os.SEEK_END)
            write_all(descriptor, data.data)
        finally:
            os.close(descriptor)
        return self.extended(items, data)

    def extended(self, items: int, data: np.ndarray) -> AppendFile:
        """Return the state after appending ``data``, without writing."""
        new_hash = self._hash.copy()
        new_hash.update(data.data)
        return AppendFile(self.items + items, self.bytes + len(data), new_hash)


def read_content(folder: SafeFolder, name: str, size: int) -> SavedBytes:
    """Return the first ``size`` bytes of a file; memory-mapped if nobody else can truncate it.

    Accessing a mapped page of a truncated file kills the process. So files on network file systems and
    files of other users are read instead.

    Raises
    ------
    ValueError
        If the file is shorter.
    """
    with os.fdopen(folder.open_to_read(name), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if status.st_size < size:
            raise ValueError(f"{name} is truncated")
        if size and CAN_MAP and _is_own(status) and _is_local(str(folder.path)):
            return mapped_content(file.fileno(), size)
        content = np.frombuffer(file.read(size), np.uint8)
        return SavedBytes(content, content)


def map_column(folder: SafeFolder, name: str, column: Column, rows: int, *, anew: bool) -> None:
    """Let a column share the memory of the file that it is saved in, unless others could truncate the file.

    ``anew`` replaces pages of another file, see `Column.map_saved`.
    """
    if not _is_local(str(folder.path)):
        return
    descriptor = folder.open_to_read(name)
    try:
        if _is_own(os.fstat(descriptor)):
            column.map_saved(rows, descriptor, anew=anew)
    finally:
        os.close(descriptor)


def _is_own(status: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and status.st_uid == os.geteuid()


@lru_cache(maxsize=64)
def _is_local(folder: str) -> bool:
    kind = file_system(folder)
    return bool(kind) and not kind.startswith(NETWORK_FILE_SYSTEMS)


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
