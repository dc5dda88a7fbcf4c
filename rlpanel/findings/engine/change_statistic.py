"""Statistic of a sustained change: whether a noisy series rises, and from which step on.

`window_scan` finds the window that is higher than earlier ones. Here its rise is described: where it begins,
by the better fit of a step and of a slope after a constant level, where it ends, and both levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from rlpanel.findings.engine.window_scan import (
    MIN_STEPS,
    Base,
    Best,
    Read,
    Scan,
    TrailingMeans,
    may_rise,
    row_median,
    step_noise,
)


def rise_onset(values: np.ndarray, start: int, stop: int) -> int:
    """Return where the rise begins: the better fit of a step and of a slope after a constant level."""
    part = values[start : stop + 1]
    position = np.flatnonzero(np.isfinite(part))
    if len(position) < 3:
        return min(start + 1, stop)
    known = part[position]
    step_error, step_at = fit_step(known)
    slope_error, slope_at = _fit_slope(position.astype(float), known)
    at = position[step_at] if step_error <= slope_error else position[min(slope_at + 1, len(position) - 1)]
    return start + int(at)


def fit_step(values: np.ndarray) -> tuple[float, int]:
    """Return the squared error of two constant levels, and the first position of the second one."""
    error, at = fit_steps(values[None])
    return float(error[0]), int(at[0])


def fit_steps(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what `fit_step` returns of each of several series, shape (K,) each."""
    size = values.shape[1]
    count = np.arange(1, size)
    total, squares = np.cumsum(values, axis=1)[:, :-1], np.cumsum(values**2, axis=1)[:, :-1]
    rest = values.sum(axis=1, keepdims=True) - total
    rest_squares = (values**2).sum(axis=1, keepdims=True) - squares
    error = squares - total**2 / count + rest_squares - rest**2 / (size - count)
    return error.min(axis=1), error.argmin(axis=1) + 1


