"""Test of a new run against the spread of its baselines, by Student's t distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from rlpanel.gate.run_series import AlignedWindows
from rlpanel.number_text import DUST

# -- student t -----------------------------------------------------------------------------------------
# Tail and quantiles of Student's t distribution with a whole number of degrees of freedom.
#
# Also those of t whose error is never below a share of the true one, since a part of it is known.


#: Points of the integrals over the estimated error, and the deviate beyond which a tail counts as 0.
_POINTS, _FAR = np.polynomial.legendre.leggauss(48), 8.0


def upper_tail(t: float, degrees: int) -> float:
    """Return the probability of a value above ``t``.

    Parameters
    ----------
    t : float
    degrees : int
        Degrees of freedom, at least 1.

    Notes
    -----
    The finite sums of Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.
    """
    if math.isnan(t):
        return math.nan
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    angle = math.atan2(abs(t), math.sqrt(degrees))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = degrees % 2
    term = total = math.cos(angle) if odd else 1.0
    for even in range(2 + odd, degrees - 1, 2):
        term *= square * (even - 1) / even
        total += term
    if odd:
        inside = 2 / math.pi * (angle + (sine * total if degrees > 1 else 0.0))
    else:
        inside = sine * total
    tail = max(0.0, (1 - inside) / 2)
    return tail if t > 0 else 1 - tail


def floored_tail(t: float, degrees: int, least: float) -> float:
    """Return the probability of a value above ``t`` if the error is at least a share of the true one.

    Parameters
    ----------
    t : float
        The difference by the larger one of its estimated error and ``least`` times the true error.
    degrees : int
        Degrees of freedom of the estimated error, at least 1.
    least : float
        From 0, which is Student's t, to 1, which is a normal deviate with at most its usual error.

    Notes
    -----
    The mean of 1 − Φ(t · max(c, least)) over c = √(χ² / degrees). It falls with ``least``, so that a lower
    bound of it gives an upper bound of the probability.
    """
    if not least > 0 or not math.isfinite(t):
        return upper_tail(t, degrees)
    if t < 0:
        return 1 - floored_tail(-t, degrees, least)
    end = max(least, min(_FAR / max(t, 1e-9), 1 + 6 / math.sqrt(degrees)))
    beyond = _integral(degrees, least, end, lambda c: [math.erfc(t * each / math.sqrt(2)) / 2 for each in c])
    below = _integral(degrees, 0.0, least, lambda c: [1.0] * len(c))
    return min(0.5, below * math.erfc(t * least / math.sqrt(2)) / 2 + beyond)


def _integral(degrees: int, low: float, high: float, of: Callable[[np.ndarray], list[float]]) -> float:
    """Return the integral of a function of c = √(χ² / degrees) times the density of c."""
    nodes, weights = _POINTS
    c = low + (high - low) * (nodes + 1) / 2
    half = degrees / 2
    logs = math.log(2) + half * math.log(half) - math.lgamma(half)
    density = np.exp(logs + (degrees - 1) * np.log(np.maximum(c, 1e-300)) - half * c**2)
    return float((weights * density * np.array(of(c))).sum() * (high - low) / 2)


@lru_cache(maxsize=256)
def quantile(probability: float, degrees: int, least: float = 0.0) -> float:
    """Return the value that is exceeded with a probability of 1 - ``probability``, which is above 0.5.

    With ``least`` it is that of `floored_tail`.
    """
    low, high = 0.0, 1.0
    while floored_tail(high, degrees, least) > 1 - probability and high < 1e12:
        high *= 2
    for _ in range(100 if not least else 40):
        middle = (low + high) / 2
        if floored_tail(middle, degrees, least) > 1 - probability:
            low = middle
        else:
            high = middle
    return high


# -- spread test ---------------------------------------------------------------------------------------
# Test of a new run against the spread of its baselines, over windows.
#
# The run is the unit. Under the null hypothesis the new run is drawn from the same distribution as its
# baselines, so that noise that goes on for a whole training, such as that of a seed, counts in full. Two
# contrasts are tested for each number: the mean over all windows, and that over the last ones.


#: Chance of a false alarm of the whole gate.
ALPHA = 0.05
#: Chance for which a stated size is computed, so that it is found in 80 % at least: the error is an estimate
#: from few runs, which costs up to 6 % in simulated trainings (`tests.bench.gate`).
_PLANNED = 0.87
#: Share of the windows that are the end of the run.
END = 0.3
#: Most baselines that are recommended.
MAX_BASELINES = 12
#: Names of the contrasts.
WHOLE, LAST = "whole", "end"
#: Largest correlation of neighbouring steps that is believed.
_MAX_CORRELATION = 0.9
#: Most parts of a run whose steps lie around a line each, and the fewest steps of a part.
_STRETCHES, _MIN_STEPS = 10, 10


@dataclass(frozen=True)
class RunContrast:
    """A mean over windows: the new run against its baselines, in the scale of the test.

    Attributes
    ----------
    name : {"whole", "end"}
    first : int
        The first window; the last one is that of the range.
    new, baselines : float
    error : float
        Standard error of the difference of a run that is drawn as the baselines were.
    degrees : int
        Degrees of freedom; 0 with one baseline, whose error has only the noise within the runs.
    p : float
        Chance of as large a worsening without a change, before the correction.
    least : float
        Least share of the true error that the error has, see `floored_tail`; 0 if it is not known.
    """

    name: str
    first: int
    new: float
    baselines: float
    error: float
    degrees: int
    p: float
    least: float = 0.0

    @property
    def effect(self) -> float:
        """New run minus the mean of the baselines."""
        return self.new - self.baselines


def window_means(
    windows: AlignedWindows, means: list[np.ndarray], variances: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of all runs by window, and the noise of a run's step within it.

    Parameters
    ----------
    windows : AlignedWindows
    means, variances : list of ndarray of float, shape (S,)
        Of each run, in the scale of the test.

    Returns
    -------
    ndarray of float, shape (R, W)
        NaN where no step of a window has a value.
    ndarray of float, shape (R, W)
        Variance of each of these means by the noise within the run. That of the new run is the baselines',
        and what its samples have above theirs: a fall within it must not count as its noise.
    """
    runs = range(len(means))
    by_window = np.array([windows.means(run, means[run]) for run in runs])
    sampled = np.array(
        [_from_samples(windows.place[run], windows.count, means[run], variances[run]) for run in runs]
    )
    noise = np.array(
        [noise_within(windows.place[run], windows.count, means[run], variances[run]) for run in runs]
    )
    noise[0] = noise[1:].mean(axis=0) + np.maximum(0.0, sampled[0] - sampled[1:].mean(axis=0))
    return by_window, noise


