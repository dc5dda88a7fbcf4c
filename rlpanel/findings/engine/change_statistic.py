"""Statistic of a sustained change: whether a noisy series rises, and from which step on.

Test of two windows for a sustained rise of a noisy series, and where the rise begins.

The mean of the newest ``w`` steps is compared with the lowest mean of earlier windows, for several ``w``, so
that a cliff and a slow slide are both found. The error of a step is the largest of: its standard error,
clustered by group; the noise between neighbouring steps; and half of the median error.

Finds where a rise begins: the better fit of a step and of a slope after a constant level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np


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
    count = np.arange(1, len(values))
    total, squares = np.cumsum(values)[:-1], np.cumsum(values**2)[:-1]
    rest, rest_squares = values.sum() - total, (values**2).sum() - squares
    error = squares - total**2 / count + rest_squares - rest**2 / (len(values) - count)
    best = int(error.argmin())
    return float(error[best]), best + 1


def _fit_slope(position: np.ndarray, values: np.ndarray) -> tuple[float, int]:
    """Return the squared error of a constant level with a slope after it, and where the slope begins.

    At most a hundred beginnings are tried.
    """
    knots = np.arange(0, len(values) - 2, max(1, len(values) // 100))
    if not len(knots):
        return np.inf, 0
    ramp = np.maximum(position[None] - position[knots][:, None], 0.0)
    ramp -= ramp.mean(axis=1, keepdims=True)
    centred = values - values.mean()
    error = centred @ centred - (ramp @ centred) ** 2 / (ramp * ramp).sum(axis=1)
    best = int(error.argmin())
    return float(error[best]), int(knots[best])


#: What the later window is compared with: the lowest earlier window, the one right before it, or the one
#: half way from the first step. The second finds only sudden rises, the third only those that are faster than
#: in proportion.
Base = Literal["lowest", "adjacent", "half"]

#: Lengths of the later window, in steps.
_WINDOWS = (2, 3, 5, 8, 13, 21)
#: Longest later window whose base is not the lowest earlier window.
_NARROW = 5
#: With fewer steps, a change cannot be distinguished from the spread between steps.
MIN_STEPS = 4
#: With fewer steps, the noise between steps is not estimated; only standard errors are used.
_MIN_FOR_NOISE = 16
#: Short runs have few windows, so that a smaller score is as rare: factor on the threshold below this many
#: steps.
_SHORT, _SHORT_FACTOR = 20, 0.8
#: Turns the median absolute second difference of white noise into its standard deviation.
_SECOND_DIFFERENCE = 1.4826 / np.sqrt(1.5)
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
#: Score of a difference whose standard error is 0.
_LARGEST = np.finfo(np.float64).max


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
    noise = _noise(values)
    with np.errstate(all="ignore"):
        usual = _row_median(error) / 2
    return np.fmax(np.fmax(error, noise[:, None]), usual[:, None])


def _noise(values: np.ndarray) -> np.ndarray:
    """Return the noise between neighbouring steps of each series, shape (K,); NaN with too few steps."""
    if values.shape[1] < _MIN_FOR_NOISE:
        return np.full(len(values), np.nan)
    second = values[:, 1:-1] - (values[:, :-2] + values[:, 2:]) / 2
    return _SECOND_DIFFERENCE * _row_median(np.abs(second))


def _row_median(values: np.ndarray) -> np.ndarray:
    """Return the median of each row's finite values, shape (K,); NaN for rows without any."""
    ordered = np.sort(values, axis=1)  # NaN last
    count = np.isfinite(values).sum(axis=1)
    low, high = np.maximum((count - 1) // 2, 0), np.minimum(count // 2, values.shape[1] - 1)
    rows = np.arange(len(values))
    return np.where(count > 0, (ordered[rows, low] + ordered[rows, high]) / 2, np.nan)


@dataclass(frozen=True)
class Scored:
    """Series that have a sustained rise, and where each is most significant.

    Attributes
    ----------
    values, error : ndarray of float, shape (K, S)
        The tested means and their errors.
    windows : dict of int to tuple
        Row → difference in standard errors, length and last position of the later window.
    base : str
        What the later window was compared with.
    """

    values: np.ndarray
    error: np.ndarray
    windows: dict[int, tuple[float, int, int]]
    base: Base

    def rise(self, row: int) -> Rise:
        """Return the rise of a series."""
        z, width, end = self.windows[row]
        return _describe(self.values[row], self.error[row], row, width, end, z, self.base)


def scored(
    values: np.ndarray, error: np.ndarray, least: float, threshold: float, base: Base = "lowest"
) -> Scored:
    """Test each series for a sustained rise.

    Parameters
    ----------
    values : ndarray of float, shape (K, S)
        Means by step; a rise is bad.
    error : ndarray of float, shape (K, S)
        Result of `step_errors`.
    least : float
        Smallest difference of interest.
    threshold : float
        Smallest difference in standard errors.
    base : str
        What the later window is compared with, see `Base`.
    """
    steps = values.shape[1]
    threshold *= _SHORT_FACTOR if steps < _SHORT else 1.0
    windows: dict[int, tuple[float, int, int]] = {}
    rows = _large_enough(values, least)
    if steps < MIN_STEPS or not len(rows):
        return Scored(values, error, windows, base)
    means = _Windows(values[rows], error[rows])
    for width in (w for w in _WINDOWS if 2 * w <= steps and (base == "lowest" or w <= _NARROW)):
        z = _scores(means, steps, least, width, base)
        ends = z.argmax(axis=1)
        peaks = z[np.arange(len(rows)), ends]
        for row, peak, end in zip(rows.tolist(), peaks.tolist(), ends.tolist(), strict=True):
            if peak > threshold and (row not in windows or peak > windows[row][0]):
                windows[row] = peak, width, end
    return Scored(values, error, windows, base)


def _large_enough(values: np.ndarray, least: float) -> np.ndarray:
    """Return the rows whose range over the steps exceeds ``least``; the others cannot have a rise."""
    known = np.isfinite(values)
    span = np.where(known, values, -np.inf).max(axis=1) - np.where(known, values, np.inf).min(axis=1)
    return np.flatnonzero(span > least)


def base_width(width: int, steps: int) -> int:
    """Return the length of the window before: longer than the later one if the run has enough steps."""
    return min(max(width, 5 if steps >= 20 else 3 if steps >= 9 else 2), steps - width)


def _scores(windows: _Windows, steps: int, least: float, width: int, against: Base) -> np.ndarray:
    """Return the difference in standard errors of the window that ends at each step, shape (K, S).

    It is -inf where the difference is smaller than ``least``.
    """
    later, later_variance = windows.means(width)
    base, base_variance = windows.means(base_width(width, steps))
    if against == "half":
        half = np.minimum(np.arange(steps) // 2, np.maximum(np.arange(steps) - width, 0))
        base, base_variance = base[:, half], base_variance[:, half]
    else:
        base, base_variance = _shift(base, width), _shift(base_variance, width)
    if against == "lowest":
        base, base_variance = _lowest(base, base_variance)
    with np.errstate(all="ignore"):
        difference = later - base
        z = np.minimum(difference / np.sqrt(later_variance + base_variance), _LARGEST)
        return np.where((difference > least) & (z > 0), z, -np.inf)


class _Windows:
    """Means of all windows of some series, from running sums that all lengths of windows share.

    Parameters
    ----------
    values, error : ndarray of float, shape (K, S)
    """

    def __init__(self, values: np.ndarray, error: np.ndarray) -> None:
        known = np.isfinite(values) & np.isfinite(error)
        parts = known, np.where(known, values, 0.0), np.where(known, error, 0.0) ** 2
        self._sums = np.zeros((3, len(values), values.shape[1] + 1))
        np.cumsum(np.stack(parts), axis=2, out=self._sums[:, :, 1:])
        self._found: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def means(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of the mean of the ``width`` steps that end at each step, shape (K, S).

        They are NaN where fewer than half of the steps have a value, and for the first ``width`` - 1 steps.
        """
        if width not in self._found:
            count, total, squares = self._sums[:, :, width:] - self._sums[:, :, :-width]
            with np.errstate(all="ignore"):
                mean, variance = total / count, squares / count**2
            enough = count >= max(1, (width + 1) // 2)
            found = np.full((2, *self._sums.shape[1:]), np.nan)[:, :, 1:]
            found[0, :, width - 1 :] = np.where(enough, mean, np.nan)
            found[1, :, width - 1 :] = np.where(enough, variance, np.nan)
            self._found[width] = found[0], found[1]
        return self._found[width]


def _shift(values: np.ndarray, width: int) -> np.ndarray:
    """Move values to later steps; the first ``width`` become NaN."""
    shifted = np.full_like(values, np.nan)
    shifted[:, width:] = values[:, :-width]
    return shifted


def _lowest(base: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest of all earlier values, and the variance that belongs to it, shape (K, S)."""
    filled = np.where(np.isnan(base), np.inf, base)
    low = np.minimum.accumulate(filled, axis=1)
    is_new = filled <= low
    position = np.maximum.accumulate(np.where(is_new, np.arange(base.shape[1]), 0), axis=1)
    return np.where(np.isinf(low), np.nan, low), np.take_along_axis(variance, position, axis=1)


def _describe(
    values: np.ndarray, error: np.ndarray, row: int, width: int, end: int, z: float, against: Base
) -> Rise:
    """Return onset, end and levels of the rise whose best window ends at ``end``."""
    before = base_width(width, len(values))
    base_end = {"adjacent": end - width, "half": min(end // 2, end - width)}.get(
        against, _lowest_window_end(values, before, end - width)
    )
    low = float(np.nanmean(values[max(0, base_end - before + 1) : base_end + 1]))
    high = float(np.nanmean(values[end - width + 1 : end + 1]))
    start = max(0, base_end - before + 1)
    smooth = _centred_mean(values)
    reached = np.flatnonzero(smooth[start : end + 1] >= low + _REACHED * (high - low))
    stop = min(end, start + int(reached[0]) + 3) if len(reached) else end
    onset = rise_onset(values, start, stop)
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
        z=z,
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
    part = values[None, : last + 1]
    means = _Windows(part, np.zeros_like(part)).means(width)[0][0]
    lowest = np.flatnonzero(means == np.nanmin(means))
    return int(lowest[-1])


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
    padded = np.pad(values, 1, constant_values=np.nan)
    parts = np.stack([padded[:-2], padded[1:-1], padded[2:]])
    known = np.isfinite(parts)
    with np.errstate(all="ignore"):
        return np.where(known, parts, 0.0).sum(axis=0) / known.sum(axis=0)
