"""Columns whose step statistics are computed when they are first needed.

A run that comes from the cache opens without them: its rows are only counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

#: Rows of a column whose statistics are computed at once, so that copies stay small.
PART_ROWS = 32_768
#: Memory of mapped rows is released each time after this many such parts.
_RELEASE_PARTS = 16


class RowsByStep(NamedTuple):
    """Rows sorted by step; ``order`` is None if they are sorted already.

    ``starts`` holds the first row of each step after sorting, ``slots`` the slots of these steps.
    """

    order: np.ndarray | None
    starts: np.ndarray
    slots: np.ndarray


class DeferredColumns:
    """Columns whose rows are counted, and whose statistics are computed when they are first needed.

    They are written into chunks that snapshots see already, because no snapshot has read them before. The
    table writes nothing else until `compute_all` was called. Thread-safe.

    Parameters
    ----------
    merge : callable
        Merges columns of some rows into the chunks.
    parts : sequence of (slice or ndarray of int, RowsByStep)
        The rows in parts, and each part sorted by step.
    values : mapping of str to ndarray, shape (N,)
    """

    def __init__(
        self,
        merge: Callable[[RowsByStep, Mapping[str, np.ndarray]], None],
        parts: Sequence[tuple[slice | np.ndarray, RowsByStep]],
        values: Mapping[str, np.ndarray],
    ) -> None:
        self._merge = merge
        self._parts = parts
        self._waiting = dict(values)
        self._lock = threading.Lock()

    def compute(self, column: str) -> None:
        """Compute the statistics of a column, unless this was done or it is not one of these columns."""
        if column in self._waiting:
            with self._lock:
                if column in self._waiting:
                    for where, rows in self._parts:
                        self._merge(rows, {column: self._waiting[column][where]})
                    del self._waiting[column]  # last, because others look without the lock

    def waiting(self, column: str) -> Iterator[tuple[np.ndarray, RowsByStep]]:
        """Yield the values of a column in parts, with their steps; nothing if its statistics are computed."""
        with self._lock:
            values, parts = self._waiting.get(column), self._parts
        if values is not None:
            yield from ((values[where], rows) for where, rows in parts)

    def compute_all(self, release: Callable[[], None] | None = None) -> None:
        """Compute all that is left; ``release`` is called now and then, and at the end."""
        with self._lock:
            if not self._waiting:
                return
            for number, (where, rows) in enumerate(self._parts, 1):
                self._merge(rows, {name: column[where] for name, column in self._waiting.items()})
                if release is not None and (number % _RELEASE_PARTS == 0 or number == len(self._parts)):
                    release()
            self._waiting, self._parts = {}, ()
