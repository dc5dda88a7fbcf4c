"""Columns that only grow, so that a view of their first n rows stays true for ever.

Growing copies into a larger array and leaves the old one to whoever still looks at it; nothing that a
snapshot can see is ever written again. Room that is not used yet is not touched, so it costs no memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from rlpanel.store.columns.page_memory import allocate

_FIRST = 1024


class Column:
    """One growable array.

    Parameters
    ----------
    dtype : dtype
    fill : scalar
        Value of rows that nobody wrote (NaN, or -1 for "no label").
    """

    def __init__(self, dtype: np.dtype | type, fill: float | int) -> None:
        self.fill = fill
        self.dtype = np.dtype(dtype)
        self._data = np.empty(0, dtype)
        self._written = 0

    def write(self, start: int, values: np.ndarray) -> None:
        """Put ``values`` at rows ``start``..., which no snapshot covers yet."""
        end = start + len(values)
        self._fill_to(start, end)
        self._data[start:end] = values
        self._written = end

    def adopt(self, values: np.ndarray) -> None:
        """Begin with ``values``, which may be read-only: rows that come later go into a copy."""
        self._data, self._written = values, len(values)

    def view(self, rows: int) -> np.ndarray:
        """The first ``rows`` rows, read-only."""
        self._fill_to(rows, rows)
        view = self._data[:rows]
        view.flags.writeable = False
        return view

    def rewrite(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Other values at ``rows``, in a copy: what a snapshot sees stays."""
        self._data = self._data.copy()
        self._data[rows] = values

    def _fill_to(self, rows: int, end: int) -> None:
        """Fill up to ``rows`` and make room up to ``end``."""
        if end > len(self._data):
            grown = allocate(max(_FIRST, end, len(self._data) * 3 // 2), self.dtype)
            grown[: self._written] = self._data[: self._written]
            self._data = grown
        if rows > self._written:
            self._data[self._written : rows] = self.fill
            self._written = rows


class Labels:
    """A growable column of short texts, each distinct text kept once.

    Codes are positions in ``names``; -1 is "not logged".
    """

    def __init__(self) -> None:
        self.codes = Column(np.int32, -1)
        self.names: list[str] = []
        self._code = _Codes(self.names)

    def restore(self, names: list[str]) -> None:
        """The texts of codes that were written before."""
        self.names = names
        self._code = _Codes(names)

    def write(self, start: int, texts: Sequence[str | None]) -> None:
        """Put one text a row at ``start``..., None for "not logged"."""
        codes = np.fromiter(map(self._code.__getitem__, texts), np.int32, len(texts))
        self.codes.write(start, codes)


class _Codes(dict[str | None, int]):
    """Codes by text; a text that is new gets the next one and joins ``names``."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(zip(names, range(len(names)), strict=True))
        self[None] = -1
        self._names = names

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self._names)
        self._names.append(text)
        return code


class Columns:
    """The rows of a run: number columns (float64), label columns, and where each sample stands.

    Number and label columns appear when first logged; earlier rows hold NaN or "not logged".

    Attributes
    ----------
    edition : int
        Goes up when rows that were there before are given other values.
    """

    #: What every row has: name, dtype. ``notes`` counts what was odd about the sample.
    PLACE: ClassVar[dict[str, type]] = {
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
        self.place = {name: Column(dtype, 0) for name, dtype in self.PLACE.items()}
        self.numbers: dict[str, Column] = {}
        self.labels: dict[str, Labels] = {}

    def append(
        self,
        place: Mapping[str, np.ndarray],
        numbers: Mapping[str, np.ndarray],
        labels: Mapping[str, Sequence[str | None]],
    ) -> slice:
        """Add rows; returns where they stand."""
        start = self.rows
        for name, values in place.items():
            self.place[name].write(start, values)
        for name, values in numbers.items():
            if name not in self.numbers:
                self.numbers[name] = Column(np.float64, np.nan)
            self.numbers[name].write(start, values)
        for name, texts in labels.items():
            if name not in self.labels:
                self.labels[name] = Labels()
            self.labels[name].write(start, texts)
        self.rows += len(place["step"])
        return slice(start, self.rows)

    def renumber(self, rows: np.ndarray, lines: np.ndarray) -> None:
        """Other line numbers for ``rows``."""
        self.place["line"].rewrite(rows, lines)
        self.edition += 1

    def only(self, rows: np.ndarray) -> Columns:
        """A copy that holds these rows alone, in this order."""
        kept = Columns()
        place = {name: column.view(self.rows)[rows] for name, column in self.place.items()}
        numbers = {name: column.view(self.rows)[rows] for name, column in self.numbers.items()}
        kept.append(place, numbers, {})
        for name, labels in self.labels.items():
            codes = labels.codes.view(self.rows)[rows]
            if (codes >= 0).any():
                texts = [labels.names[code] if code >= 0 else None for code in codes.tolist()]
                kept.labels[name] = Labels()
                kept.labels[name].write(0, texts)
        return kept