def _fit_slope(position: np.ndarray, values: np.ndarray) -> tuple[float, int]:
    """Return the squared error of a constant level with a slope after it, and where the slope begins.

    At most a hundred beginnings are tried.
    """
    knots = np.arange(0, len(values) - 2, max(1, len(values) // 100))
    if not len(knots):
        return np.inf, 0
    # Sums over the positions after each knot give those of all ramps at once.
    centred, at = values - values.mean(), position - position[0]
    parts = np.stack([np.ones(len(at)), at, at**2, centred, at * centred])
    count, first, second, moved, product = np.cumsum(parts[:, ::-1], axis=1)[:, ::-1][:, knots]
    knot = at[knots]
    ramp = first - knot * count
    spread = second - 2 * knot * first + knot**2 * count - ramp**2 / len(at)
    error = centred @ centred - (product - knot * moved) ** 2 / spread
    best = int(error.argmin())
    return float(error[best]), int(knots[best])


#: Share of the rise that has passed when it counts as complete.
_REACHED = 0.9
#: Distance from the level before at which a slope leaves the noise, in errors of a step (on three steps).
_SEEN = 0.8
#: Length of the window whose mean is reported as the level before.
_BASE = 5
#: Steps after the end of a rise, and standard errors by which their mean is below the risen level.
_AFTER, _ENDED = 5, 3.0
#: Most steps from the onset to the new level of a cliff.
_CLIFF = 5


@dataclass(frozen=True)
class Rise:
    """A sustained rise of one series.

    Attributes
    ----------
    row : int
        Row of the series.
    onset, last : int
        Positions of the first and last affected step.
    ongoing : bool
        True if the newest window is affected.
    before, after : float
        Mean of the window before, and of the later window.
    high : float
        Mean of the clearest window.
    z : float
        Difference divided by its standard error.
    sudden : bool
        True if most of the difference appears within a few steps: a cliff, not a slide.
    base : tuple of int
        First position of the window before, and the one after its last.
    """

    row: int
    onset: int
    last: int
    ongoing: bool
    before: float
    after: float
    high: float
    z: float
    sudden: bool
    base: tuple[int, int]


def step_errors(values: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the error of each step's mean, shape (K, S).

    Parameters
    ----------
    values, variance : ndarray of float, shape (K, S)
        Means by step and the variances of these means; NaN where a step has no value.
    """
    error = np.sqrt(variance)
    noise = step_noise(values)
    with np.errstate(all="ignore"):
        usual = row_median(error) / 2
    return np.fmax(np.fmax(error, noise[:, None]), usual[:, None])


@dataclass(frozen=True)
class Scored:
    """Series that have a sustained rise, and where each is most significant.

    Attributes
    ----------
    read : callable
        Returns the tested means and their variances of some steps.
    steps : int
    windows : dict of int to tuple
        Row → difference in standard errors, length and last position of the later window.
    best : Best, optional
    scan : Scan
        The state after the settled steps, from which the next check goes on.
    threshold : float
    row : callable, optional
        Returns what ``read`` returns of one row and all steps.
    """

    read: Read
    steps: int
    best: Best | None
    scan: Scan
    threshold: float
    row: Callable[[int], tuple[np.ndarray, np.ndarray]] | None = None
    windows: dict[int, tuple[float, int, int]] = field(init=False)

    def __post_init__(self) -> None:
        best, found = self.best, {}
        if best is not None:
            for row in np.flatnonzero(best.score > self.threshold).tolist():
                found[row] = float(best.score[row]), int(best.width[row]), int(best.end[row])
        object.__setattr__(self, "windows", found)

    def rise(self, row: int) -> Rise:
        """Return the rise of a series: the clearest one, or one that goes on if that is over."""
        if self.row is not None:
            values, variance = self.row(row)
        else:
            values, variance = (each[row] for each in self.read(0, self.steps))
        error = step_errors(values[None], variance[None])[0]
        assert self.best is not None
        rise = _describe(values, error, row, self.best, self.scan.base)
        if rise.ongoing:
            return rise
        # A short one may be higher than another that goes on.
        others = values.copy()
        others[rise.onset : rise.last + 1] = np.nan
        if not _is_raised(others, self.scan.least):
            return rise
        rest = scored(others[None], np.sqrt(variance)[None], self.scan.least, self.threshold, self.scan.base)
        if rest.best is None or not rest.windows:
            return rise
        other = _describe(others, error, 0, rest.best, self.scan.base)
        if not other.ongoing:
            return rise
        if rise.onset < other.onset <= rise.last + _AFTER:  # it goes on at a lower level
            onset, before, base = rise.onset, rise.before, rise.base
            other = replace(other, onset=onset, before=before, base=base, sudden=rise.sudden)
        return replace(other, row=row)


def scored(
    values: np.ndarray, error: np.ndarray, least: float, threshold: float, base: Base = "lowest"
) -> Scored:
    """Test each series for a sustained rise.

    Parameters
    ----------
    values, error : ndarray of float, shape (K, S)
        Means by step and their errors; a rise is bad.
    least : float
        Smallest difference of interest.
    threshold : float
        Smallest difference in standard errors.
    base : str
        What the later window is compared with, see `Base`.
    """

    def read(first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        return values[:, first:stop], error[:, first:stop] ** 2

    scan, steps = Scan(least, base), values.shape[1]
    if base == "lowest" and not may_rise(values, error**2, least, threshold):
        return Scored(read, steps, None, scan, threshold)
    return continued(scan, read, steps, threshold)


def continued(
    scan: Scan,
    read: Read,
    steps: int,
    threshold: float,
    row: Callable[[int], tuple[np.ndarray, np.ndarray]] | None = None,
) -> Scored:
    """Test series for a sustained rise, of which a first part was tested before; see `scored`."""
    settled, best = scan.after(read, steps)
    return Scored(read, steps, best, settled, threshold, row)


def _is_raised(values: np.ndarray, least: float) -> bool:
    """Return True if the newest steps may be higher than others before them by ``least``."""
    known = values[np.isfinite(values)]
    if len(known) < MIN_STEPS:
        return False
    means = np.convolve(known, np.full(2, 0.5), "valid")
    return bool(means[-_BASE:].max() - means.min() > least)


def _describe(values: np.ndarray, error: np.ndarray, row: int, best: Best, against: Base) -> Rise:
    """Return onset, end and levels of the rise of a series whose best window is known."""
    width, before, end = (int(each[row]) for each in (best.width, best.before, best.end))
    base_end = {"adjacent": end - width, "half": min(end // 2, end - width)}.get(against)
    if base_end is None:
        base_end = _lowest_window_end(values, before, end - width)
    low = float(np.nanmean(values[max(0, base_end - before + 1) : base_end + 1]))
    high = float(np.nanmean(values[end - width + 1 : end + 1]))
    start = max(0, base_end - before + 1)
    smooth = _centred_mean(values)
    # The best window may be higher than the new level by chance: allow the error of three steps.
    new_level = low + _REACHED * (high - low) - error[start : end + 1] / np.sqrt(3)
    reached = np.flatnonzero(smooth[start : end + 1] >= np.fmax(new_level, (low + high) / 2))
    stop = min(end, start + int(reached[0]) + 3) if len(reached) else end
    # One heavy step does not move the onset.
    onset = rise_onset(np.clip(values, low - error, high + error), start, stop)
    # A slope that begins slowly is seen only when it leaves the noise.
    seen = np.flatnonzero(smooth[onset : end + 1] > low + _SEEN * error[onset : end + 1])
    onset += int(seen[0]) if len(seen) else 0
    # The mean of three steps rises one step before a cliff.
    jumps = onset < end and values[onset + 1] - low > (high - low) / 2
    onset += bool(jumps and values[onset] <= low + _SEEN * error[onset])
    affected = _affected(values, error, onset, end, low, high)
    after = values[onset : affected + 1]
    sudden = stop - onset <= _CLIFF
    slow = against == "lowest" and not sudden
    base = _best_window_before(values, onset) if slow else _window_before(values, onset)
    return Rise(
        row=row,
        onset=onset,
        last=affected,
        ongoing=affected == len(values) - 1,
        before=_mean(values[slice(*base)], low),
        after=_mean(after[len(after) // 2 :], high),
        high=high,
        z=float(best.z[row]),
        sudden=sudden,
        base=base,
    )


def _mean(values: np.ndarray, otherwise: float) -> float:
    """Return the mean of the finite values; ``otherwise`` without any."""
    return float(np.nanmean(values)) if np.isfinite(values).any() else otherwise


def _window_before(values: np.ndarray, onset: int) -> tuple[int, int]:
    """Return the bounds of the few steps right before the onset; of its first steps if there are none."""
    start = max(0, onset - _BASE)
    return (start, onset) if np.isfinite(values[start:onset]).any() else (0, max(onset, _BASE))


def _best_window_before(values: np.ndarray, onset: int) -> tuple[int, int]:
    """Return the bounds of the few steps before the onset that have the lowest mean."""
    if onset <= _BASE:
        return _window_before(values, onset)
    end = _lowest_window_end(values, _BASE, onset - 1) + 1
    return max(0, end - _BASE), end


def _lowest_window_end(values: np.ndarray, width: int, last: int) -> int:
    """Return where the lowest window of ``width`` steps ends, at ``last`` or before."""
    means = TrailingMeans(values[None, : last + 1]).of(width, last + 1)[0, width - 1 :]
    if not np.isfinite(means).any():  # too few steps have a value
        return last
    lowest = np.flatnonzero(means == np.nanmin(means))
    return int(lowest[-1]) + width - 1


def _affected(values: np.ndarray, error: np.ndarray, onset: int, end: int, low: float, high: float) -> int:
    """Return the last affected step: the one before the mean of three steps comes back, and stays there.

    The level after it must lie nearer to the one before the rise, and below the risen one by `_ENDED`
    standard errors, over as many steps as `_AFTER`. So a single good step ends nothing.
    """
    smooth, middle = _centred_mean(values), (low + high) / 2
    for back in (end + np.flatnonzero(smooth[end:] < middle)).tolist():
        part = slice(back, back + _AFTER)
        known = np.isfinite(values[part]) & np.isfinite(error[part])
        if known.sum() < _AFTER:
            break
        mean = float(values[part][known].mean())
        spread = float(np.sqrt((error[part][known] ** 2).sum())) / _AFTER
        if mean < middle and high - mean > _ENDED * spread:
            return max(back - 1, onset)
    return max(len(values) - 1, onset)


def _centred_mean(values: np.ndarray) -> np.ndarray:
    """Return the mean over a step and its neighbours; NaN values are left out, shape (S,)."""
    parts = np.full((3, len(values)), np.nan)
    parts[0, 1:], parts[1], parts[2, :-1] = values[:-1], values, values[1:]
    known = np.isfinite(parts)
    with np.errstate(all="ignore"):
        return np.where(known, parts, 0.0).sum(axis=0) / known.sum(axis=0)
