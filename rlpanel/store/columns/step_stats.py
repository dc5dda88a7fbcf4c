"""Running statistics (count, mean, variance, min, max) per step and column, updated in O(batch).

Counts, means and sums of squared deviations are merged by Chan's formula, which is numerically stable,
unlike sums of squares. Only finite values count; ``count`` is their number. Steps are stored in chunks; a
chunk that a snapshot may see is copied before it is written (copy on write). Rows that come from the cache
are counted at once; the statistics of a column are computed when they are first needed.

References
----------
Chan, Golub, LeVeque 1979, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

#: Steps per chunk: a commit that changes one step copies this many.
CHUNK = 64
#: Rows of a column whose statistics are computed at once, so that copies stay small.
LATE_ROWS = 32_768
#: Memory of mapped rows is released each time after this many such parts.
_RELEASE_PARTS = 16
COUNT, MEAN, M2, MIN, MAX = range(5)
#: Statistics that are stored, by name.
_STATISTICS = {"mean": MEAN, "min": MIN, "max": MAX}


def summarize(columns: Sequence[np.ndarray], starts: np.ndarray) -> np.ndarray:
    """Compute statistics of consecutive runs of rows.

    Parameters
    ----------
    columns : sequence of ndarray, C of shape (N,)
        Sorted by step; NaN and infinities are treated as missing.
    starts : ndarray of int, shape (S,)
        First row of each step; strictly increasing from 0.

    Returns
    -------
    ndarray, shape (5, C, S)
        count, mean, sum of squared deviations, min, max; NaN (count 0) where no value is finite.
    """
    lengths = np.diff(np.append(starts, len(columns[0])))
    stats = np.empty((5, len(columns), len(starts)))
    with np.errstate(all="ignore"):
        for index, column in enumerate(columns):
            stats[:, index] = _column_stats(column, starts, lengths)
    return stats


def _column_stats(column: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
    """Compute statistics of one column; a single column fits into the processor's cache for all passes."""
    total = np.add.reduceat(column, starts)
    if np.isfinite(total).all():  # then every value is finite
        mean = total / lengths
        off = column - np.repeat(mean, lengths)
        off *= off
        m2 = np.add.reduceat(off, starts)
        return lengths, mean, m2, np.minimum.reduceat(column, starts), np.maximum.reduceat(column, starts)
    finite = np.isfinite(column)
    count = np.add.reduceat(finite, starts, dtype=np.float64)
    mean = np.add.reduceat(np.where(finite, column, 0.0), starts) / count
    off = np.where(finite, column - np.repeat(mean, lengths), 0.0)
    m2 = np.add.reduceat(off * off, starts)
    low = np.minimum.reduceat(np.where(finite, column, np.inf), starts)
    high = np.maximum.reduceat(np.where(finite, column, -np.inf), starts)
    empty = count == 0
    for part in (mean, m2, low, high):
        part[empty] = np.nan
    return count, mean, m2, low, high


