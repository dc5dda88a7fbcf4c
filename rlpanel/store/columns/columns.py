"""Append-only columns of a run: a view of the first n rows never changes, so snapshots need no copy.

A full column is copied into a larger array; snapshots keep their reference to the old one. Values that a
snapshot can see are never overwritten. Spare capacity is not touched, so it costs no memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from rlpanel.store.columns.page_memory import allocate

_FIRST = 1024


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

    def write(self, start: int, values: np.ndarray) -> None:
        """Write ``values`` from row ``start`` on; no snapshot may cover these rows yet."""
        end = start + len(values)
        self._fill_to(start, end)
        self._data[start:end] = values
        self._written = end

    def adopt(self, values: np.ndarray) -> None:
        """Start from ``values``, which may be read-only: appending to them copies first."""
        self._data, self._written = values, len(values)

    def view(self, rows: int) -> np.ndarray:
        """Return the first ``rows`` rows, read-only."""
        self._fill_to(rows, rows)
        view = self._data[:rows]
        view.flags.writeable = False
        return view

    def rewrite(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Replace the values at ``rows`` in a copy, so that existing snapshots keep theirs."""
        self._data = self._data.copy()
        self._data[rows] = values

    def _fill_to(self, rows: int, end: int) -> None:
        """Write the fill value up to ``rows`` and grow the capacity to ``end``."""
        if end > len(self._data):
            grown = allocate(max(_FIRST, end, len(self._data) * 3 // 2), self.dtype)
            grown[: self._written] = self._data[: self._written]
            self._data = grown
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
        self._code = _Codes(self.names)

    def restore(self, names: list[str]) -> None:
        """Set the texts that belong to codes written earlier."""
        self.names = names
        self._code = _Codes(names)

    def write(self, start: int, texts: Sequence[str | None]) -> None:
        """Write one text per row from row ``start`` on; None means "not logged"."""
        codes = np.fromiter(map(self._code.__getitem__, texts), np.int32, len(texts))
        self.codes.write(start, codes)


class _Codes(dict[str | None, int]):
    """Maps a text to its code; an unknown text gets the next code and is appended to ``names``."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(zip(names, range(len(names)), strict=True))
        self[None] = -1
        self._names = names

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self._names)
        self._names.append(text)
        return code


class Columns:
    """All rows of a run: number columns (float64), label columns, and columns that locate each sample.

    Number and label columns appear when first logged; earlier rows hold NaN or "not logged".

    Attributes
    ----------
    edition : int
        Goes up when existing rows are overwritten.
    """

    #: Name and dtype of the columns that every row has. ``notes`` counts the remarks on the sample.
    METADATA: ClassVar[dict[str, type]] = {
        "step": np.int64,
        "rank": np.int32,
        "file": np.int32,
        "offset": np.int64,
        "length": np.uint32,
        "line": np.uint32,
        "part": np.uint16,
        "notes": np.uint8,
        "hash": np.uint64,
        "prompt_hash": np.uint64,
        "response_hash": np.uint64,
    }

    def __init__(self) -> None:
        self.rows = self.edition = 0
        self.metadata = {name: Column(dtype, 0) for name, dtype in self.METADATA.items()}
        self.numbers: dict[str, Column] = {}
        self.labels: dict[str, Labels] = {}

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
