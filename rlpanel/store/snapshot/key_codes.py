"""Codes of integers that arrive in blocks: few distinct ones by a hash table, many by sorted runs.

A hash table of pairs such as ``prompt << 32 | step`` becomes slow: pandas hashes an integer by shifts of 33
and 11 bits, which maps many such pairs to the same place. Millions of pairs are sorted instead.
"""

from __future__ import annotations

import numpy as np
import pandas as pd


class FewCodes:
    """Codes of integers in the order in which they are first seen; the codes never change."""

    def __init__(self) -> None:
        self._sorted, self._codes = np.empty(0, np.int64), np.empty(0, np.int32)

    def __len__(self) -> int:
        return len(self._sorted)

    def each(self, values: np.ndarray) -> np.ndarray:
        """Return the code of each value, shape (N,)."""
        place, distinct = pd.factorize(values)
        at, is_known = _found(self._sorted, distinct)
        new = distinct[~is_known]
        if len(new):
            codes = np.arange(len(self), len(self) + len(new), dtype=np.int32)
            merged = np.concatenate([self._sorted, new])
            order = np.argsort(merged, kind="stable")
            self._sorted, self._codes = merged[order], np.concatenate([self._codes, codes])[order]
            at = np.searchsorted(self._sorted, distinct)
        return self._codes[at][place]

    @property
    def values(self) -> np.ndarray:
        """The integers in the order of their codes."""
        found = np.empty(len(self), np.int64)
        found[self._codes] = self._sorted
        return found


class ManyCodes:
    """Codes of integers; the codes never change, and those of a block's new integers ascend with them.

    Known integers lie in sorted runs. A new run is merged with the one before it while that is at most twice
    as long, so that n integers in blocks are moved n · log(n) times, and not once for each block.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[np.ndarray, np.ndarray]] = []  # ascending integers, and their codes
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the position of each value among the distinct ones, shape (N,), and the codes of these."""
        distinct, place = np.unique(values, return_inverse=True)
        codes = np.full(len(distinct), -1, np.int32)
        for known, of_run in self._runs:
            at, is_known = _found(known, distinct)
            codes[is_known] = of_run[at[is_known]]
        is_new = codes < 0
        new = distinct[is_new]
        if len(new):
            codes[is_new] = np.arange(self._count, self._count + len(new), dtype=np.int32)
            self._count += len(new)
            self._runs.append((new, codes[is_new]))
            while len(self._runs) > 1 and len(self._runs[-2][0]) <= 2 * len(self._runs[-1][0]):
                self._merge()
        return place, codes

    def each(self, values: np.ndarray) -> np.ndarray:
        """Return the code of each value, shape (N,)."""
        place, codes = self.of(values)
        return codes[place]

    def sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all integers in ascending order, and their codes."""
        while len(self._runs) > 1:
            self._merge()
        return self._runs[0] if self._runs else (np.empty(0, np.int64), np.empty(0, np.int32))

    @property
    def values(self) -> np.ndarray:
        """The integers in the order of their codes."""
        values, codes = self.sorted()
        found = np.empty(len(self), np.int64)
        found[codes] = values
        return found

    def _merge(self) -> None:
        """Merge the last two runs. A stable sort of two sorted runs reads each of them once."""
        (first, codes), (second, more) = self._runs[-2:]
        merged = np.concatenate([first, second])
        order = np.argsort(merged, kind="stable")
        self._runs[-2:] = [(merged[order], np.concatenate([codes, more])[order])]


def _found(known: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of values in an ascending array, and whether each is there."""
    at = np.searchsorted(known, values)
    is_known = at < len(known)
    is_known[is_known] = known[at[is_known]] == values[is_known]
    return at, is_known
