"""How a column's values lie at each step of a run: counts by step and value, brought up to date by step.

Values beyond a robust range are counted at its ends, so that one outlier does not flatten the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rlpanel.store.snapshot.snapshot import Snapshot

#: Most cells that are drawn, along the steps and along the values.
STEPS, VALUES = 2000, 64
#: Fewest parts of the value axis.
_FEWEST = 16
#: How far below the median a logarithmic axis reaches.
_DEPTH = 1e4
#: Share of the values left out at each end when the range is chosen.
_TAIL = 0.005
#: Share of a changed step's values outside of the range that asks for another range.
_OUTSIDE = 0.2
#: Up to this many distinct values lie in rows of their own.
_DISTINCT = 16
#: Values that are looked at to tell whether few are distinct.
_LOOKED_AT = 20_000


@dataclass(frozen=True)
class ValueAxis:
    """The value axis in ``bins`` equal parts, equal in logarithm where ``log``.

    ``known`` are the values themselves where few are distinct; each lies in a part of its own.
    """

    low: float
    high: float
    bins: int
    log: bool = False
    known: tuple[float, ...] = ()

    @property
    def edges(self) -> np.ndarray:
        """Borders of the parts, shape (bins + 1,)."""
        if self.log:
            return np.geomspace(self.low, self.high, self.bins + 1)
        return np.linspace(self.low, self.high, self.bins + 1)

    def places(self, values: np.ndarray) -> np.ndarray:
        """The part that each value lies in; what is outside lies at the end."""
        low, high = (np.log(self.low), np.log(self.high)) if self.log else (self.low, self.high)
        scaled = (np.log(values) if self.log else values) - low
        scaled *= self.bins / (high - low)
        return np.clip(scaled, 0, self.bins - 1).astype(np.int32)

    def suits(self, values: np.ndarray) -> bool:
        """Whether further values may be counted on this axis: they are known ones, or few lie outside."""
        if self.known:
            return bool(np.isin(values, self.known).all())
        outside = (values < self.low) | (values > self.high)
        return not len(values) or bool(outside.mean() < _OUTSIDE)


@dataclass(frozen=True)
class Density:
    """Counts by step and value.

    Attributes
    ----------
    column : str
    version : int
        Of the snapshot that was counted.
    first, width : int
        Column c covers the steps from ``first + c * width`` on, ``width`` of them.
    axis : ValueAxis
    counts : ndarray of int64, shape (C, bins)
    left_out : int
        Values that a logarithm does not have.
    """

    column: str
    version: int
    first: int
    width: int
    axis: ValueAxis
    counts: np.ndarray
    left_out: int = 0

    def place(self, step: float) -> int:
        """The column that covers a step."""
        return int(np.clip((step - self.first) // self.width, 0, len(self.counts) - 1))

    def cell(self, place: int, value: float) -> tuple[float, float]:
        """The range of values around one at a column: the nearest part that holds any, with its neighbours.

        Where few values are distinct, that part alone. The ends are open: outliers lie there.
        """
        edges = self.axis.edges
        at = int(np.clip(np.searchsorted(edges, value, side="right") - 1, 0, self.axis.bins - 1))
        some = np.flatnonzero(self.counts[place])
        at = int(some[np.abs(some - at).argmin()]) if len(some) else at
        reach = 0 if self.axis.known else 1
        low, high = at - reach, at + reach + 1
        return (
            float(edges[low]) if low > 0 else -np.inf,
            float(edges[high]) if high < self.axis.bins else np.inf,
        )


def density(snapshot: Snapshot, column: str, *, log: bool, before: Density | None = None) -> Density | None:
    """Counts of a column's values at every step; None where it has no finite value.

    Parameters
    ----------
    log : bool
        Whether the parts of the value axis are equal in logarithm; only where most values are above 0.
    before : Density, optional
        An earlier count, asked for with the same ``log``: where it still suits, only the steps that changed
        are counted.
    """
    values = snapshot.number(column)
    counted = snapshot.alive & np.isfinite(values)
    if before is not None and before.column == column:
        updated = _update(before, snapshot, values, counted)
        if updated is not None:
            return updated
    return _count(snapshot, column, values, counted, log)


def _count(
    snapshot: Snapshot, column: str, values: np.ndarray, counted: np.ndarray, log: bool
) -> Density | None:
    """All of it, in one pass."""
    finite = values[counted]
    if not len(finite):
        return None
    above = finite > 0
    log = log and bool(above.mean() > 0.5)
    step = snapshot.place("step")[counted]
    if log:
        finite, step = finite[above], step[above]
    axis = axis_of(finite, len(finite) / len(snapshot.steps.values), log=log)
    first, width = _step_axis(snapshot.steps.values)
    size = int((snapshot.steps.values[-1] - first) // width) + 1
    cells = (step - first) // width * axis.bins + axis.places(finite)
    counts = np.bincount(cells, minlength=size * axis.bins).reshape(size, axis.bins)
    left_out = len(above) - len(finite)
    return Density(column, snapshot.version, first, width, axis, counts, left_out)


def _update(before: Density, snapshot: Snapshot, values: np.ndarray, counted: np.ndarray) -> Density | None:
    """Only the steps that changed; None where the axes no longer suit, or rows of other steps went."""
    steps, axis = snapshot.steps.values, before.axis
    if not len(steps) or _step_axis(steps) != (before.first, before.width):
        return None
    size = max(int((steps[-1] - before.first) // before.width) + 1, len(before.counts))
    counts = np.zeros((size, axis.bins), np.int64)
    counts[: len(before.counts)] = before.counts
    at = snapshot.place("step")
    changed = steps[snapshot.steps.changed_since(before.version)]
    for place in np.unique((changed - before.first) // before.width).tolist():
        start = before.first + place * before.width
        found = values[counted & (at >= start) & (at < start + before.width)]
        found = found[found > 0] if axis.log else found
        if not axis.suits(found):
            return None
        counts[place] = np.bincount(axis.places(found), minlength=axis.bins)
    left_out = int(counted.sum() - counts.sum())
    if left_out < 0 or (left_out and not axis.log) or left_out < before.left_out:
        return None
    return replace(before, version=snapshot.version, counts=counts, left_out=left_out)


def _step_axis(steps: np.ndarray) -> tuple[int, int]:
    """The first step, and how many steps a column covers: the smallest distance, doubled until all fit."""
    gap = int(np.diff(steps).min()) if len(steps) > 1 else 1
    span = int(steps[-1] - steps[0])
    while span // gap + 1 > STEPS:
        gap *= 2
    return int(steps[0]), gap


def axis_of(values: np.ndarray, a_step: float = np.inf, *, log: bool = False) -> ValueAxis:
    """A value axis for finite values, at least one; all above 0 where ``log``.

    Parameters
    ----------
    a_step : float
        Values a step; few are laid into few parts, so that they do not lie about singly.
    """
    few = _few(values)
    if few is not None and not log:
        gap = float(np.diff(few).min()) if len(few) > 1 else max(abs(float(few[0])), 1.0)
        bins = round(float(np.ptp(few)) / gap * 2) + 1
        if bins <= VALUES:
            return ValueAxis(
                float(few[0]) - gap / 4, float(few[-1]) + gap / 4, bins, known=tuple(few.tolist())
            )
    low, high = _quantiles(values)
    if not high > low:
        low, high = float(values.min()), float(values.max())
    if not high > low:
        room = abs(low) / 2 or 0.5
        low, high = low - room, high + room
    bins = int(np.clip(3 * np.sqrt(a_step), _FEWEST, VALUES))
    if log:
        low = max(
            low, float(np.median(values)) / _DEPTH
        )  # a step of rounding errors is not worth ten decades
        return ValueAxis(low / 1.05, high * 1.05, bins, log=True)
    if (values[:: max(1, len(values) // _LOOKED_AT)] % 1 == 0).all():
        width = np.ceil((high - low + 1) / bins)  # whole numbers, or parts would hold unequally many of them
        bins = int(np.ceil((high - low + 1) / width))
        return ValueAxis(float(np.ceil(low)) - 0.5, float(np.ceil(low)) - 0.5 + bins * width, bins)
    room = 0.03 * (high - low)
    return ValueAxis(low - room, high + room, bins)


def _few(values: np.ndarray) -> np.ndarray | None:
    """The distinct values where they are few."""
    if len(np.unique(values[:: max(1, len(values) // _LOOKED_AT)])) > _DISTINCT:
        return None
    distinct = np.unique(values)
    return distinct if len(distinct) <= _DISTINCT else None


def _quantiles(values: np.ndarray) -> tuple[float, float]:
    tail = int(_TAIL * (len(values) - 1))
    parted = np.partition(values, (tail, len(values) - 1 - tail))
    return float(parted[tail]), float(parted[-1 - tail])
