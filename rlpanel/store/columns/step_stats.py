"""Statistics per step and column, kept up to date in O(batch).

Counts, means and sums of squared deviations merge by Chan's formula, which is stable where sums of
squares are not. Only finite values count; ``count`` says how many there were. Steps live in chunks;
a chunk that a snapshot may see is copied before it is written.

References
----------
Chan, Golub, LeVeque 1979, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

#: Steps that lie together: what a commit that changes one of them copies.
CHUNK = 64
COUNT, MEAN, M2, MIN, MAX = range(5)


def summarize(columns: Sequence[np.ndarray], starts: np.ndarray) -> np.ndarray:
    """Statistics of consecutive runs of rows.

    Parameters
    ----------
    columns : sequence of ndarray, C of shape (N,)
        Sorted by step; NaN and infinities are missing.
    starts : ndarray of int, shape (S,)
        Where each step's rows begin; strictly increasing from 0.

    Returns
    -------
    ndarray, shape (5, C, S)
        count, mean, sum of squared deviations, min, max; NaN (count 0) where nothing is finite.
    """
    lengths = np.diff(np.append(starts, len(columns[0])))
    found = np.empty((5, len(columns), len(starts)))
    with np.errstate(all="ignore"):
        for at, column in enumerate(columns):
            found[:, at] = _of_column(column, starts, lengths)
    return found


def _of_column(column: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
    """Statistics of one column; a single one stays in the processor's cache from sum to spread."""
    total = np.add.reduceat(column, starts)
    if np.isfinite(total).all():  # then every value is
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
    """Statistics of two disjoint sets of rows together; shapes (5, ...) as `summarize` gives."""
    n, m = a[COUNT], b[COUNT]
    with np.errstate(all="ignore"):
        total = n + m
        delta = b[MEAN] - a[MEAN]
        mean = a[MEAN] + delta * (m / total)
        m2 = a[M2] + b[M2] + delta * delta * (n * m / total)
    both = np.stack([total, mean, m2, np.fmin(a[MIN], b[MIN]), np.fmax(a[MAX], b[MAX])])
    both = np.where(n == 0, b, both)
    return np.where((m == 0) & (n > 0), a, both)


