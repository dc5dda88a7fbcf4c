"""Quantiles of a column per step, or per several consecutive steps, computed on demand and cached.

Only points whose steps changed are recomputed.

Histograms of a column per step, over bins shared by all steps; computed on demand and cached.

The width of a bin is a power of two, and its start a multiple of the width. So the bins follow from minimum
and maximum alone. If the range grows, old bins merge in pairs: their counts stay valid, and only changed
steps are counted again.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rlpanel.store.columns.step_stats import MAX, MIN, Steps
from rlpanel.store.snapshot.step_metric_cache import step_batches

#: Number of rows that are sorted at a time.
_BATCH = 128 << 10

#: Returns the values of rows.
Values = Callable[[np.ndarray], np.ndarray]
#: Returns the step of every row of the run, the rows of the given steps (of all for None), and their values.
ReadRows = Callable[[np.ndarray | None], tuple[np.ndarray, np.ndarray, Values]]


@dataclass(frozen=True)
class _Points:
    """The consecutive steps behind each of P points: the first one, the last one, and their number."""

    first: np.ndarray
    last: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, steps: np.ndarray, size: int) -> _Points:
        """Return the points of ascending ``steps``, ``size`` steps each; the last one may have fewer."""
        starts = np.arange(0, len(steps), size)
        ends = np.minimum(starts + size, len(steps))
        return cls(steps[starts], steps[ends - 1], ends - starts)

    def find(self, other: _Points) -> tuple[np.ndarray, np.ndarray]:
        """Return the position in ``other`` of each point, and a mask of the points that it has."""
        if not len(other.first):
            return np.zeros(len(self.first), int), np.zeros(len(self.first), bool)
        at = np.searchsorted(other.first, self.first).clip(max=len(other.first) - 1)
        pairs = (self.first, other.first), (self.last, other.last), (self.count, other.count)
        return at, np.logical_and.reduce([mine == theirs[at] for mine, theirs in pairs])


@dataclass(frozen=True)
class _CachedQuantiles:
    """Quantiles by point at a version of the snapshot."""

    version: int
    points: _Points
    values: np.ndarray


class Quantiles:
    """Cache of quantiles across the snapshots of one run; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: dict[tuple[object, ...], _CachedQuantiles] = {}

    def get(
        self,
        key: tuple[str, int],
        q: tuple[float, ...],
        version: int,
        steps: Steps,
        read: ReadRows,
        size: int = 1,
    ) -> np.ndarray:
        """Return quantiles of the values of every ``size`` consecutive steps together.

        Parameters
        ----------
        key : tuple of str and int
            Name of the column, and a number that is different if ``read`` returns other rows.
        q : tuple of float
        version : int
            Version of the snapshot.
        steps : Steps
            Steps of the snapshot.
        read : callable
            Reads only the rows of the steps that it is given.
        size : int
            Number of steps of a point.

        Returns
        -------
        ndarray, shape (len(q), P)
        """
        points = _Points.of(steps.values, size)
        with self._lock:
            cached = self._cached.get((*key, q, size))
        result = np.full((len(q), len(points.first)), np.nan)
        stale = np.ones(len(points.first), bool)
        if cached is not None and cached.version <= version:
            at, found = points.find(cached.points)
            found[steps.changed_since(cached.version) // size] = False
            result[:, found] = cached.values[:, at[found]]
            stale = ~found
        if stale.any():
            wanted = None if stale.all() else steps.values[np.repeat(stale, points.count)]
            result[:, stale] = _in_batches(*read(wanted), points.first[stale], q, size)
        if cached is None or cached.version < version:
            with self._lock:
                self._cached[*key, q, size] = _CachedQuantiles(version, points, result)
        return result


def _in_batches(
    step: np.ndarray, rows: np.ndarray, values: Values, first: np.ndarray, q: Sequence[float], size: int
) -> np.ndarray:
    """Return `quantiles` of rows; those of single steps need memory for one batch of rows only."""
    if size > 1:
        return quantiles(step[rows], values(rows), first, q)
    parts = [
        quantiles(step[batch.rows], values(batch.rows), first[batch.first : batch.last], q)
        for batch in step_batches(step, rows, first, _BATCH)
    ]
    return np.concatenate(parts, axis=1)


def quantiles(step: np.ndarray, values: np.ndarray, first: np.ndarray, q: Sequence[float]) -> np.ndarray:
    """Return linearly interpolated quantiles of the finite values of each point; NaN if it has none.

    Parameters
    ----------
    step, values : ndarray, shape (N,)
        Rows of these points only.
    first : ndarray of int, shape (P,)
        First step of each point, ascending: a point ends before the next one.
    q : sequence of float
        Between 0 and 1.

    Returns
    -------
    ndarray, shape (len(q), P)
    """
    finite = np.isfinite(values)
    step, values = step[finite], values[finite]
    if (step[1:] < step[:-1]).any():
        order = np.argsort(step, kind="stable")
        step, values = step[order], values[order]
    bounds = np.append(np.searchsorted(step, first), len(step)).tolist()
    result = np.full((len(q), len(first)), np.nan)
    # Sorting point by point takes a tenth of the time of sorting all rows by step and value.
    for start, end in pairwise(bounds):
        values[start:end].sort()
    starts, ends = np.array(bounds[:-1], int), np.array(bounds[1:], int)
    has_values = ends > starts
    for row, p in enumerate(q):
        begin, last = starts[has_values], ends[has_values] - 1
        position = begin + p * (last - begin)
        low = values[np.floor(position).astype(int)]
        high = values[np.ceil(position).astype(int)]
        result[row, has_values] = low + (high - low) * (position - np.floor(position))
    return result


#: Number of values counted at a time, to keep temporary arrays small.
_CHUNK = 1 << 18
#: Larger values leave no room for bin edges; they are counted in the outermost bins.
_MAX_VALUE = 2.0**1000


@dataclass(frozen=True)
class SharedBins:
    """``count`` bins of ``width``; the first begins at ``start * width``."""

    start: int
    count: int
    width: float

    @property
    def edges(self) -> np.ndarray:
        """Bin edges, shape (count + 1,)."""
        return np.arange(self.start, self.start + self.count + 1) * self.width

    def bin_of(self, values: np.ndarray) -> np.ndarray:
        """Return the bin of each value; exact, since dividing by a power of two is (unless it underflows)."""
        bins = np.floor(values.clip(-_MAX_VALUE, _MAX_VALUE) / self.width) - self.start
        return bins.clip(0, self.count - 1).astype(np.int64)


def shared_bins(low: float, high: float, bins: int) -> SharedBins:
    """Return the narrowest bins such that at most ``bins`` (at least two) cover ``low`` to ``high``.

    If both are equal, one bin of width 1. Bins are never narrower than the spacing of floats at this size.
    """
    low, high = (min(max(value, -_MAX_VALUE), _MAX_VALUE) for value in (low, high))
    bins = max(bins, 2)
    least = float(np.spacing(max(abs(low), abs(high))))
    span = (high - low) / bins
    width = max(least, 2.0 ** math.floor(math.log2(span))) if span > 0 else max(least, 1.0)
    while math.floor(high / width) - math.floor(low / width) >= bins:
        width *= 2
    start = math.floor(low / width)
    return SharedBins(start, math.floor(high / width) - start + 1, width)


@dataclass(frozen=True)
class Histogram:
    """Counts of a column's finite values by step and bin.

    Attributes
    ----------
    steps : ndarray of int, shape (S,)
    edges : ndarray, shape (B + 1,)
        Bin edges; a value on an edge is counted in the bin that begins there.
    counts : ndarray of int, shape (S, B)
    """

    steps: np.ndarray
    edges: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class _CachedCounts:
    """Counts by step and bin at a version of the snapshot."""

    version: int
    steps: np.ndarray
    bins: SharedBins
    counts: np.ndarray


class Histograms:
    """Cache of histograms across the snapshots of one run; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: dict[tuple[str, int], _CachedCounts] = {}

    def get(
        self, name: str, bins: int, version: int, steps: Steps, step: np.ndarray, values: np.ndarray
    ) -> Histogram:
        """Return the histogram of a column with at most ``bins`` bins; only changed steps are counted again.

        Parameters
        ----------
        name : str
        bins : int
        version : int
            Version of the snapshot.
        steps : Steps
            Steps of the snapshot.
        step, values : ndarray, shape (N,)
            Step and value of the rows to count.
        """
        low, high = np.fmin.reduce(steps.stat(name, MIN)), np.fmax.reduce(steps.stat(name, MAX))
        if np.isnan(low):
            return Histogram(steps.values, np.array([0.0, 1.0]), np.zeros((len(steps.values), 1), np.int64))
        shared = shared_bins(float(low), float(high), bins)
        with self._lock:
            cached = self._cached.get((name, bins))
        counts = np.zeros((len(steps.values), shared.count), np.int64)
        stale = np.ones(len(steps.values), bool)
        if cached is not None and cached.version <= version and len(cached.steps):
            position, stale = steps.compare_steps(cached.steps, cached.version)
            if cached.bins.width <= shared.width:
                counts[~stale] = _rebin(cached.counts[position[~stale]], cached.bins, shared)
            else:
                stale[:] = True
        if stale.any():
            wanted = steps.values[stale]
            rows = slice(None) if stale.all() else np.flatnonzero(np.isin(step, wanted))
            counts[stale] = bin_counts(step[rows], values[rows], wanted, shared)
        if cached is None or cached.version < version:
            with self._lock:
                self._cached[name, bins] = _CachedCounts(version, steps.values, shared, counts)
        return Histogram(steps.values, shared.edges, counts)


def bin_counts(step: np.ndarray, values: np.ndarray, wanted: np.ndarray, over: SharedBins) -> np.ndarray:
    """Count the finite values of each wanted step in each bin.

    Parameters
    ----------
    step, values : ndarray, shape (N,)
        Rows of wanted steps only.
    wanted : ndarray of int, shape (S,)
        Steps, ascending.
    over : SharedBins
        Bins that cover all finite values.

    Returns
    -------
    ndarray of int, shape (S, over.count)
    """
    size = len(wanted) * over.count
    counts = np.zeros(size, np.int64)
    for start in range(0, len(values), _CHUNK):
        part = values[start : start + _CHUNK]
        finite = np.isfinite(part)
        row = np.searchsorted(wanted, step[start : start + _CHUNK][finite])
        counts += np.bincount(row * over.count + over.bin_of(part[finite]), minlength=size)
    return counts.reshape(len(wanted), over.count)


def _rebin(counts: np.ndarray, old: SharedBins, new: SharedBins) -> np.ndarray:
    """Convert counts to equal or wider bins, each of which covers several old ones; shape (S, new.count).

    Old bins outside the new range are dropped. They are empty, since only changed steps had values there.
    """
    times = round(new.width / old.width)
    rebinned = np.zeros((len(counts), new.count), np.int64)
    for number in range(old.count):
        target = (old.start + number) // times - new.start
        if 0 <= target < new.count:
            rebinned[:, target] += counts[:, number]
    return rebinned
