"""Columns that only grow, so that a view of their first n rows stays true for ever.

Growing copies into a larger array and leaves the old one to whoever still looks at it; nothing that a
snapshot can see is ever written again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

_FIRST = 1024


class Column:
    """One growable array.

    Parameters
    ----------
    dtype : dtype
    fill : scalar
        Value of rows that came before the column (NaN, or -1 for "no label").
    """

    def __init__(self, dtype: np.dtype | type, fill: float | int) -> None:
        self._data = np.full(_FIRST, fill, dtype=dtype)
        self.fill = fill

    def write(self, start: int, values: np.ndarray) -> None:
        """Put ``values`` at rows ``start``..., which no snapshot covers yet."""
        self.reserve(start + len(values))
        self._data[start : start + len(values)] = values

    def reserve(self, rows: int) -> None:
        """Make room for ``rows`` rows, filled."""
        if rows > len(self._data):
            size = max(rows, len(self._data) + (len(self._data) >> 1))
            grown = np.full(size, self.fill, dtype=self._data.dtype)
            grown[: len(self._data)] = self._data
            self._data = grown

    def view(self, rows: int) -> np.ndarray:
        """The first ``rows`` rows, read-only."""
        self.reserve(rows)
        view = self._data[:rows]
        view.flags.writeable = False
        return view


class Labels:
    """A growable column of short texts, each distinct text kept once.

    Codes are positions in ``names``; -1 is "not logged".
    """

    def __init__(self) -> None:
        self.codes = Column(np.int32, -1)
        self.names: list[str] = []
        self._code: dict[str, int] = {}

    def write(self, start: int, texts: Sequence[str | None]) -> None:
        """Put one text a row at ``start``..., None for "not logged"."""
        codes = np.fromiter((self._encode(text) for text in texts), dtype=np.int32, count=len(texts))
        self.codes.write(start, codes)

    def _encode(self, text: str | None) -> int:
        if text is None:
            return -1
        code = self._code.get(text)
        if code is None:
            code = self._code[text] = len(self.names)
            self.names.append(text)
        return code


class Columns:
    """The rows of a run: number columns (float64), label columns, and where each sample stands.

    Number and label columns appear when first logged; earlier rows hold NaN or "not logged".
    """

    #: What every row has: name, dtype.
    PLACE = {
        "step": np.int64,
        "rank": np.int32,
        "file": np.int32,
        "generation": np.int32,
        "offset": np.int64,
        "length": np.int64,
        "line": np.int64,
        "part": np.int32,
        "hash": np.uint64,
        "prompt_hash": np.uint64,
    }

    def __init__(self) -> None:
        self.rows = 0
        self.place = {name: Column(dtype, 0) for name, dtype in self.PLACE.items()}
        self.numbers: dict[str, Column] = {}
        self.labels: dict[str, Labels] = {}

    def append(
        self,
        place: dict[str, np.ndarray],
        numbers: dict[str, np.ndarray],
        labels: dict[str, Sequence[str | None]],
    ) -> slice:
        """Add rows; returns where they stand."""
        start, count = self.rows, len(place["step"])
        for name, values in place.items():
            self.place[name].write(start, values)
        for name, values in numbers.items():
            self._number(name).write(start, values)
        for name, texts in labels.items():
            self._label(name).write(start, texts)
        self.rows += count
        return slice(start, self.rows)

    def number_names(self) -> Iterator[str]:
        """Number columns in the order they appeared."""
        return iter(self.numbers)

    def _number(self, name: str) -> Column:
        if name not in self.numbers:
            self.numbers[name] = Column(np.float64, np.nan)
        return self.numbers[name]

    def _label(self, name: str) -> Labels:
        if name not in self.labels:
            self.labels[name] = Labels()
        return self.labels[name]