class StepTable:
    """The statistics of all steps; slots are in order of arrival."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._slot: dict[int, int] = {}
        self._facts = np.zeros((3, CHUNK), np.int64)  # step, samples, version of the last change
        self._chunks: list[np.ndarray] = []
        self._shared: set[int] = set()

    def add(self, steps: np.ndarray, values: Mapping[str, np.ndarray], version: int) -> None:
        """Merge new rows in.

        Parameters
        ----------
        steps : ndarray of int, shape (N,)
        values : mapping of str to ndarray, shape (N,)
        version : int
            Noted as the version that last changed these steps.
        """
        if not len(steps):
            return
        order = None if (steps[1:] >= steps[:-1]).all() else np.argsort(steps, kind="stable")
        steps = steps if order is None else steps[order]
        starts = np.concatenate([[0], np.flatnonzero(steps[1:] != steps[:-1]) + 1])
        slots = np.array([self._open(step) for step in steps[starts].tolist()], dtype=np.int64)
        self._facts[1, slots] += np.diff(np.append(starts, len(steps)))
        self._facts[2, slots] = version
        if not values:
            return
        columns = [column if order is None else column[order] for column in values.values()]
        stats = summarize(columns, starts)
        self._add_columns([name for name in values if name not in self._columns])
        where = np.array([self._columns[name] for name in values])
        for index in np.unique(slots // CHUNK).tolist():
            here = slots // CHUNK == index
            cells = np.ix_(np.arange(5), where, slots[here] % CHUNK)
            chunk = self._writable(index)
            chunk[cells] = merge(chunk[cells], stats[:, :, here])

    def clear(self, steps: np.ndarray, version: int) -> None:
        """Empty these steps, if they are there: a merge cannot subtract, so living rows are added again."""
        for step in np.unique(steps).tolist():
            slot = self._slot.get(step)
            if slot is None:
                continue
            self._writable(slot // CHUNK)[:, :, slot % CHUNK] = _EMPTY
            self._facts[1:, slot] = 0, version

    def freeze(self) -> Steps:
        """An immutable view; later writes go to copies."""
        self._shared = set(range(len(self._chunks)))
        steps, samples, touched = self._facts[:, : len(self._slot)].copy()
        return Steps(tuple(self._columns), steps, samples, touched, tuple(self._chunks))

    def _open(self, step: int) -> int:
        slot = self._slot.get(step)
        if slot is None:
            slot = self._slot[step] = len(self._slot)
            if slot // CHUNK == len(self._chunks):
                self._chunks.append(_empty(len(self._columns)))
            if slot == self._facts.shape[1]:
                self._facts = np.concatenate([self._facts, np.zeros_like(self._facts)], axis=1)
            self._facts[0, slot] = step
        return slot

    def _add_columns(self, names: list[str]) -> None:
        if names:
            self._columns |= {name: at for at, name in enumerate(names, len(self._columns))}
            self._chunks = [np.concatenate([chunk, _empty(len(names))], axis=1) for chunk in self._chunks]
            self._shared.clear()

    def _writable(self, index: int) -> np.ndarray:
        if index in self._shared:
            self._chunks[index] = self._chunks[index].copy()
            self._shared.discard(index)
        return self._chunks[index]


#: The statistics of no rows.
_EMPTY = np.array([[0.0], [np.nan], [np.nan], [np.nan], [np.nan]])


def _empty(columns: int) -> np.ndarray:
    """A chunk without rows."""
    return np.tile(_EMPTY[:, :, None], (1, columns, CHUNK))


def _no_steps() -> np.ndarray:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Steps:
    """A frozen `StepTable`, read in order of step.

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

    @cached_property
    def _order(self) -> np.ndarray:
        alive = np.flatnonzero(self._rows > 0)
        return alive[np.argsort(self._steps[alive], kind="stable")]

    @cached_property
    def values(self) -> np.ndarray:
        """The steps that have samples, ascending, shape (S,)."""
        return self._steps[self._order]

    @cached_property
    def samples(self) -> np.ndarray:
        """Samples of each step, shape (S,)."""
        return self._rows[self._order]

    def changed_since(self, version: int) -> np.ndarray:
        """Positions in `values` of the steps touched after ``version``."""
        return np.flatnonzero(self._touched[self._order] > version)

    def since(self, steps: np.ndarray, version: int) -> tuple[np.ndarray, np.ndarray]:
        """What of an earlier version's numbers by step still holds.

        Parameters
        ----------
        steps : ndarray of int, shape (K,)
            The steps that version had, ascending; one at least.
        version : int

        Returns
        -------
        at : ndarray of int, shape (S,)
            Where each of `values` stands among ``steps``; anywhere for one that is stale.
        stale : ndarray of bool, shape (S,)
            The steps that are new or were touched since.
        """
        at = np.searchsorted(steps, self.values).clip(max=len(steps) - 1)
        stale = steps[at] != self.values
        stale[self.changed_since(version)] = True
        return at, stale

    def stat(self, column: str, which: int) -> np.ndarray:
        """One statistic (COUNT, MEAN, M2, MIN or MAX) of a column by step, shape (S,).

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
        return np.concatenate([chunk[which, index] for chunk in self._chunks])[self._order]

    def mean(self, column: str) -> np.ndarray:
        """Mean over a step's samples, shape (S,)."""
        return self.stat(column, MEAN)

    def std(self, column: str) -> np.ndarray:
        """Standard deviation (ddof 1) over a step's samples, shape (S,); NaN below two samples."""
        count = self.stat(column, COUNT)
        with np.errstate(all="ignore"):
            return np.where(count > 1, np.sqrt(self.stat(column, M2) / (count - 1)), np.nan)

    def position(self, step: int) -> int:
        """Where a step stands in `values`; -1 if it has no samples."""
        at = bisect_left(self.values, step)  # numpy would let go of the interpreter, and wait to have it back
        return at if at < len(self.values) and self.values[at] == step else -1
