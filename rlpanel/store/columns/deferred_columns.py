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
#: Columns that are computed together when all are; then a thread that waits for one has its turn.
_COLUMNS_AT_ONCE = 4


class RowsByStep(NamedTuple):
    """Rows sorted by step; ``order`` is None if they are sorted already.

    ``starts`` holds the first row of each step after sorting, ``slots`` the slots of these steps.
    """

    order: np.ndarray | None
    starts: np.ndarray
    slots: np.ndarray


class OutcomeColumn:
    """A column that is missing in the rows of a mask; a copy is made only of the rows that are read.

    Parameters
    ----------
    values : ndarray of float, shape (N,)
    further : ndarray of bool, shape (N,)
    """

    def __init__(self, values: np.ndarray, further: np.ndarray) -> None:
        self._values, self._further = values, further

    def __getitem__(self, where: slice | np.ndarray) -> np.ndarray:
        return np.where(self._further[where], np.nan, self._values[where])


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
    values : mapping of str to ndarray or OutcomeColumn, shape (N,)
    """

    def __init__(
        self,
        merge: Callable[[RowsByStep, Mapping[str, np.ndarray]], None],
        parts: Sequence[tuple[slice | np.ndarray, RowsByStep]],
        values: Mapping[str, np.ndarray | OutcomeColumn],
    ) -> None:
        self._merge = merge
        self._parts = parts
        self._waiting = dict(values)
        self._wanted: dict[str, None] = {}  # columns that were asked for one by one
        self._turn, self._is_busy = threading.Condition(), False

    def compute(self, column: str) -> None:
        """Compute the statistics of a column, unless this was done or it is not one of these columns."""
        if column in self._waiting:
            self._wanted[column] = None
            self._compute(lambda: [column] if column in self._waiting else [])

    def waiting(self, column: str) -> Iterator[tuple[np.ndarray, RowsByStep]]:
        """Yield the values of a column in parts, with their steps; nothing if its statistics are computed."""
        with self._turn:
            values, parts = self._waiting.get(column), self._parts
        if values is not None:
            yield from ((values[where], rows) for where, rows in parts)

    def compute_all(self, release: Callable[[], None] | None = None) -> None:
        """Compute all that is left; ``release`` is called now and then, and at the end.

        Some columns are computed at a time, first those that another thread waits for.
        """
        while self._waiting:
            self._compute(self._next_columns, release)

    def _next_columns(self) -> list[str]:
        wanted = [name for name in tuple(self._wanted) if name in self._waiting]
        return (wanted or list(self._waiting))[:_COLUMNS_AT_ONCE]

    def _compute(self, choose: Callable[[], list[str]], release: Callable[[], None] | None = None) -> None:
        """Compute the columns that ``choose`` returns once no other thread computes any."""
        with self._turn:
            self._turn.wait_for(lambda: not self._is_busy or not choose())
            columns = choose()
            self._is_busy |= bool(columns)
        if not columns:
            return
        try:
            self._merge_columns(columns, release)
        finally:
            with self._turn:
                self._is_busy = False
                self._turn.notify_all()

    def _merge_columns(self, columns: list[str], release: Callable[[], None] | None) -> None:
        values = {name: self._waiting[name] for name in columns}
        for number, (where, rows) in enumerate(self._parts, 1):
            self._merge(rows, {name: column[where] for name, column in values.items()})
            if release is not None and (number % _RELEASE_PARTS == 0 or number == len(self._parts)):
                release()
        for name in columns:
            del self._waiting[name]  # last, because others look without waiting
        if not self._waiting:
            self._parts = ()
