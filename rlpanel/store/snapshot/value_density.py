"""Density of a column's values over steps: counts by step and value bin, updated incrementally by step.

Values outside a robust range are counted in its outermost bins, so that one outlier does not flatten the
rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rlpanel.store.snapshot.snapshot import Snapshot

#: Maximum number of cells along the step axis and along the value axis.
STEPS, VALUES = 2000, 64
#: Minimum number of bins of the value axis.
_MIN_BINS = 16
#: Factor by which a logarithmic axis reaches below the median.
_DEPTH = 1e4
#: Share of values ignored at each end when choosing the range.
_TAIL = 0.005
#: Share of a changed step's values outside the range from which on a new range is chosen.
_OUTSIDE = 0.2
#: Up to this number of distinct values, each value gets a bin of its own.
_DISTINCT = 16
#: Number of values sampled to decide whether few are distinct or all are integers.
_SAMPLED = 20_000


@dataclass(frozen=True)
class ValueAxis:
    """Value axis with ``bins`` bins of equal width, on a logarithmic scale if ``log``.

    If there are few distinct values, ``distinct`` contains them; each has a bin of its own.
    """

    low: float
    high: float
    bins: int
    log: bool = False
    distinct: tuple[float, ...] = ()

    @property
    def edges(self) -> np.ndarray:
        """Bin edges, shape (bins + 1,)."""
        if self.log:
            return np.geomspace(self.low, self.high, self.bins + 1)
        return np.linspace(self.low, self.high, self.bins + 1)

    def bin_of(self, values: np.ndarray) -> np.ndarray:
        """Return the bin of each value; values outside the range fall into the outermost bins."""
        low, high = (np.log(self.low), np.log(self.high)) if self.log else (self.low, self.high)
        scaled = (np.log(values) if self.log else values) - low
        scaled *= self.bins / (high - low)
        return np.clip(scaled, 0, self.bins - 1).astype(np.int32)

    def fits(self, values: np.ndarray) -> bool:
        """Return True if the axis fits more values: all are among ``distinct``, or few are out of range."""
        if self.distinct:
            return bool(np.isin(values, self.distinct).all())
        outside = (values < self.low) | (values > self.high)
        return not len(values) or bool(outside.mean() < _OUTSIDE)


@dataclass(frozen=True)
class Density:
    """Counts by step and value bin.

    Attributes
    ----------
    column : str
    version : int
        Version of the counted snapshot.
    first, width : int
        Column c covers ``width`` steps, from ``first + c * width`` on.
    axis : ValueAxis
    counts : ndarray of int64, shape (C, bins)
    by_rows : bool
        Whether outcomes of all rows are counted, not only those of each episode's last row.
    left_out : int
        Number of values ≤ 0, which a logarithmic axis cannot show.
    """

    column: str
    version: int
    first: int
    width: int
    axis: ValueAxis
    counts: np.ndarray
    left_out: int = 0
    by_rows: bool = False

    def column_of(self, step: float) -> int:
        """Return the column that covers a step."""
        return int(np.clip((step - self.first) // self.width, 0, len(self.counts) - 1))

    def value_range(self, column: int, value: float) -> tuple[float, float]:
        """Return a range of values around ``value`` in a column: the nearest filled bin and its neighbours.

        If few values are distinct, only that bin. Ranges at the ends are open, since outliers are counted
        there.
        """
        edges = self.axis.edges
        nearest = int(np.clip(np.searchsorted(edges, value, side="right") - 1, 0, self.axis.bins - 1))
        filled = np.flatnonzero(self.counts[column])
        nearest = int(filled[np.abs(filled - nearest).argmin()]) if len(filled) else nearest
        reach = 0 if self.axis.distinct else 1
        low, high = nearest - reach, nearest + reach + 1
        return (
            float(edges[low]) if low > 0 else -np.inf,
            float(edges[high]) if high < self.axis.bins else np.inf,
        )


def density(snapshot: Snapshot, column: str, *, log: bool, before: Density | None = None) -> Density | None:
    """Count a column's values by step; None if it has no finite value.

    Parameters
    ----------
    log : bool
        Use a logarithmic value axis, if most values are above 0.
    before : Density, optional
        Result for an earlier snapshot, with the same ``log``. If its axes still fit, only the changed steps
        are counted again.
    """
    values = snapshot.counted(column)
    counted = snapshot.alive & np.isfinite(values)
    if before is not None and (before.column, before.by_rows) == (column, snapshot.counts_rows):
        updated = _update(before, snapshot, values, counted)
        if updated is not None:
            return updated
    return _count(snapshot, column, values, counted, log)


def _count(
    snapshot: Snapshot, column: str, values: np.ndarray, counted: np.ndarray, log: bool
) -> Density | None:
    """Count all steps in one pass."""
    finite = values[counted]
    if not len(finite):
        return None
    positive = finite > 0
    log = log and bool(positive.mean() > 0.5)
    step = snapshot.metadata("step")[counted]
    if log:
        finite, step = finite[positive], step[positive]
    axis = value_axis(finite, len(finite) / len(snapshot.steps.values), log=log)
    first, width = _step_axis(snapshot.steps.values)
    size = int((snapshot.steps.values[-1] - first) // width) + 1
    cells = (step - first) // width * axis.bins + axis.bin_of(finite)
    counts = np.bincount(cells, minlength=size * axis.bins).reshape(size, axis.bins)
    left_out = len(positive) - len(finite)
    return Density(column, snapshot.version, first, width, axis, counts, left_out, snapshot.counts_rows)


def _update(before: Density, snapshot: Snapshot, values: np.ndarray, counted: np.ndarray) -> Density | None:
    """Count only the changed steps; None if the axes no longer fit, or if unchanged steps lost rows."""
    steps, axis = snapshot.steps.values, before.axis
    if not len(steps) or _step_axis(steps) != (before.first, before.width):
        return None
    size = max(int((steps[-1] - before.first) // before.width) + 1, len(before.counts))
    counts = np.zeros((size, axis.bins), np.int64)
    counts[: len(before.counts)] = before.counts
    step = snapshot.metadata("step")
    changed = steps[snapshot.steps.changed_since(before.version)]
    for column in np.unique((changed - before.first) // before.width).tolist():
        start = before.first + column * before.width
        in_column = values[counted & (step >= start) & (step < start + before.width)]
        in_column = in_column[in_column > 0] if axis.log else in_column
        if not axis.fits(in_column):
            return None
        counts[column] = np.bincount(axis.bin_of(in_column), minlength=axis.bins)
    left_out = int(counted.sum() - counts.sum())
    if left_out < 0 or (left_out and not axis.log) or left_out < before.left_out:
        return None
    return replace(before, version=snapshot.version, counts=counts, left_out=left_out)


def _step_axis(steps: np.ndarray) -> tuple[int, int]:
    """Return the first step and the steps per column: the smallest gap, doubled until `STEPS` suffice."""
    gap = int(np.diff(steps).min()) if len(steps) > 1 else 1
    span = int(steps[-1] - steps[0])
    while span // gap + 1 > STEPS:
        gap *= 2
    return int(steps[0]), gap


def value_axis(values: np.ndarray, per_step: float = np.inf, *, log: bool = False) -> ValueAxis:
    """Return a value axis for finite values: at least one, and all above 0 if ``log``.

    Parameters
    ----------
    per_step : float
        Number of values per step; with few values there are few bins, so that cells are not mostly empty.
    """
    distinct = _few_distinct(values)
    if distinct is not None and not log:
        gap = float(np.diff(distinct).min()) if len(distinct) > 1 else max(abs(float(distinct[0])), 1.0)
        bins = round(float(np.ptp(distinct)) / gap * 2) + 1
        if bins <= VALUES:
            return ValueAxis(
                float(distinct[0]) - gap / 4,
                float(distinct[-1]) + gap / 4,
                bins,
                distinct=tuple(distinct.tolist()),
            )
    low, high = _quantiles(values)
    if not high > low:
        low, high = float(values.min()), float(values.max())
    if not high > low:
        margin = abs(low) / 2 or 0.5
        low, high = low - margin, high + margin
    bins = int(np.clip(3 * np.sqrt(per_step), _MIN_BINS, VALUES))
    if log:
        # Without this limit, a step of rounding errors would stretch the axis over ten decades.
        low = max(low, float(np.median(values)) / _DEPTH)
        return ValueAxis(low / 1.05, high * 1.05, bins, log=True)
    if (values[:: max(1, len(values) // _SAMPLED)] % 1 == 0).all():
        # An integer width, since otherwise bins would cover unequal numbers of integers.
        width = np.ceil((high - low + 1) / bins)
        bins = int(np.ceil((high - low + 1) / width))
        return ValueAxis(float(np.ceil(low)) - 0.5, float(np.ceil(low)) - 0.5 + bins * width, bins)
    margin = 0.03 * (high - low)
    return ValueAxis(low - margin, high + margin, bins)


def _few_distinct(values: np.ndarray) -> np.ndarray | None:
    """Return the distinct values if they are few, else None."""
    if len(np.unique(values[:: max(1, len(values) // _SAMPLED)])) > _DISTINCT:
        return None
    distinct = np.unique(values)
    return distinct if len(distinct) <= _DISTINCT else None


def _quantiles(values: np.ndarray) -> tuple[float, float]:
    """Return the range of values without the `_TAIL` at each end."""
    tail = int(_TAIL * (len(values) - 1))
    partitioned = np.partition(values, (tail, len(values) - 1 - tail))
    return float(partitioned[tail]), float(partitioned[-1 - tail])
