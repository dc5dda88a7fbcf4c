"""Append-only columns of a run: a view of the first n rows never changes, so snapshots need no copy.

A full column is copied into a larger array; snapshots keep their reference to the old one. Values that a
snapshot can see are never overwritten. Spare capacity is not touched, so it costs no memory. Saved rows
become pages of their file, which the system can drop when memory is scarce.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from rlpanel.store.columns.page_memory import SavedBytes, allocate, map_file, release_mapped, share_mapped

_FIRST = 1024
#: A full column grows by this factor: growing copies rows that are not saved yet, and spare capacity is free.
_GROWTH = 4
#: Rows are mapped when at least this many bytes of a column were saved since, and this share of those mapped.
MAP_BYTES, _MAP_SHARE = 256 << 10, 1 / 8


class Column:
    """One growable numpy array.

    Parameters
    ----------
    dtype : dtype
    fill : scalar
        Value of rows that were skipped (NaN, or -1 for "no label").
    """

    def __init__(self, dtype: np.dtype | type, fill: float | int) -> None:
        self.fill = fill
        self.dtype = np.dtype(dtype)
        self._data = np.empty(0, dtype)
        self._written = 0
        self._is_allocated = False  # whether `_data` comes from `allocate`
        #: Bytes of its memory that are pages of a file.
        self.mapped = 0

    def write(self, start: int, values: np.ndarray) -> None:
        """Write ``values`` from row ``start`` on; no snapshot may cover these rows yet."""
        end = start + len(values)
        self._fill_to(start, end)
        self._data[start:end] = values
        self._written = end

    def adopt(self, saved: SavedBytes) -> None:
        """Start from the saved bytes of all rows."""
        self._data, self._written = saved.room.view(self.dtype), len(saved.content) // self.dtype.itemsize
        self._is_allocated, self.mapped = saved.is_allocated, saved.mapped

    def map_saved(self, rows: int, descriptor: int, *, anew: bool = False) -> None:
        """Exchange the memory of the first ``rows`` rows for pages of the file that they are saved in.

        Views of these rows stay valid, on any thread. Nothing happens while few rows were saved since the
        last time, unless ``anew`` tells that the file is another one.
        """
        saved = rows * self.dtype.itemsize
        is_worthwhile = anew or saved - self.mapped >= max(MAP_BYTES, self.mapped * _MAP_SHARE)
        if self._is_allocated and is_worthwhile:
            # From the beginning: a mapping of its own for each save would exceed the system's limit.
            self.mapped = map_file(self._data, descriptor, saved)

    def release(self) -> None:
        """Release the memory of mapped rows; the next access reads them from the file."""
        release_mapped(self._data, self.mapped)

    def view(self, rows: int) -> np.ndarray:
        """Return the first ``rows`` rows, read-only."""
        self._fill_to(rows, rows)
        view = self._data[:rows]
        view.flags.writeable = False
        return view

    def rewrite(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Replace the values at ``rows`` in a copy, so that existing snapshots keep theirs."""
        self._copy_to(len(self._data), writable=True)
        self._data[rows] = values

    def _copy_to(self, capacity: int, *, writable: bool = False) -> None:
        """Copy the column into a new array; rows that are pages of a file stay such, unless ``writable``."""
        copy = allocate(capacity, self.dtype)
        mapped = 0 if writable else share_mapped(self._data, copy, self.mapped)
        copied = slice(mapped // self.dtype.itemsize, self._written)
        copy[copied] = self._data[copied]
        self._data, self._is_allocated, self.mapped = copy, True, mapped

    def _fill_to(self, rows: int, end: int) -> None:
        """Write the fill value up to ``rows`` and grow the capacity to ``end``."""
        if end > len(self._data):
            self._copy_to(max(_FIRST, end, len(self._data) * _GROWTH))
        if rows > self._written:
            self._data[self._written : rows] = self.fill
            self._written = rows


class Labels:
    """A growable column of short texts, dictionary-encoded: each distinct text is stored once.

    Codes are positions in ``names``; -1 means "not logged".
    """

    def __init__(self) -> None:
        self.codes = Column(np.int32, -1)
        self.names: list[str] = []

    def restore(self, names: list[str]) -> None:
        """Set the texts that belong to codes written earlier."""
        self.names = names

    @cached_property
    def _code(self) -> dict[str | None, int]:
        """Code of each text; created with the first new row, because it takes as much memory as the texts."""
        code: dict[str | None, int] = dict(zip(self.names, range(len(self.names)), strict=True))
        code[None] = -1
        return code

    def write(self, start: int, texts: Sequence[str | None]) -> None:
        """Write one text per row from row ``start`` on; None means "not logged"."""
        code = self._code
        new = [text for text in dict.fromkeys(texts) if text is not None and text not in code]
        if new:
            code.update(zip(new, range(len(self.names), len(self.names) + len(new)), strict=True))
            self.names += new
        self.codes.write(start, np.fromiter(map(code.__getitem__, texts), np.int32, len(texts)))


#: Rows of a block. Rows arrive about in the order of their steps, so that few blocks hold a step.
BLOCK_ROWS = 1 << 14


class StepsOfBlocks:
    """Lowest and highest step of each block of rows, to find the rows of a step without reading all.

    All snapshots of the same columns share it. Rows are only appended, so a full block is read once.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._low, self._high = np.empty(0, np.int64), np.empty(0, np.int64)

    def parts(self, step: np.ndarray, wanted: np.ndarray) -> list[slice]:
        """Return the ranges of rows that may be of a wanted step, ascending.

        Parameters
        ----------
        step : ndarray of int, shape (N,)
            Step of each row; the rows of earlier calls come first.
        wanted : ndarray of int
            Ascending, each once.
        """
        low, high = self._ranges(step)
        found = np.searchsorted(wanted, low) < np.searchsorted(wanted, high, "right")
        edges = np.flatnonzero(np.diff(found, prepend=False, append=False)).tolist()
        return [
            slice(first * BLOCK_ROWS, min(last * BLOCK_ROWS, len(step)))
            for first, last in zip(edges[::2], edges[1::2], strict=True)
        ]

    def rows(self, step: np.ndarray, wanted: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return the rows of the wanted steps that a mask of all rows has, ascending."""
        found = [np.empty(0, np.intp)]
        in_row = len(wanted) and wanted[-1] - wanted[0] == len(wanted) - 1
        for part in self.parts(step, wanted):
            of = step[part]
            inside = (of >= wanted[0]) & (of <= wanted[-1]) if in_row else np.isin(of, wanted)
            found.append(np.flatnonzero(inside & mask[part]) + part.start)
        return np.concatenate(found)

    def _ranges(self, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and the highest step of each block; the last block may be short."""
        with self._lock:
            known, full = len(self._low), len(step) // BLOCK_ROWS
            if full > known:
                new = step[known * BLOCK_ROWS : full * BLOCK_ROWS].reshape(-1, BLOCK_ROWS)
                self._low = np.concatenate([self._low, new.min(axis=1)])
                self._high = np.concatenate([self._high, new.max(axis=1)])
            low, high = self._low[:full], self._high[:full]
        rest = step[full * BLOCK_ROWS :]
        if not len(rest):
            return low, high
        return np.append(low, rest.min()), np.append(high, rest.max())


class Columns:
    """All rows of a run: number columns (float64), label columns, and columns that locate each sample.

    Number and label columns appear when first logged; earlier rows hold NaN or "not logged".

    Attributes
    ----------
    edition : int
        Goes up when existing rows are overwritten.
    blocks : StepsOfBlocks
        Which rows may be of a step.
    """

    #: Name and dtype of the columns that every row has.
    METADATA: ClassVar[dict[str, type]] = {
        "step": np.int64,
        "rank": np.int32,
        "file": np.int32,
        "offset": np.int64,
        "length": np.uint32,
        "line": np.uint32,
        "part": np.uint16,
        "hash": np.uint64,
        "prompt_hash": np.uint64,
        "response_hash": np.uint64,
    }

    def __init__(self) -> None:
        self.rows = self.edition = 0
        self.metadata = {name: Column(dtype, 0) for name, dtype in self.METADATA.items()}
        self.numbers: dict[str, Column] = {}
        self.labels: dict[str, Labels] = {}
        self.blocks = StepsOfBlocks()

    def append(
        self,
        metadata: Mapping[str, np.ndarray],
        numbers: Mapping[str, np.ndarray],
        labels: Mapping[str, Sequence[str | None]],
    ) -> slice:
        """Append rows and return their range of row numbers."""
        start = self.rows
        for name, values in metadata.items():
            self.metadata[name].write(start, values)
        for name, values in numbers.items():
            if name not in self.numbers:
                self.numbers[name] = Column(np.float64, np.nan)
            self.numbers[name].write(start, values)
        for name, texts in labels.items():
            if name not in self.labels:
                self.labels[name] = Labels()
            self.labels[name].write(start, texts)
        self.rows += len(metadata["step"])
        return slice(start, self.rows)

    def release(self) -> None:
        """Release the memory of mapped rows, see `Column.release`."""
        for column in self.stored():
            column.release()

    def stored(self) -> Iterator[Column]:
        """Yield all arrays; another thread may add some meanwhile."""
        yield from self.metadata.values()
        yield from tuple(self.numbers.values())
        for labels in tuple(self.labels.values()):
            yield labels.codes

    def renumber(self, rows: np.ndarray, lines: np.ndarray) -> None:
        """Replace the line numbers of ``rows``."""
        self.metadata["line"].rewrite(rows, lines)
        self.edition += 1

    def select(self, rows: np.ndarray) -> Columns:
        """Return a copy with these rows only, in this order."""
        selected = Columns()
        metadata = {name: column.view(self.rows)[rows] for name, column in self.metadata.items()}
        numbers = {name: column.view(self.rows)[rows] for name, column in self.numbers.items()}
        selected.append(metadata, numbers, {})
        for name, labels in self.labels.items():
            codes = labels.codes.view(self.rows)[rows]
            if (codes >= 0).any():
                texts = [labels.names[code] if code >= 0 else None for code in codes.tolist()]
                selected.labels[name] = Labels()
                selected.labels[name].write(0, texts)
        return selected
