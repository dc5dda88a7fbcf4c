"""Finds the rows of some steps without reading the steps of all rows: of each block, the range is known."""

from __future__ import annotations

import threading

import numpy as np

#: Rows of a block. Rows arrive about in the order of their steps, so that few blocks hold a step.
ROWS = 1 << 14


class StepBlocks:
    """Lowest and highest step of each block of rows; thread-safe.

    All snapshots of the same columns share it. Rows are only appended, so a full block is read once.
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
            slice(first * ROWS, min(last * ROWS, len(step)))
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
            known, full = len(self._low), len(step) // ROWS
            if full > known:
                new = step[known * ROWS : full * ROWS].reshape(-1, ROWS)
                self._low = np.concatenate([self._low, new.min(axis=1)])
                self._high = np.concatenate([self._high, new.max(axis=1)])
            low, high = self._low[:full], self._high[:full]
        rest = step[full * ROWS :]
        if not len(rest):
            return low, high
        return np.append(low, rest.min()), np.append(high, rest.max())
