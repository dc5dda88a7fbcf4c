"""Segmented reductions of rows by step, group, rank or micro-batch, and the metrics that are made of them.

A step metric consists of a few sums, means and other statistics. All of them skip NaN and infinities, so that
a missing value affects only its own row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from rlpanel.metrics.engine.column_info import Metric, get


class Segments:
    """Rows split into consecutive segments.

    Parameters
    ----------
    starts : ndarray of int, shape (S,)
        First row of each segment; strictly increasing from 0.
    rows : int
        Number of rows N; each segment has at least one.
    order : ndarray of int, shape (N,), optional
        Row indices that sort a column by segment; by default columns are sorted already.
    """

    def __init__(self, starts: np.ndarray, rows: int, order: np.ndarray | None = None) -> None:
        self.starts = starts
        self.rows = rows
        self._order = order

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of rows in each segment, shape (S,)."""
        return np.diff(np.append(self.starts, self.rows))

    @cached_property
    def number(self) -> np.ndarray:
        """Index of the segment that each row belongs to, shape (N,), in column order."""
        return self.broadcast(np.arange(len(self)))

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of finite values, shape (S,); NaN if a segment has none."""
        values = self._sorted(values)
        finite = np.isfinite(values)
        if finite.all():
            return self._add(values)
        total = self._add(np.where(finite, values, 0.0))
        return np.where(self._add(finite) > 0, total, np.nan)

    def count(self, values: np.ndarray) -> np.ndarray:
        """Return the number of finite values, shape (S,)."""
        return self._add(np.isfinite(self._sorted(values)))

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of finite values, shape (S,)."""
        return self.sum(values) / self.count(values)

    def ratio(self, parts: np.ndarray, wholes: np.ndarray) -> np.ndarray:
        """Return sum over sum of the rows where both are finite: the mean per token from sums per sample."""
        both = np.isfinite(parts) & np.isfinite(wholes)
        return self.sum(np.where(both, parts, np.nan)) / self.sum(np.where(both, wholes, np.nan))

    def std(self, values: np.ndarray) -> np.ndarray:
        """Return the standard deviation (ddof 1) of finite values, shape (S,); NaN for fewer than two.

        It is exactly 0 for equal values, whose computed mean may differ from them by rounding.
        """
        deviations = values - self.broadcast(self.mean(values))
        count = self.count(values)
        std = np.sqrt(self.sum(deviations * deviations) / (count - 1))
        return np.where(count > 1, np.where(self.min(values) == self.max(values), 0.0, std), np.nan)

    def correlation(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return Pearson's correlation over rows where both are finite; NaN if one is constant."""
        both = np.isfinite(a) & np.isfinite(b)
        a, b = np.where(both, a, np.nan), np.where(both, b, np.nan)
        a, b = a - self.broadcast(self.mean(a)), b - self.broadcast(self.mean(b))
        scale = np.sqrt(self.sum(a * a) * self.sum(b * b))
        return np.where(scale > 1e-12, self.sum(a * b) / scale, np.nan)

    def min(self, values: np.ndarray) -> np.ndarray:
        """Return the smallest finite value, shape (S,); NaN if a segment has none."""
        values = self._sorted(values)
        low = np.minimum.reduceat(np.where(np.isfinite(values), values, np.inf), self.starts)
        return np.where(np.isfinite(low), low, np.nan)

    def max(self, values: np.ndarray) -> np.ndarray:
        """Return the largest finite value, shape (S,); NaN if a segment has none."""
        return -self.min(-values)

    def quantile(self, values: np.ndarray, q: float) -> np.ndarray:
        """Return a quantile of the finite values, shape (S,), interpolated linearly like `numpy.quantile`.

        NaN where a segment has no finite value.
        """
        values = self._sorted(values)
        finite = np.isfinite(values)
        # Sorted within each segment; values that are not finite come last.
        order = np.lexsort((np.where(finite, values, np.inf), np.repeat(np.arange(len(self)), self.sizes)))
        ordered, count = np.where(finite, values, 0.0)[order], self._add(finite)
        position = q * np.maximum(count - 1, 0)
        low = self.starts + np.floor(position).astype(np.int64)
        high = self.starts + np.ceil(position).astype(np.int64)
        share = position - np.floor(position)
        return np.where(count > 0, ordered[low] + (ordered[high] - ordered[low]) * share, np.nan)

    def variance(self, sums: np.ndarray, squares: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return the variance (ddof 0) of values of which each row holds several, shape (S,).

        The squared deviations from each row's own mean and those of these means from the segment's mean are
        added up. Unlike E[x²] − E[x]², this is exact for values that are large compared to their spread.

        Parameters
        ----------
        sums, squares, counts : ndarray of float, shape (N,)
            Of a row's values: the sum, the sum of squared deviations from their mean, and the number. Rows in
            which one of them is not finite are left out.

        References
        ----------
        Chan, Golub, LeVeque 1983, Algorithms for Computing the Sample Variance.
        """
        known = np.isfinite(sums) & np.isfinite(squares) & np.isfinite(counts)
        sums, squares, counts = (np.where(known, column, np.nan) for column in (sums, squares, counts))
        total = self.sum(counts)
        deviations = sums / counts - self.broadcast(self.sum(sums) / total)
        return (self.sum(squares) + self.sum(counts * deviations * deviations)) / total

    def distinct(self, keys: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return the number of distinct keys, shape (S,), among the rows in the mask ``known``."""
        keys, segment = np.asarray(keys)[known], self.number[known]
        order = np.argsort(keys)
        # Sorted by segment, then key. Few segments fit into 16 bits, which numpy sorts in linear time.
        small = segment.astype(np.uint16) if len(self) <= 1 << 16 else segment
        order = order[np.argsort(small[order], kind="stable")]
        keys, segment = keys[order], segment[order]
        first = np.append(True, (segment[1:] != segment[:-1]) | (keys[1:] != keys[:-1]))[: len(keys)]
        return np.bincount(segment[first], minlength=len(self)).astype(float)

    def broadcast(self, values: np.ndarray) -> np.ndarray:
        """Broadcast each segment's value to its rows, shape (N,)."""
        repeated = np.repeat(values, self.sizes)
        if self._order is None:
            return repeated
        unsorted = np.empty_like(repeated)
        unsorted[self._order] = repeated
        return unsorted

    def _sorted(self, values: np.ndarray) -> np.ndarray:
        return values if self._order is None else values[self._order]

    def _add(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.starts, dtype=np.float64)


class SubSegments(Segments):
    """Segments within segments: the groups, ranks or micro-batches of each step.

    Parameters
    ----------
    outer : Segments
    keys : ndarray, shape (N,)
        Rows of an outer segment with equal keys form a segment.
    known : ndarray of bool, shape (N,), optional
        Mask of rows that have a key; by default all. Each row without a key is a segment of its own.
    """

    def __init__(self, outer: Segments, keys: np.ndarray, known: np.ndarray | None = None) -> None:
        rows = outer.rows
        outer_segment = outer.number
        order = np.lexsort((keys, outer_segment))
        sorted_outer, keys = outer_segment[order], keys[order]
        first = np.append(True, (sorted_outer[1:] != sorted_outer[:-1]) | (keys[1:] != keys[:-1]))
        if known is not None:
            first |= ~known[order]
            first[1:] |= ~known[order][:-1]
        starts = np.flatnonzero(first)
        super().__init__(starts, rows, order)
        self.outer_index = sorted_outer[starts]

    @cached_property
    def outer(self) -> Segments:
        """Outer segments with these segments as rows, to reduce a value per segment to one per outer one."""
        starts = np.flatnonzero(np.append(True, np.diff(self.outer_index) > 0))
        return Segments(starts, len(self))

    @cached_property
    def has_several(self) -> np.ndarray:
        """Mask of segments with at least two rows, shape (G,); a single sample does not count as a group."""
        return self.sizes > 1


#: Key of rows that belong to no group.
NO_GROUP = -1


class StepRows:
    """Rows of some steps, with the inputs of metrics.

    Parameters
    ----------
    step : ndarray of int, shape (N,)
        Step of each row, ascending.
    column : function
        Returns a column of these rows by name, shape (N,); KeyError if it does not exist.
    constants : mapping
        Training constants.
    """

    def __init__(
        self, step: np.ndarray, column: Callable[[str], np.ndarray], constants: Mapping[str, Any]
    ) -> None:
        self._step = step
        self.column = column
        self._constants = constants
        self._columns: dict[str, Any] = {}

    @cached_property
    def by(self) -> Segments:
        """Segments of rows by step."""
        starts = np.flatnonzero(np.append(True, np.diff(self._step) != 0)) if len(self._step) else self._step
        return Segments(starts, len(self._step))

    @cached_property
    def groups(self) -> SubSegments:
        """Segments of rows by group within each step, from the column ``group_key``."""
        keys = self._get("group_key")
        return SubSegments(self.by, keys, keys != NO_GROUP)

    def value(self, name: str) -> np.ndarray:
        """Compute a step (shape (S,)), group (G,) or sample metric (N,); KeyError if a column is missing."""
        m = get(name)
        with np.errstate(all="ignore"):
            return np.asarray(m.call(self._inputs(m)), float)

    def _inputs(self, m: Metric) -> dict[str, Any]:
        """Return the metric's inputs by name; optional ones that are missing are left out."""
        inputs: dict[str, Any] = {name: getattr(self, name) for name in m.ordering}
        inputs |= {name: self._get(name) for name in (*m.needs, *m.constants)}
        for name in m.optional:
            try:
                inputs[name] = self._get(name)
            except KeyError:
                continue
        return inputs

    def _get(self, name: str) -> Any:
        if name in self._constants:
            return self._constants[name]
        if name not in self._columns:
            self._columns[name] = self.column(name)
        return self._columns[name]