def noise_within(place: np.ndarray, count: int, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the variance of the mean over each window by noise of steps, shape (count,).

    It is the larger one of two estimates. One is the sampling variance of the steps, clustered by group. The
    other is that of the steps around lines, times (1 + ρ) / (1 − ρ) for the correlation ρ of neighbouring
    steps (see `step_variance`).

    Parameters
    ----------
    place : ndarray of int, shape (S,)
        Window of each step; -1 for none.
    count : int
    mean, variance : ndarray of float, shape (S,)
    """
    known = (place >= 0) & np.isfinite(mean)
    steps = np.bincount(place[known], minlength=count)
    usual = step_variance(mean[known])
    with np.errstate(all="ignore"):
        noise = np.where(steps > 0, usual / steps, np.nan)
    return np.maximum(noise, _from_samples(place, count, mean, variance))


def _from_samples(place: np.ndarray, count: int, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the sampling variance of the mean over each window, shape (count,); 0 where it is not known."""
    known = (place >= 0) & np.isfinite(mean)
    steps = np.bincount(place[known], minlength=count)
    return np.bincount(place[known], np.nan_to_num(variance[known]), count) / np.maximum(steps, 1) ** 2


def step_variance(values: np.ndarray) -> float:
    """Return the variance of a step for the mean over many: around lines, with the correlation of neighbours.

    The lines are fitted to `_STRETCHES` parts of the steps, of at least `_MIN_STEPS` each, since
    shorter ones show no correlation. What a line takes off the residuals and their products is added again
    by the diagonal
    and its neighbour of the hat matrix.

    Parameters
    ----------
    values : ndarray of float, shape (S,)
    """
    if len(values) < 4:
        return float((np.diff(values) ** 2).mean() / 2) if len(values) > 1 else 0.0
    squares = products = taken = 0.0
    free = pairs = 0
    for part in np.array_split(values, max(1, min(_STRETCHES, len(values) // _MIN_STEPS))):
        time = np.arange(len(part)) - (len(part) - 1) / 2
        size = float(time @ time)
        rest = part - part.mean() - time * (time @ part) / size
        squares, free = squares + float(rest @ rest), free + len(part) - 2
        products, pairs = products + float(rest[1:] @ rest[:-1]), pairs + len(part) - 1
        taken += (len(part) - 1) / len(part) + float(time[1:] @ time[:-1]) / size
    usual = squares / free
    if not usual > 0:
        return 0.0
    like = float(np.clip((products / usual + taken) / pairs, 0.0, _MAX_CORRELATION))
    return usual * (1 + like) / (1 - like)


def contrasts(
    by_window: np.ndarray, noise: np.ndarray, worse: str, most: float = float("inf")
) -> list[RunContrast]:
    """Return the tested contrasts of a number.

    With k ≥ 2 baselines the error is s · √(1 + 1/k), where s is the standard deviation of the baselines'
    contrasts with k − 1 degrees of freedom. It is at least that of the noise within the runs, and grows by
    the part of the new run's noise that exceeds that of the baselines.

    The few baselines can agree by chance, but the error does not fall below the noise within the runs. If
    runs with the same settings differ by a standard deviation of at most ``most``, that noise is a known
    share of the true error, and the chances are those of `floored_tail`. If the baselines themselves differ
    by more, they are those of Student's t.

    Parameters
    ----------
    by_window, noise : ndarray of float, shape (R, W)
        As `window_means` returns them; the first run is the new one.
    worse : {"lower", "higher", "either"}
    most : float
        Largest standard deviation between runs with the same settings that is assumed.
    """
    used = np.flatnonzero(np.isfinite(by_window).all(axis=0))
    if not len(used):
        return []
    last = used[-max(1, round(END * len(used))) :]
    found = [_contrast(WHOLE, used, by_window, noise, worse, most)]
    if len(last) < len(used):
        found.append(_contrast(LAST, last, by_window, noise, worse, most))
    return found


def _contrast(
    name: str, used: np.ndarray, by_window: np.ndarray, noise: np.ndarray, worse: str, most: float
) -> RunContrast:
    values = by_window[:, used].mean(axis=1)
    within = noise[:, used].sum(axis=1) / len(used) ** 2
    new, others = float(values[0]), values[1:]
    degrees = len(others) - 1
    error = standard_error(others, within)
    worsening = worsening_of(new - float(others.mean()), worse)
    if abs(worsening) <= DUST * (abs(new) + float(np.abs(others).max())):
        worsening = 0.0  # the rounding error of equal runs
    t = worsening / error if error > 0 else (np.inf if worsening > 0 else 0.0)
    usual = float(within[1:].mean())
    least = min(1.0, np.sqrt(usual) / most) if degrees and others.std(ddof=1) <= most else 0.0
    p = floored_tail(t, degrees, least) if degrees else 1 - NormalDist().cdf(t)
    p = min(1.0, 2 * p) if worse == "either" else p
    return RunContrast(
        name, int(used[0]), new, float(others.mean()), error, degrees, float(p), round(float(least), 4)
    )


def standard_error(others: np.ndarray, within: np.ndarray) -> float:
    """Return the standard error of the difference of one more run, as `contrasts` describes it.

    Parameters
    ----------
    others : ndarray of float, shape (k,)
        The baselines.
    within : ndarray of float, shape (k + 1,)
        Variances by the noise within the runs; the first one is that of the new run.
    """
    count, usual = len(others), float(within[1:].mean())
    if count == 1:
        return float(np.sqrt(within.sum()))
    between = max(float(others.var(ddof=1)), usual)
    return float(np.sqrt(between * (1 + 1 / count) + max(0.0, float(within[0]) - usual)))


def worsening_of(difference: float, worse: str) -> float:
    """Return by how much a difference is for the worse; negative if it is for the better."""
    return abs(difference) if worse == "either" else -difference if worse == "lower" else difference


def detectable(contrast: RunContrast, worse: str, tests: int) -> float:
    """Return the worsening that is found with a chance of 80 % among this many tests.

    A worsening of δ is found if t exceeds the quantile of the test. Since δ is chosen by the estimated error
    itself, the chance follows Student's t and not the noncentral t: δ = (t₁₋ₐ + t₀.₈₇) · error.
    """
    chance = ALPHA / tests / (2 if worse == "either" else 1)
    if contrast.degrees:
        size = quantile(1 - chance, contrast.degrees, contrast.least)
        size += quantile(_PLANNED, contrast.degrees, contrast.least)
    else:
        size = NormalDist().inv_cdf(1 - chance) + NormalDist().inv_cdf(_PLANNED)
    return size * contrast.error


def enough_baselines(contrast: RunContrast, size: float, worse: str, tests: int) -> int | None:
    """Return with how many baselines of the same spread a worsening would be found with a chance of 80 %.

    Parameters
    ----------
    contrast : RunContrast
        With at least two baselines.
    size : float
    worse : {"lower", "higher", "either"}
    tests : int

    Returns
    -------
    int or None
        None if `MAX_BASELINES` are not enough.
    """
    spread = contrast.error / (1 + 1 / (contrast.degrees + 1)) ** 0.5
    for count in range(contrast.degrees + 2, MAX_BASELINES + 1):
        more = replace(contrast, error=spread * (1 + 1 / count) ** 0.5, degrees=count - 1)
        if detectable(more, worse, tests) <= size:
            return count
    return None


def holm(chances: list[float]) -> list[float]:
    """Return the chances corrected for their number (Holm 1979, Scandinavian Journal of Statistics 6)."""
    order, corrected, largest = np.argsort(chances), [0.0] * len(chances), 0.0
    for rank, at in enumerate(order.tolist()):
        largest = max(largest, min(1.0, (len(chances) - rank) * chances[at]))
        corrected[at] = largest
    return corrected


def first_window(by_window: np.ndarray, noise: np.ndarray, worse: str) -> int | None:
    """Return the first window from which on the new run lies outside of the spread; None without one.

    It is outside of the 95 % limit of its window, and the windows after it are on average. The spread of a
    window is at least that of all windows pooled.
    """
    known = np.isfinite(by_window).all(axis=0)
    degrees = by_window.shape[0] - 2
    if not known.any() or degrees < 1:
        return None
    difference = by_window[0] - by_window[1:].mean(axis=0)
    errors = [standard_error(by_window[1:, at], noise[:, at]) for at in range(len(known))]
    error = np.maximum(errors, np.sqrt(np.nanmean(np.square(errors))))
    side = np.sign(np.nanmean(difference[known][-max(1, round(END * known.sum())) :]))
    sign = side if worse == "either" else -1.0 if worse == "lower" else 1.0
    with np.errstate(all="ignore"):
        t = np.where(known, sign * difference / error, np.nan)
    limit = quantile(0.975 if worse == "either" else 0.95, degrees)
    for at in np.flatnonzero(t > limit).tolist():
        if float(np.nanmean(t[at:])) > limit:
            return at
    beyond = np.flatnonzero(t > limit)
    return int(beyond[0]) if len(beyond) else None
