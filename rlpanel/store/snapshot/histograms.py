"""A column's histogram of each step, over bins that all steps share; made when someone asks.

A bin is a power of two wide and begins at a multiple of its width. So the bins follow from the smallest and
the greatest value alone, and when values spread further, the old bins join in pairs: what was counted stays
counted, and only the steps that changed are counted anew.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np

from rlpanel.store.columns.step_stats import MAX, MIN, Steps

#: Most values that are counted in one go, so that what is made on the way stays small.
_AT_ONCE = 1 << 18
#: Beyond this no room is left for edges; such values count in the outermost bins.
_MOST = 2.0**1000


@dataclass(frozen=True)
class SharedBins:
    """``count`` bins of ``width``; the first begins at ``start * width``."""

    start: int
    count: int
    width: float

    @property
    def edges(self) -> np.ndarray:
        """Shape (count + 1,)."""
        return np.arange(self.start, self.start + self.count + 1) * self.width

    def places(self, values: np.ndarray) -> np.ndarray:
        """The bin of each value: exact, for a division by a power of two is, where it does not underflow."""
        places = np.floor(values.clip(-_MOST, _MOST) / self.width) - self.start
        return places.clip(0, self.count - 1).astype(np.int64)


def shared_bins(low: float, high: float, bins: int) -> SharedBins:
    """The narrowest bins with which at most ``bins``, two or more, reach from ``low`` to ``high``.

    One bin of width 1 where both are the same; never narrower than floats stand apart there.
    """
    low, high = (min(max(value, -_MOST), _MOST) for value in (low, high))
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
    """How a column's finite values spread in each step.

    Attributes
    ----------
    steps : ndarray of int, shape (S,)
    edges : ndarray, shape (B + 1,)
        Of the bins; a value on an edge counts in the bin that begins there.
    counts : ndarray of int, shape (S, B)
    """

    steps: np.ndarray
    edges: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class _Known:
    """Counts as of a version, by step."""

    version: int
    steps: np.ndarray
    grid: SharedBins
    counts: np.ndarray


class Histograms:
    """Remembers counts between snapshots of one run; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int], _Known] = {}

    def of(
        self, name: str, bins: int, version: int, steps: Steps, step: np.ndarray, values: np.ndarray
    ) -> Histogram:
        """The histogram of a column, of at most ``bins`` bins.

        Parameters
        ----------
        name : str
        bins : int
        version : int
            The snapshot's.
        steps : Steps
            The snapshot's steps.
        step, values : ndarray, shape (N,)
            Step and value of the rows that count.
        """
        low, high = np.fmin.reduce(steps.stat(name, MIN)), np.fmax.reduce(steps.stat(name, MAX))
        if np.isnan(low):
            return Histogram(steps.values, np.array([0.0, 1.0]), np.zeros((len(steps.values), 1), np.int64))
        over = shared_bins(float(low), float(high), bins)
        with self._lock:
            known = self._known.get((name, bins))
        counts = np.zeros((len(steps.values), over.count), np.int64)
        stale = np.ones(len(steps.values), bool)
        if known is not None and known.version <= version and len(known.steps):
            at, stale = steps.since(known.steps, known.version)
            if known.grid.width <= over.width:
                counts[~stale] = _moved(known.counts[at[~stale]], known.grid, over)
            else:
                stale[:] = True
        if stale.any():
            wanted = steps.values[stale]
            rows = np.flatnonzero(np.isfinite(values) if stale.all() else np.isin(step, wanted))
            counts[stale] = count(step[rows], values[rows], wanted, over)
        if known is None or known.version < version:
            with self._lock:
                self._known[name, bins] = _Known(version, steps.values, over, counts)
        return Histogram(steps.values, over.edges, counts)


def count(step: np.ndarray, values: np.ndarray, wanted: np.ndarray, over: SharedBins) -> np.ndarray:
    """How many finite values of each wanted step lie in each bin.

    Parameters
    ----------
    step, values : ndarray, shape (N,)
        Of wanted steps only.
    wanted : ndarray of int, shape (S,)
        Ascending.
    over : SharedBins
        Holds all finite values.

    Returns
    -------
    ndarray of int, shape (S, over.count)
    """
    size = len(wanted) * over.count
    found = np.zeros(size, np.int64)
    for start in range(0, len(values), _AT_ONCE):
        part = values[start : start + _AT_ONCE]
        finite = np.isfinite(part)
        line = np.searchsorted(wanted, step[start : start + _AT_ONCE][finite])
        found += np.bincount(line * over.count + over.places(part[finite]), minlength=size)
    return found.reshape(len(wanted), over.count)


def _moved(counts: np.ndarray, old: SharedBins, new: SharedBins) -> np.ndarray:
    """Counts over other bins, which are as wide or hold several of the old ones each; shape (S, new.count).

    Bins that fall off hold nothing: who counted there has changed.
    """
    times = round(new.width / old.width)
    found = np.zeros((len(counts), new.count), np.int64)
    for at in range(old.count):
        place = (old.start + at) // times - new.start
        if 0 <= place < new.count:
            found[:, place] += counts[:, at]
    return found
