"""Statistic of a sudden change of many streams at once: the steps right after each step against those before.

A trend of the steps before is not a change: what it leads to is taken off the difference. The noise is that
of the steps around their trend, so that a number that always wanders needs a larger difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

#: Steps of the later window, and most and fewest steps of the earlier one.
AFTER, BEFORE, MIN_BEFORE = (4, 8), 20, 12
#: Steps on both sides of a sudden change, and the share of the difference that must lie between them.
_NEAR, _AT_ONCE = 3, 0.5
#: How much of what the trend leads to is taken off: a trend that goes on, and one that turns.
_ALONG, _AGAINST = 1.3, 0.4
#: Share of the largest earlier difference of the same stream that a change must have.
_OF_EARLIER = 0.8
#: Share of a jump that the others of a schedule must have.
_OF_SCHEDULE = 0.6
#: A difference between two steps that is this many times as large as the largest of those before is exact
#: evidence: it needs few standard errors only, costs nothing, and counts as this z.
_EXACT, _EXACT_T, _EXACT_Z = 5.0, 3.0, 7.0
#: Largest correlation of neighbouring steps that is believed.
_MAX_CORRELATION = 0.7


@dataclass(frozen=True)
class Jump:
    """The largest sudden change of a stream.

    Attributes
    ----------
    row : int
    at : int
        Position of the first step after it.
    z : float
        Difference in standard errors, turned into a normal deviate.
    before, after : float
        Means of the windows, in the scale of the test.
    """

    row: int
    at: int
    z: float
    before: float
    after: float

    @property
    def size(self) -> float:
        """Signed difference."""
        return self.after - self.before


def thresholds(weights: np.ndarray, steps_per_alarm: float) -> np.ndarray:
    """Return the least z of each stream, shape (K,), so that all raise one false alarm in this many steps.

    The chance of a false alarm at a step is shared out by the weights; it is that of independent tests, so
    that those of overlapping windows raise fewer.
    """
    chance = weights / weights.sum() / steps_per_alarm / len(AFTER)
    limits = {each: NormalDist().inv_cdf(1 - each / 2) for each in set(chance.tolist())}
    return np.array([limits[each] for each in chance.tolist()])


def _tested(sums: np.ndarray, after: int) -> range:
    """Return the positions with enough steps before them, and ``after`` of them from there on."""
    return range(MIN_BEFORE, sums.shape[1] - after)


def schedules(values: np.ndarray, at: int, first: int = 0) -> list[int]:
    """Return the numbers of steps after which a stream jumps each time, the likeliest first; mostly empty.

    Each jump is about as large as the one at a position, at once, and in the same direction. Counted from the
    run's first step, all are the same number of steps apart.

    Parameters
    ----------
    values : ndarray of float, shape (S,)
        The stream in the scale of the test.
    at : int
        Position of the jump.
    first : int
        Position of the first value in the run.
    """
    after, size = min(AFTER), len(values)
    if not MIN_BEFORE <= at <= size - after or size < MIN_BEFORE + after + 1:
        return []
    parts = values[max(0, at - BEFORE) : at], values[at : at + after]
    if not all(np.isfinite(part).any() for part in parts):
        return []
    change = float(np.nanmean(parts[1]) - np.nanmean(parts[0]))
    with np.errstate(all="ignore"):
        means = _Means(values[None] * np.sign(change))
        found = means.is_large(after, np.array([_OF_SCHEDULE * abs(change)]), rising=True)
    jumped = MIN_BEFORE + np.flatnonzero(found[0])
    misses: dict[int, int] = {}
    for every in np.unique(np.abs(at - jumped[np.abs(jumped - at) >= 2 * _NEAR])).tolist():
        expected = np.arange(every, first + size - after, every) - first
        near = [np.abs(jumped - each).min() < _NEAR for each in expected[expected >= MIN_BEFORE].tolist()]
        apart = min((first + at) % every, -(first + at) % every)
        if apart < _NEAR and all(near):
            misses[every] = apart
    return sorted(misses, key=lambda every: misses[every])


class _Means:
    """Means of the windows of streams, and which of them differ enough to be tested, from running sums."""

    def __init__(self, values: np.ndarray) -> None:
        known = np.isfinite(values)
        count = np.maximum(known.sum(axis=1, keepdims=True), 1)
        # Sums of large numbers lose digits, so each stream is counted from its mean.
        self.middle = np.where(known, values, 0.0).sum(axis=1, keepdims=True) / count
        centred = np.where(known, values - self.middle, 0.0)
        self.known, self.filled = known, centred
        self.count, self.sum = _running(known, centred)

    def is_large(self, after: int, least: np.ndarray, *, rising: bool = False) -> np.ndarray:
        """Return the mask of differences that are large enough, sudden, and new, shape (K, T).

        With ``rising``, only those that rise, new or not.
        """
        at = _tested(self.count, after)
        old, new = _window(self.count, at, -BEFORE, 0), _window(self.count, at, 0, after)
        difference = _window(self.sum, at, 0, after) / new - _window(self.sum, at, -BEFORE, 0) / old
        last = _window(self.sum, at, -_NEAR, 0) / _window(self.count, at, -_NEAR, 0)
        near = _window(self.sum, at, 0, _NEAR) / _window(self.count, at, 0, _NEAR) - last
        size = difference if rising else np.abs(difference)
        is_large = (size >= least[:, None]) & (near / difference >= _AT_ONCE)
        is_large &= (old >= MIN_BEFORE - 2) & (new >= after - 1)
        if rising or not is_large.any():
            return is_large
        return is_large & _is_more_than_before(difference, after)


class _Sums(_Means):
    """Sums over the first steps of streams, from which the noise of every window follows, too."""

    def __init__(self, values: np.ndarray, floor: np.ndarray) -> None:
        super().__init__(values)
        known, centred = self.known, self.filled
        self.centred = values - self.middle
        position = np.arange(values.shape[1], dtype=float)
        rises = np.zeros_like(centred)
        rises[:, 1:] = np.where(known[:, 1:] & known[:, :-1], np.diff(centred, axis=1), 0.0) ** 2
        self.square, self.time, self.time_square, self.product, self.floor, self.rise = _running(
            centred**2,
            known * position,
            known * position**2,
            centred * position,
            np.where(known, floor, 0.0),
            rises,
        )


def _running(*parts: np.ndarray) -> np.ndarray:
    """Return running sums of P numbers of K streams, from no step to all, shape (P, K, S + 1)."""
    sums = np.zeros((len(parts), len(parts[0]), parts[0].shape[1] + 1))
    for at, part in enumerate(parts):
        np.cumsum(part, axis=1, out=sums[at, :, 1:])
    return sums


def _window(sums: np.ndarray, at: range, first: int, last: int) -> np.ndarray:
    """Return the sum over the steps from ``first`` to ``last`` (exclusive) steps after each step ``at``.

    Steps before the run count as 0.
    """
    found = sums[:, at.start + last : at.stop + last].copy()
    missing = max(0, -at.start - first)
    if missing < len(at):
        found[:, missing:] -= sums[:, at.start + first + missing : at.stop + first]
    return found


class _Earlier:
    """The window before each step: its mean, trend and noise."""

    def __init__(self, sums: _Sums) -> None:
        at, before = _tested(sums.count, min(AFTER)), (-BEFORE, 0)
        self.count, total = _window(sums.count, at, *before), _window(sums.sum, at, *before)
        self.mean, self.time = total / self.count, _window(sums.time, at, *before) / self.count
        spread = _window(sums.time_square, at, *before) - self.count * self.time**2
        moved = _window(sums.product, at, *before) - self.time * total
        self.slope = np.where(spread > 0, moved / spread, 0.0)
        rest = _window(sums.square, at, *before) - total * self.mean - self.slope * moved
        self.rest = np.maximum(rest, 0.0)
        self.floor = _window(sums.floor, at, *before)
        # Von Neumann's ratio: the correlation of neighbouring steps. Its median is hardly changed by a jump.
        rough = _window(sums.rise, at, 1 - BEFORE, 0) / (2 * (self.count - 1))
        like = 1 - (self.count - 2) * rough / self.rest
        usual = np.median(np.where(np.isfinite(like), like, 0.0), axis=1) if len(at) else np.zeros(len(like))
        self.like = np.clip(usual, 0.0, _MAX_CORRELATION)[:, None]
        self.is_exact = _is_exact(sums.centred, at)


def _is_exact(values: np.ndarray, at: range) -> np.ndarray:
    """Return the mask of steps that differ from the step before as no step before did, shape (K, T)."""
    rises = np.abs(np.diff(values, axis=1, prepend=np.nan))
    known = np.isfinite(rises)
    # The largest of 16 steps is that of two of 8, and so on; then those of 20.
    largest, width = np.where(known, rises, 0.0), 1
    largest = np.concatenate([np.zeros((len(values), BEFORE)), largest], axis=1)
    while 2 * width <= BEFORE:
        largest = np.maximum(largest[:, :-width], largest[:, width:])
        width *= 2
    largest = np.maximum(largest[:, : -(BEFORE - width)], largest[:, BEFORE - width :])
    own = slice(at.start, at.stop)
    return known[:, own] & (rises[:, own] > _EXACT * largest[:, own] + 1e-9)


def jumps(values: np.ndarray, floor: np.ndarray, least: np.ndarray, limit: np.ndarray) -> Iterator[Jump]:
    """Yield the largest sudden change of each stream that is large enough.

    Parameters
    ----------
    values : ndarray of float, shape (K, S)
        In the scale of the test; NaN where a stream is not defined.
    floor : ndarray of float, shape (K, S)
        Variance of each value that the number of samples leaves at least.
    least, limit : ndarray of float, shape (K,)
        Smallest change of interest, and least z.
    """
    size = values.shape[1]
    if size < MIN_BEFORE + min(AFTER):
        return
    best: dict[int, Jump] = {}
    lengths = [after for after in AFTER if size >= MIN_BEFORE + after]
    with np.errstate(all="ignore"):
        means = _Means(values)
        # Most streams have no difference of interest: their noise need not be known.
        rows = np.flatnonzero(np.any([means.is_large(after, least).any(axis=1) for after in lengths], axis=0))
        if not len(rows):
            return
        sums = _Sums(values[rows], floor[rows])
        earlier = _Earlier(sums)
        for after in lengths:
            for jump in _largest(sums, earlier, after, least[rows], limit[rows]):
                if jump.row not in best or jump.z > best[jump.row].z:
                    best[jump.row] = jump
    for row, jump in best.items():
        yield replace(jump, row=int(rows[row]))


def _largest(
    sums: _Sums, earlier: _Earlier, after: int, least: np.ndarray, limit: np.ndarray
) -> Iterator[Jump]:
    """Yield the largest sudden change of each stream, for one length of the later window."""
    at = _tested(sums.count, after)
    old, mean, time, slope, rest, floor, is_exact = (
        part[:, : len(at)]
        for part in (
            *(earlier.count, earlier.mean, earlier.time, earlier.slope),
            *(earlier.rest, earlier.floor, earlier.is_exact),
        )
    )
    new, total = _window(sums.count, at, 0, after), _window(sums.sum, at, 0, after)
    later = total / new
    difference = later - mean
    trend = slope * (_window(sums.time, at, 0, after) / new - time)
    allowed = np.where(trend * difference > 0, _ALONG, _AGAINST) * np.abs(trend)
    rest_later = np.maximum(_window(sums.square, at, 0, after) - total * later, 0.0)
    variance = np.fmax(rest / (old - 2), (rest + rest_later) / (old + new - 3))
    variance = np.fmax(variance, (floor + _window(sums.floor, at, 0, after)) / (old + new))
    error = np.sqrt(np.maximum(variance * (1 / old + 1 / new), 1e-24))
    t_if_unlike = np.maximum(np.abs(difference) - allowed, 0.0) / error
    t = t_if_unlike * np.sqrt((1 - earlier.like) / (1 + earlier.like))
    is_large = sums.is_large(after, least) & (t > _EXACT_T / 2)
    free = (old + new - 3)[is_large]
    z = np.zeros_like(t)
    z[is_large] = (8 * free + 1) / (8 * free + 3) * np.sqrt(free * np.log1p(t[is_large] ** 2 / free))
    z = np.where(is_exact & is_large & (t_if_unlike >= _EXACT_T), np.maximum(z, _EXACT_Z), z)
    for row in np.flatnonzero(z.max(axis=1, initial=0.0) >= limit).tolist():
        best = int(z[row].argmax())
        middle = float(sums.middle[row, 0])
        yield Jump(
            row,
            at[best],
            float(z[row, best]),
            float(mean[row, best]) + middle,
            float(later[row, best]) + middle,
        )


def _is_more_than_before(difference: np.ndarray, after: int) -> np.ndarray:
    """Return the mask of differences that are about as large as those of all windows before, shape (K, T)."""
    size = np.nan_to_num(np.abs(difference))
    largest, lag = np.maximum.accumulate(size, axis=1), after + _NEAR
    before = np.zeros_like(largest)
    before[:, lag:] = largest[:, :-lag]
    return size >= _OF_EARLIER * before