def merge(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Merge the statistics of two disjoint sets of rows; shapes (5, ...) as returned by `summarize`."""
    n, m = a[COUNT], b[COUNT]
    with np.errstate(all="ignore"):
        total = n + m
        delta = b[MEAN] - a[MEAN]
        mean = a[MEAN] + delta * (m / total)
        m2 = a[M2] + b[M2] + delta * delta * (n * m / total)
    both = np.stack([total, mean, m2, np.fmin(a[MIN], b[MIN]), np.fmax(a[MAX], b[MAX])])
    both = np.where(n == 0, b, both)
    return np.where((m == 0) & (n > 0), a, both)


class _RowsByStep(NamedTuple):
    """Rows sorted by step; ``order`` is None if they are sorted already.

    ``starts`` holds the first row of each step after sorting, ``slots`` the slots of these steps.
    """

    order: np.ndarray | None
    starts: np.ndarray
    slots: np.ndarray


class _LateColumns:
    """Columns whose rows are counted, and whose statistics are computed when they are first needed.

    They are written into chunks that snapshots see already, because no snapshot has read them before. The
    table writes nothing else until `compute_all` was called. Thread-safe.

    Parameters
    ----------
    merge : callable
        Merges columns of some rows into the chunks.
    parts : sequence of (slice or ndarray of int, _RowsByStep)
        The rows in parts, and each part sorted by step.
    values : mapping of str to ndarray, shape (N,)
    """

    def __init__(
        self,
        merge: Callable[[_RowsByStep, Mapping[str, np.ndarray]], None],
        parts: Sequence[tuple[slice | np.ndarray, _RowsByStep]],
        values: Mapping[str, np.ndarray],
    ) -> None:
        self._merge, self._parts = merge, parts
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

    def compute_all(self, release: Callable[[], None] | None = None) -> None:
        """Compute all that is left; ``release`` is called now and then, and at the end."""
        with self._lock:
            if not self._waiting:
                return
            for number, (where, rows) in enumerate(self._parts, 1):
                self._merge(rows, {name: column[where] for name, column in self._waiting.items()})
                if release is not None and (number % _RELEASE_PARTS == 0 or number == len(self._parts)):
                    release()
            self._waiting = {}


class StepTable:
    """Statistics of all steps; each step has a slot, in order of arrival."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._slot: dict[int, int] = {}
        self._step_info = np.zeros((3, CHUNK), np.int64)  # step, samples, version of the last change
        self._chunks: list[np.ndarray] = []
        self._visible: set[int] = set()
        self._late: _LateColumns | None = None

    def add(self, steps: np.ndarray, values: Mapping[str, np.ndarray], version: int) -> None:
        """Merge new rows into the statistics.

        Parameters
        ----------
        steps : ndarray of int, shape (N,)
        values : mapping of str to ndarray, shape (N,)
        version : int
            Recorded as the version that last changed these steps.
        """
        self.compute_late()
        if not len(steps):
            return
        rows = self._count(steps, version)
        if values:
            self._add_columns(values)
            self._merge(rows, values, self._writable)

    def add_late(
        self, rows: np.ndarray | None, steps: np.ndarray, values: Mapping[str, np.ndarray], version: int
    ) -> None:
        """Count new rows; the statistics of a column are computed when they are first needed.

        Parameters
        ----------
        rows : ndarray of int, optional
            The new rows among the N of the arrays; all by default.
        steps : ndarray of int, shape (N,)
        values : mapping of str to ndarray, shape (N,)
            Must not change.
        version : int
            Recorded as the version that last changed these steps.
        """
        self.compute_late()
        parts: list[tuple[slice | np.ndarray, _RowsByStep]] = []
        for start in range(0, len(steps) if rows is None else len(rows), LATE_ROWS):
            some = slice(start, start + LATE_ROWS)
            where = some if rows is None else rows[some]  # a slice is not copied
            parts.append((where, self._count(steps[where], version)))
        if parts and values:
            self._add_columns(values)
            chunks = self._chunks = [self._writable(index) for index in range(len(self._chunks))]
            self._late = _LateColumns(
                lambda rows, columns: self._merge(rows, columns, chunks.__getitem__), parts, values
            )

    def compute_late(self, release: Callable[[], None] | None = None) -> None:
        """Compute the statistics that `add_late` left; ``release`` is called now and then."""
        if self._late is not None:
            self._late.compute_all(release)
            self._late = None

    def clear(self, steps: np.ndarray, version: int) -> None:
        """Reset these steps. A merge cannot subtract, so the caller adds the remaining rows again."""
        self.compute_late()
        for step in np.unique(steps).tolist():
            slot = self._slot.get(step)
            if slot is None:
                continue
            self._writable(slot // CHUNK)[:, :, slot % CHUNK] = _EMPTY
            self._step_info[1:, slot] = 0, version

    def freeze(self) -> Steps:
        """Return an immutable view; later writes go to copies."""
        self._visible = set(range(len(self._chunks)))
        steps, samples, touched = self._step_info[:, : len(self._slot)].copy()
        return Steps(tuple(self._columns), steps, samples, touched, tuple(self._chunks), self._late)

    def _count(self, steps: np.ndarray, version: int) -> _RowsByStep:
        """Count new rows of these steps, and return them sorted by step."""
        order = None if (steps[1:] >= steps[:-1]).all() else np.argsort(steps, kind="stable")
        steps = steps if order is None else steps[order]
        starts = np.concatenate([[0], np.flatnonzero(steps[1:] != steps[:-1]) + 1])
        slots = np.array([self._slot_of(step) for step in steps[starts].tolist()], dtype=np.int64)
        self._step_info[1, slots] += np.diff(np.append(starts, len(steps)))
        self._step_info[2, slots] = version
        if order is not None and len(order) <= LATE_ROWS:
            order = order.astype(np.uint16)  # late columns keep it
        return _RowsByStep(order, starts, slots)

    def _merge(
        self,
        rows: _RowsByStep,
        values: Mapping[str, np.ndarray],
        chunk_at: Callable[[int], np.ndarray],
    ) -> None:
        """Merge the statistics of rows into chunks, which ``chunk_at`` returns by number."""
        order, starts, slots = rows
        stats = summarize([column if order is None else column[order] for column in values.values()], starts)
        column_indices = np.array([self._columns[name] for name in values])
        chunk_numbers = slots // CHUNK
        for index in np.unique(chunk_numbers).tolist():
            in_chunk = chunk_numbers == index
            cells = np.ix_(np.arange(5), column_indices, slots[in_chunk] % CHUNK)
            chunk = chunk_at(index)
            chunk[cells] = merge(chunk[cells], stats[:, :, in_chunk])

    def _slot_of(self, step: int) -> int:
        slot = self._slot.get(step)
        if slot is None:
            slot = self._slot[step] = len(self._slot)
            if slot // CHUNK == len(self._chunks):
                self._chunks.append(_empty(len(self._columns)))
            if slot == self._step_info.shape[1]:
                self._step_info = np.concatenate([self._step_info, np.zeros_like(self._step_info)], axis=1)
            self._step_info[0, slot] = step
        return slot

    def _add_columns(self, columns: Mapping[str, np.ndarray]) -> None:
        names = [name for name in columns if name not in self._columns]
        if names:
            self._columns |= {name: index for index, name in enumerate(names, len(self._columns))}
            self._chunks = [np.concatenate([chunk, _empty(len(names))], axis=1) for chunk in self._chunks]
            self._visible.clear()

    def _writable(self, index: int) -> np.ndarray:
        if index in self._visible:
            self._chunks[index] = self._chunks[index].copy()
            self._visible.discard(index)
        return self._chunks[index]


#: Statistics of an empty set of rows.
_EMPTY = np.array([[0.0], [np.nan], [np.nan], [np.nan], [np.nan]])


def _empty(columns: int) -> np.ndarray:
    """Return a chunk whose steps have no rows."""
    return np.tile(_EMPTY[:, :, None], (1, columns, CHUNK))


def _no_steps() -> np.ndarray:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Steps:
    """Immutable view of a `StepTable`, in ascending order of steps.

    Attributes
    ----------
    columns : tuple of str
        Sample columns that have statistics.
    """

    columns: tuple[str, ...] = ()
    _steps: np.ndarray = field(default_factory=_no_steps)
    _rows: np.ndarray = field(default_factory=_no_steps)
    _touched: np.ndarray = field(default_factory=_no_steps)
    _chunks: tuple[np.ndarray, ...] = ()
    _late: _LateColumns | None = None

    @cached_property
    def _order(self) -> np.ndarray:
        alive = np.flatnonzero(self._rows > 0)
        return alive[np.argsort(self._steps[alive], kind="stable")]

    @cached_property
    def values(self) -> np.ndarray:
        """Steps that have samples, ascending, shape (S,)."""
        return self._steps[self._order]

    @cached_property
    def samples(self) -> np.ndarray:
        """Number of samples of each step, shape (S,)."""
        return self._rows[self._order]

    def changed_since(self, version: int) -> np.ndarray:
        """Return the positions in `values` of the steps changed after ``version``."""
        return np.flatnonzero(self._touched[self._order] > version)

    def compare_steps(self, steps: np.ndarray, version: int) -> tuple[np.ndarray, np.ndarray]:
        """Compare with an earlier version: which of its per-step results can be reused.

        Parameters
        ----------
        steps : ndarray of int, shape (K,)
            Steps of the earlier version, ascending; at least one.
        version : int

        Returns
        -------
        at : ndarray of int, shape (S,)
            Position of each of `values` in ``steps``; arbitrary for stale steps.
        stale : ndarray of bool, shape (S,)
            Mask of the steps that are new or changed since.
        """
        positions = np.searchsorted(steps, self.values).clip(max=len(steps) - 1)
        stale = steps[positions] != self.values
        stale[self.changed_since(version)] = True
        return positions, stale

    def stat(self, column: str, statistic: int) -> np.ndarray:
        """Return one statistic (COUNT, MEAN, M2, MIN or MAX) of a column per step, shape (S,).

        Raises
        ------
        KeyError
            If the column has no statistics.
        """
        if column not in self.columns:
            raise KeyError(column)
        index = self.columns.index(column)
        if not self._chunks:
            return np.empty(0)
        if self._late is not None:
            self._late.compute(column)
        return np.concatenate([chunk[statistic, index] for chunk in self._chunks])[self._order]

    def compute_all(self) -> None:
        """Compute the statistics of all columns: together, that takes less time than one by one."""
        if self._late is not None:
            self._late.compute_all()

    def mean(self, column: str) -> np.ndarray:
        """Return the mean over each step's samples, shape (S,)."""
        return self.stat(column, MEAN)

    def std(self, column: str) -> np.ndarray:
        """Return the standard deviation (ddof 1) over each step's samples, shape (S,); NaN below two."""
        count = self.stat(column, COUNT)
        with np.errstate(all="ignore"):
            return np.where(count > 1, np.sqrt(self.stat(column, M2) / (count - 1)), np.nan)

    def statistic(self, column: str, name: str) -> np.ndarray:
        """Return the ``mean``, ``std``, ``min`` or ``max`` of a column per step, shape (S,)."""
        return self.std(column) if name == "std" else self.stat(column, _STATISTICS[name])

    def position(self, step: int) -> int:
        """Return the position of a step in `values`; -1 if it has no samples."""
        # Not `np.searchsorted`: it releases the GIL and may then wait to get it back.
        position = bisect_left(self.values, step)
        return position if position < len(self.values) and self.values[position] == step else -1
