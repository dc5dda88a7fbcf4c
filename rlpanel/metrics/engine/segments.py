"""Rows that stand together: those of a step, of a group, of a micro-batch.

A step metric is a few reductions over them. Everything skips what is not finite, so that a missing value is
missing in its own row and nowhere else.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np


class Segments:
    """Consecutive runs of rows.

    Parameters
    ----------
    starts : ndarray of int, shape (S,)
        Where each run begins; strictly increasing from 0.
    rows : int
        N; at least one row a run.
    order : ndarray of int, shape (N,), optional
        Where the runs' rows stand in the columns that come in; as they come by default.
    """

    def __init__(self, starts: np.ndarray, rows: int, order: np.ndarray | None = None) -> None:
        self.starts = starts
        self.rows = rows
        self._order = order

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows of each run, shape (S,)."""
        return np.diff(np.append(self.starts, self.rows))

    @cached_property
    def number(self) -> np.ndarray:
        """The run that each row belongs to, shape (N,), in the order of the columns."""
        return self.spread(np.arange(len(self)))

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Sum of the finite values, shape (S,); NaN where there are none."""
        values = self._arranged(values)
        finite = np.isfinite(values)
        if finite.all():
            return self._add(values)
        total = self._add(np.where(finite, values, 0.0))
        return np.where(self._add(finite) > 0, total, np.nan)

    def count(self, values: np.ndarray) -> np.ndarray:
        """How many values are finite, shape (S,)."""
        return self._add(np.isfinite(self._arranged(values)))

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Mean of the finite values, shape (S,)."""
        return self.sum(values) / self.count(values)

    def ratio(self, parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
        """Sum over sum, of the rows where both are finite: the mean per token of sums per sample."""
        both = np.isfinite(parts) & np.isfinite(wholes)
        return self.sum(np.where(both, parts, np.nan)) / self.sum(np.where(both, wholes, np.nan))

    def std(self, values: np.ndarray) -> np.ndarray:
        """Standard deviation (ddof 1) of the finite values, shape (S,); NaN below two."""
        off = values - self.spread(self.mean(values))
        count = self.count(values)
        return np.where(count > 1, np.sqrt(self.sum(off * off) / (count - 1)), np.nan)

    def correlation(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Pearson's correlation over the rows where both are finite; NaN where one is constant."""
        both = np.isfinite(a) & np.isfinite(b)
        a, b = np.where(both, a, np.nan), np.where(both, b, np.nan)
        a, b = a - self.spread(self.mean(a)), b - self.spread(self.mean(b))
        spread = np.sqrt(self.sum(a * a) * self.sum(b * b))
        return np.where(spread > 1e-12, self.sum(a * b) / spread, np.nan)

    def min(self, values: np.ndarray) -> np.ndarray:
        """Smallest finite value, shape (S,)."""
        values = self._arranged(values)
        low = np.minimum.reduceat(np.where(np.isfinite(values), values, np.inf), self.starts)
        return np.where(np.isfinite(low), low, np.nan)

    def max(self, values: np.ndarray) -> np.ndarray:
        """Largest finite value, shape (S,)."""
        return -self.min(-values)

    def quantile(self, values: np.ndarray, q: float) -> np.ndarray:
        """Quantile of the finite values, shape (S,), interpolated linearly as `numpy.quantile` does.

        NaN where a run has no finite value.
        """
        values = self._arranged(values)
        finite = np.isfinite(values)
        # Sorted within each run; what is not finite comes last.
        order = np.lexsort((np.where(finite, values, np.inf), np.repeat(np.arange(len(self)), self.sizes)))
        ordered, count = np.where(finite, values, 0.0)[order], self._add(finite)
        position = q * np.maximum(count - 1, 0)
        low = self.starts + np.floor(position).astype(np.int64)
        high = self.starts + np.ceil(position).astype(np.int64)
        share = position - np.floor(position)
        return np.where(count > 0, ordered[low] + (ordered[high] - ordered[low]) * share, np.nan)

    def distinct(self, keys: np.ndarray) -> np.ndarray:
        """How many different keys there are, shape (S,)."""
        keys = np.asarray(keys)
        order = np.argsort(keys)
        rank = np.empty(self.rows, np.int64)
        rank[order] = np.cumsum(np.append(False, keys[order[1:]] != keys[order[:-1]]))
        # One number for run and key: two sorts of one column are a third of one sort of two.
        pairs = np.sort(self.number * self.rows + rank)
        first = np.append(True, pairs[1:] != pairs[:-1])
        return np.bincount(pairs[first] // self.rows, minlength=len(self)).astype(float)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Each run's value at each of its rows, shape (N,)."""
        wide = np.repeat(values, self.sizes)
        if self._order is None:
            return wide
        back = np.empty_like(wide)
        back[self._order] = wide
        return back

    def _arranged(self, values: np.ndarray) -> np.ndarray:
        return values if self._order is None else values[self._order]

    def _add(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.starts, dtype=np.float64)


class SubSegments(Segments):
    """Runs that lie inside other runs: the groups of a step, its ranks, its micro-batches.

    Parameters
    ----------
    outer : Segments
    keys : ndarray, shape (N,)
        Rows of one outer run with one key are together.
    known : ndarray of bool, shape (N,), optional
        Rows without a key; each is on its own. All have one by default.
    """

    def __init__(self, outer: Segments, keys: np.ndarray, known: np.ndarray | None = None) -> None:
        rows = outer.rows
        run = outer.number
        order = np.lexsort((keys, run))
        run_sorted, keys = run[order], keys[order]
        first = np.append(True, (run_sorted[1:] != run_sorted[:-1]) | (keys[1:] != keys[:-1]))
        if known is not None:
            first |= ~known[order]
            first[1:] |= ~known[order][:-1]
        starts = np.flatnonzero(first)
        super().__init__(starts, rows, order)
        self.outer_run = run_sorted[starts]

    @cached_property
    def outer(self) -> Segments:
        """The runs as rows of the outer runs; every outer run has one at least."""
        starts = np.flatnonzero(np.append(True, np.diff(self.outer_run) > 0))
        return Segments(starts, len(self))

    @cached_property
    def shared(self) -> np.ndarray:
        """Whether a run has company: a group of one is no group, shape (G,)."""
        return self.sizes > 1
