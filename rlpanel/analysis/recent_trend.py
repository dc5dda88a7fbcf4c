"""Tests whether the last steps of a curve improved it: their mean against that of as many steps before.

The error is the larger one of two. One is clustered by prompt: samples of a prompt are alike, in one group
and over the steps. The other is that of the steps around the trend of their window, where what neighbouring
steps have in common counts (correlation of order 1, up to 0.8). So
neither few prompts nor a curve that wanders looks like progress.

References
----------
Liang, Zeger 1986, Biometrika 73 (clusters). Bayley, Hammersley 1946, JRSS Supplement 8 (effective number of
correlated values). Marriott, Pope 1954, Biometrika 41 (bias of a correlation of neighbours).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlpanel.analysis.difference import normal_of_t, threshold
from rlpanel.metrics.engine.column_info import ALIASES, describe
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot_cache import cached_on

#: Usual number of last steps, and the fewest of a window.
LAST, MIN_STEPS = 20, 4
#: Most samples by which prompts are clustered; of more, every second (third, …) prompt counts.
_MAX_SAMPLES = 100_000
#: Largest correlation of neighbouring steps that is believed.
_MAX_CORRELATION = 0.8

#: ``rose`` and ``fell`` are for curves that are neither good nor bad when they rise.
TrendVerdict = Literal["improved", "worsened", "rose", "fell", "unclear", "too few steps"]


@dataclass(frozen=True)
class RecentTrend:
    """The last steps of a curve against as many before.

    Attributes
    ----------
    curve : str
    verdict : str
        ``unclear`` if the difference is within its error.
    steps, since : tuple of int
        First and last step of the two windows; the same step twice in one of a single step.
    value, before : float
        Means of the windows; NaN with too few steps.
    error : float
        Standard error of their difference.
    z : float
        Difference in standard errors, as a normal deviate.
    least_z : float
        Size of z from which the verdict is not ``unclear``.
    prompts : int
        Clusters of samples; 0 if the curve has no number per sample.
    by_steps : float
        The error that follows from the steps alone.
    by_prompts : float
        The error that follows from the prompts; NaN without them.
    """

    curve: str
    verdict: TrendVerdict
    steps: tuple[int, int] = (0, 0)
    since: tuple[int, int] = (0, 0)
    value: float = float("nan")
    before: float = float("nan")
    error: float = float("nan")
    z: float = float("nan")
    least_z: float = float("nan")
    prompts: int = 0
    by_steps: float = float("nan")
    by_prompts: float = float("nan")

    @property
    def change(self) -> float:
        """Difference of the means."""
        return self.value - self.before


def recent_trend(
    view: RunView, curve: str, last: int = LAST, *, until: int | None = None, tests: int = 1
) -> RecentTrend:
    """Return whether the last steps of a curve improved it.

    Parameters
    ----------
    view : RunView
    curve : str
        A number column or a step metric.
    last : int
        Number of last steps. In a run with fewer than twice as many, its two halves are compared.
    until : int, optional
        The last step that counts; by default that of the run.
    tests : int
        Number of curves that are tested together: the least z is corrected for it (Bonferroni).
    """
    all_steps = view.snapshot.steps.values
    values = np.asarray(view.step_values(curve), float)
    known = np.isfinite(values) & (all_steps <= (all_steps[-1] if until is None else until))[: len(values)]
    steps, values = all_steps[known], values[known]
    size = min(last, len(values) // 2)
    if size < MIN_STEPS:
        return RecentTrend(curve, "too few steps")
    now, before = (steps[-size:], values[-size:]), (steps[-2 * size : -size], values[-2 * size : -size])
    difference = float(now[1].mean() - before[1].mean())
    by_steps, degrees = _error_of_steps(before[1], now[1])
    by_prompts, prompts = _error_of_prompts(view, curve, before, now)
    error = float(np.fmax(by_steps, by_prompts))
    if by_prompts > by_steps:
        degrees = min(degrees, float(max(prompts - 1, 1)))
    rounding = 1e-9 * max(float(np.abs(values[-2 * size :]).max()), 1e-300)
    z = normal_of_t(difference / max(error, rounding), degrees) if abs(difference) > rounding else 0.0
    least = threshold(tests)
    return RecentTrend(
        curve=curve,
        verdict=_verdict(curve, difference, abs(z) >= least),
        steps=(int(now[0][0]), int(now[0][-1])),
        since=(int(before[0][0]), int(before[0][-1])),
        value=float(now[1].mean()),
        before=float(before[1].mean()),
        error=error,
        z=z,
        least_z=least,
        prompts=prompts,
        by_steps=by_steps,
        by_prompts=by_prompts,
    )


def _verdict(curve: str, difference: float, is_clear: bool) -> TrendVerdict:
    if not is_clear:
        return "unclear"
    good = describe(curve).good
    if good in ("up", "down"):
        return "improved" if (difference > 0) == (good == "up") else "worsened"
    return "rose" if difference > 0 else "fell"


def _error_of_steps(before: np.ndarray, now: np.ndarray) -> tuple[float, float]:
    """Return the error of the difference of two windows' means, and its degrees of freedom.

    The noise is that around the line of each window, and the correlation that of neighbouring residuals.
    """
    rest = [_residuals(each) for each in (before, now)]
    degrees = float(len(before) + len(now) - 4)
    squares = sum(float((each**2).sum()) for each in rest)
    if squares <= 0:
        return 0.0, degrees
    like = sum(float((each[1:] * each[:-1]).sum()) for each in rest) / squares
    # Residuals of a line are less alike than the noise is: their correlation is too low by (2 + 4 r) / n.
    size = (len(before) + len(now)) / 2
    like = float(np.clip((like + 2 / size) / max(1 - 4 / size, 0.1), 0.0, _MAX_CORRELATION))
    variance = squares / degrees * (1 / len(before) + 1 / len(now)) * (1 + like) / (1 - like)
    return float(np.sqrt(variance)), max(degrees * (1 - like) / (1 + like), 1.0)


def _residuals(values: np.ndarray) -> np.ndarray:
    """Return values minus their line of least squares."""
    at = np.arange(len(values)) - (len(values) - 1) / 2
    centred = values - values.mean()
    return centred - at * float((at * centred).sum() / (at**2).sum())


def _error_of_prompts(
    view: RunView, curve: str, before: tuple[np.ndarray, np.ndarray], now: tuple[np.ndarray, np.ndarray]
) -> tuple[float, int]:
    """Return the error of the difference clustered by prompt, and the number of prompts; NaN without any.

    A window's mean is the mean of the means of its steps, so that a sample has the weight ``1 / (S * N)``,
    for S steps and N samples with a value in its step.
    """
    snapshot, column = view.snapshot, ALIASES.get(curve, curve)
    if not snapshot.has_number(column):
        return float("nan"), 0
    steps = np.concatenate([before[0], now[0]])
    rows, step, cluster = cached_on(
        view, "rows of a trend", steps.tobytes(), lambda: _rows(view, steps), most=2
    )
    values = view.counted(column, rows).astype(float)
    finite = np.isfinite(values)
    step, values, cluster = step[finite], values[finite], cluster[finite]
    if not len(values):
        return float("nan"), 0
    size = len(now[0])
    counts = np.bincount(step, minlength=2 * size)
    is_now = step >= size
    weight = np.where(is_now, 1.0, -1.0) / (counts[step] * size)
    middle = np.where(is_now, now[1].mean(), before[1].mean())
    sums = np.bincount(cluster, weight * (values - middle))[np.bincount(cluster) > 0]
    count = len(sums)
    if count < 2:
        return float("nan"), count
    return float(np.sqrt((sums**2).sum() * count / (count - 1))), count


def _rows(view: RunView, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of some ascending steps, the position of each row's step, and its prompt's code.

    Of many rows, those of a part of the prompts are returned.
    """
    snapshot = view.snapshot
    of = snapshot.metadata("step")
    rows = np.flatnonzero((of >= steps[0]) & (of <= steps[-1]) & snapshot.alive)
    at = np.minimum(np.searchsorted(steps, of[rows]), len(steps) - 1)
    inside = steps[at] == of[rows]
    rows, at = rows[inside], at[inside]
    keys = snapshot.prompts(rows) if snapshot.has_number("prompt_chars") else rows.astype(np.uint64)
    part = -(-len(rows) // _MAX_SAMPLES)
    if part > 1:  # whole prompts: their hashes are random
        kept = keys % np.uint64(part) == 0
        rows, at, keys = rows[kept], at[kept], keys[kept]
    return rows, at, np.unique(keys, return_inverse=True)[1]
