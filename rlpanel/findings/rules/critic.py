"""Rules on the critic: explained variance below 0, and a growing value error."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import number, since, span
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.change_tests import series_rise
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.signal import long_stretches

#: A critic starts untrained: this many first steps do not count. A share of the run would grow with it.
_WARM_UP = 20
#: Explained variance below which the critic is worse than a constant, beyond noise.
_WORSE = -0.1
#: Steps in a row.
_STEPS = 3
#: Growth of the value error relative to the variance of the returns.
_GROWTH = 2.5


@rule("Critic worse than a constant")
def critic_variance(context: RuleContext) -> Iterator[Finding]:
    """The critic's explained variance is below -0.1, three steps in a row.

    The first 20 steps do not count, unless it was above 0 before.
    """
    explained = context.series("var_explained")
    if explained is None:
        return
    with np.errstate(all="ignore"):
        bad = long_stretches(explained < _WORSE, min(_STEPS, len(explained)))
        learned = np.fmax.accumulate(np.nan_to_num(_running_median(explained), nan=-1.0)) > 0.1
    warm_up = np.arange(len(explained)) < _WARM_UP
    mask = long_stretches(bad & (learned | ~warm_up), min(_STEPS, len(explained)))
    if mask.sum() < 0.5 * (len(mask) - int(mask.argmax())) and not mask[-_STEPS:].all():
        return
    if not mask.any():
        return
    before = explained[: int(mask.argmax())]
    level = f" ({number(float(np.nanmean(before[-8:])))} before)" if np.isfinite(before[-8:]).any() else ""
    worst = int(np.nanargmin(np.where(mask, explained, np.nan)))
    yield Finding(
        severity=severity_of(context, mask, harmful=True),
        sentence=(
            f"The critic predicts returns worse than a constant in {span(context.steps, mask)}: its "
            f"explained variance is {number(float(np.nanmean(explained[mask])))} on average{level}."
        ),
        evidence=(
            f"Lowest: {number(float(explained[worst]))} in step {context.steps[worst]:,}; 1 is perfect.",
        ),
        advice="Compare values and returns of single tokens; check the value loss, its learning rate and the "
        "scale of rewards.",
        steps=tuple(context.steps[mask].tolist()),
        ongoing=bool(mask[-1]),
        worst=int(context.steps[worst]),
        column="var_explained",
        sort="-value_mean",
        color="value",
        tab="tokens",
    )


def _running_median(values: np.ndarray) -> np.ndarray:
    """Return the median of the three values that end at each step; NaN for the first two, shape (S,)."""
    if len(values) < _STEPS:
        return np.full(len(values), np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(values, _STEPS)
    return np.append(np.full(_STEPS - 1, np.nan), np.median(windows, axis=1))


@rule("Value error grows", "change_z")
def critic_error(context: RuleContext) -> Iterator[Finding]:
    """The value error grows by a factor of 2.5, also relative to the variance of the returns.

    It is tested by two windows of steps against the noise between steps.
    """
    error, variance = context.series("value_error"), context.series("return_variance")
    if error is None or variance is None or not (np.nan_to_num(error) > 0).any():
        return
    with np.errstate(all="ignore"):
        relative = np.log(np.where(error > 0, error, np.nan) / np.where(variance > 0, variance, np.nan))
    change = series_rise(context, relative, np.log(_GROWTH))
    absolute = series_rise(context, np.log(np.where(error > 0, error, np.nan)), np.log(_GROWTH))
    if change is None or absolute is None:
        return
    late = error[change.mask]
    early = error[: change.onset]
    old, new = float(np.nanmedian(early[-8:])), float(np.nanmedian(late[len(late) // 2 :]))
    if not new > _GROWTH * old:
        return
    yield Finding(
        severity=severity_of(context, change.mask, harmful=True),
        sentence=(
            f"{since(context.steps, change)}, the value error is {number(new)}; it was {number(old)} before."
        ),
        evidence=(
            f"Highest: {number(float(np.nanmax(late)))} in step {context.steps[change.worst]:,}. The "
            "variance of the returns does not explain it.",
        ),
        advice="Check the value loss, its clipping and its learning rate, and the scale of rewards.",
        steps=tuple(context.steps[change.mask].tolist()),
        ongoing=change.ongoing,
        worst=int(context.steps[change.worst]),
        column="value_error",
        color="value",
        tab="tokens",
    )
