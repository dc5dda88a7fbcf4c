"""Statistics (count, mean, variance, min, max) per step and column: of a batch, merged, and as a frozen view.

Only finite values count; ``count`` is their number. Counts, means and sums of squared deviations are merged
by Chan's formula, which is numerically stable, unlike sums of squares. Some columns' statistics are deferred
until they are needed: a run that comes from the cache opens without them, its rows are only counted.

References
----------
Chan, Golub, LeVeque 1979, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from statistics import median
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


def _are_ordered(low: np.ndarray, high: np.ndarray) -> bool:
    """Return True if consecutive ranges do not overlap, and all rise or all fall."""
    return bool((low[1:] >= high[:-1]).all() or (high[1:] <= low[:-1]).all())


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


def _no_steps() -> np.ndarray:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Steps:
    """Immutable view of a `StepTable`, in ascending order of steps.

    Attributes
    ----------
    columns : tuple of str
        Sample columns that have statistics.
    further : Steps, optional
        Outcomes of the samples that are further outputs of an episode, which these statistics leave out.
    """

    columns: tuple[str, ...] = ()
    _steps: np.ndarray = field(default_factory=_no_steps)
    _rows: np.ndarray = field(default_factory=_no_steps)
    _touched: np.ndarray = field(default_factory=_no_steps)
    _chunks: tuple[np.ndarray, ...] = ()
    _deferred: DeferredColumns | None = None
    further: Steps | None = None
    _by_rows: bool = False

    @cached_property
    def by_rows(self) -> Steps:
        """The same steps with statistics in which each row counts; these steps if no step has others."""
        return self if self.further is None else replace(self, _by_rows=True)

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

    def newest_complete(self, *, settled: bool) -> int | None:
        """Return the newest step that is not still being written; None if there is no step.

        The last step counts as complete once it has the median number of samples of the five steps before it,
        or if it is ``settled``: no line has arrived for a while. Until then the step before it is returned.
        """
        if not len(self.values):
            return None
        usual = median(self.samples[-6:-1].tolist()) if len(self.samples) > 1 else 0
        return int(self.values[-1] if settled or self.samples[-1] >= usual else self.values[-2])

    @cached_property
    def episodes(self) -> np.ndarray:
        """Number of samples of each step, shape (S,), of which those of one episode count once."""
        return self.samples if self.further is None else self.samples - self._of_further(self.further.samples)

    def expected(self, column: str) -> np.ndarray:
        """Return how many values of a column each step has if none is missing, shape (S,)."""
        is_outcome = self.further is not None and column in self.further.columns
        return self.episodes if is_outcome and not self._by_rows else self.samples

    def _of_further(self, counts: np.ndarray) -> np.ndarray:
        """Return a number of each step of `further` at these steps, shape (S,); 0 at the others."""
        steps = self.further.values if self.further is not None else _no_steps()
        found = np.zeros(len(self.values), counts.dtype)
        at = np.searchsorted(steps, self.values).clip(max=max(len(steps) - 1, 0))
        known = steps[at] == self.values if len(steps) else np.zeros(len(found), bool)
        found[known] = counts[at[known]]
        return found

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
        return self._stats(column, statistic)

    def stats(self, column: str) -> np.ndarray:
        """Return all statistics of a column per step, shape (5, S); see `stat`."""
        return self._stats(column, slice(None))

    def stats_of(self, columns: Sequence[str], first: int = 0) -> np.ndarray:
        """Return all statistics of some columns per step, shape (5, C, S): far faster than one by one.

        The steps before the one at the position ``first`` are left out. The statistics of all columns are
        computed, see `compute_all`.
        """
        self.compute_all()
        if not self._chunks or not columns:
            return np.empty((5, len(columns), len(self.values) - first if self._chunks else 0))
        positions = self._order[first:]
        chunks, start = self._chunks_with(positions)
        if tuple(columns) != self.columns:
            at = [self.columns.index(column) for column in columns]
            chunks = [chunk[:, at] for chunk in chunks]
        found = np.concatenate(chunks, axis=-1)
        if len(positions) and (np.diff(positions) == 1).all():  # a copy is saved
            found = found[..., positions[0] - start : positions[-1] - start + 1]
        else:
            found = found[..., positions - start]
        if self._by_rows and self.further is not None:
            for place, column in enumerate(columns):
                if column in self.further.columns:
                    found[:, place] = self._with_further(column, self.further)[:, first:]
        return found

    def _chunks_with(self, positions: np.ndarray) -> tuple[Sequence[np.ndarray], int]:
        """Return the chunks from the one with the first of some positions on, and where they start."""
        if not len(positions):
            return self._chunks[:1], 0
        ends = np.cumsum([chunk.shape[-1] for chunk in self._chunks])
        first, last = np.searchsorted(ends, [positions.min(), positions.max()], side="right").tolist()
        return self._chunks[first : last + 1], int(ends[first - 1]) if first else 0

    def _stats(self, column: str, which: int | slice) -> np.ndarray:
        if column not in self.columns:
            raise KeyError(column)
        index = self.columns.index(column)
        if not self._chunks:
            return np.empty((5, 0))[which]
        if self._deferred is not None:
            self._deferred.compute(column)
        if self._by_rows and self.further is not None and column in self.further.columns:
            return self._with_further(column, self.further)[which]
        return np.concatenate([chunk[which, index] for chunk in self._chunks], axis=-1)[..., self._order]

    def _with_further(self, column: str, further: Steps) -> np.ndarray:
        """Return all statistics of an outcome over all rows, shape (5, S)."""
        outcomes = replace(self, _by_rows=False)
        all_steps, some = (
            np.stack([steps.stat(column, part) for part in range(5)]) for steps in (outcomes, further)
        )
        shared = np.isin(self.values, further.values)
        all_steps[:, shared] = merge(all_steps[:, shared], some)
        return all_steps

    def has_value(self, column: str, *, nonzero: bool = False) -> bool:
        """Return True if a column has a finite value; with ``nonzero``, one that is not zero.

        Raises
        ------
        KeyError
            If the column has no statistics.
        """
        # Statistics that are not computed yet are not needed if one of the first values decides.
        for values, _ in self._waiting(column):
            if ((np.isfinite(values) & (values != 0)) if nonzero else np.isfinite(values)).any():
                return True
        further = self.further if self.further is not None and column in self.further.columns else None
        if further is not None and further.has_value(column, nonzero=nonzero):
            return True
        if not nonzero:
            return bool((self.stat(column, COUNT) > 0).any())
        return bool((self.stat(column, MIN) < 0).any() or (self.stat(column, MAX) > 0).any())

    def is_ordered(self, column: str) -> bool:
        """Return True if the column's ranges at the steps do not overlap, and rise or fall with the step.

        A common bound of neighbouring steps is no overlap. False if a step has no finite value.

        Raises
        ------
        KeyError
            If the column has no statistics.
        """
        for values, (order, starts, _) in islice(self._waiting(column), 1):
            # If already some rows are not ordered, the statistics of all are not needed.
            some = summarize([values if order is None else values[order]], starts)[:, 0]
            some = some[:, some[COUNT] > 0]
            if not _are_ordered(some[MIN], some[MAX]):
                return False
        return _are_ordered(self.stat(column, MIN), self.stat(column, MAX))

    def _waiting(self, column: str) -> Iterator[tuple[np.ndarray, RowsByStep]]:
        return iter(()) if self._deferred is None else self._deferred.waiting(column)

    def compute_all(self) -> None:
        """Compute the statistics of all columns: together, that takes less time than one by one."""
        if self._deferred is not None:
            self._deferred.compute_all()

    def mean(self, column: str) -> np.ndarray:
        """Return the mean over each step's samples, shape (S,)."""
        return self.stat(column, MEAN)

    def squared_deviations(self, column: str) -> np.ndarray:
        """Return the sum of squared deviations from each step's mean, shape (S,).

        It is exactly 0 where all values of a step are equal: their computed mean can differ by rounding.
        """
        return np.where(self.stat(column, MIN) == self.stat(column, MAX), 0.0, self.stat(column, M2))

    def std(self, column: str) -> np.ndarray:
        """Return the standard deviation (ddof 1) over each step's samples, shape (S,); NaN below two."""
        count = self.stat(column, COUNT)
        with np.errstate(all="ignore"):
            return np.where(count > 1, np.sqrt(self.squared_deviations(column) / (count - 1)), np.nan)

    def statistic(self, column: str, name: str) -> np.ndarray:
        """Return the ``mean``, ``std``, ``min`` or ``max`` of a column per step, shape (S,)."""
        return self.std(column) if name == "std" else self.stat(column, _STATISTICS[name])

    def position(self, step: int) -> int:
        """Return the position of a step in `values`; -1 if it has no samples."""
        # Not `np.searchsorted`: it releases the GIL and may then wait to get it back.
        position = bisect_left(self.values, step)
        return position if position < len(self.values) and self.values[position] == step else -1
