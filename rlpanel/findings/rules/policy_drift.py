"""Whether the policy drifts, collapses, or is not the one that was sampled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.finding import Finding, span
from rlpanel.findings.engine.rule import rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.findings.engine.step_series import deviations, lasting

#: How many steps a start, or a running median, needs.
_LEAST = 5
#: Nats per token below which a run is still where it began.
_SMALL_KL = 0.3


@rule("KL leaps", "kl_factor")
def kl_leap(look: RuleContext) -> Iterator[Finding]:
    """A step's KL k3 is more than this many times the median of the 15 steps before it.

    It must also be above 0.3 nats per token and more than twice any before: a run begins at 0 and climbs.
    """
    kl = look.series("kl_k3_mean")
    if kl is None:
        return
    usual = deviations(kl, _LEAST)[1]
    with np.errstate(invalid="ignore"):
        highest = np.fmax.accumulate(np.concatenate([[0.0], np.nan_to_num(kl[:-1])]))
        mask = (kl > look.thresholds.kl_factor * usual) & (kl > 2 * highest) & (kl > _SMALL_KL)
    if mask.any():
        at = int(np.nanargmax(np.where(mask, kl / usual, np.nan)))
        yield Finding(
            "kl_leap",
            "alarm" if lasting(mask, 3).any() else "warning",
            f"KL leaps in {span(look.steps, mask)}.",
            (
                f"Step {look.steps[at]:,}: KL k3 {kl[at]:.3g} nats per token, {kl[at] / usual[at]:.0f} times "
                f"the median of the steps before ({usual[at]:.3g}).",
                "One token that the reference finds impossible can make a step's mean: sort by KL.",
            ),
            tuple(look.steps[mask].tolist()),
            "kl_k3_mean",
        )


@rule("log-ratio below 0")
def negative_kl(look: RuleContext) -> Iterator[Finding]:
    """The step's mean log-ratio is below 0, three steps in a row, by more than its standard error."""
    ratio = look.series("log_ratio_mean")
    if ratio is None:
        return
    count = look.snapshot.steps.samples[: len(look.steps)]
    error = look.snapshot.steps.std("log_ratio_mean")[: len(look.steps)] / np.sqrt(count)
    with np.errstate(invalid="ignore"):
        mask = lasting(ratio < -2 * error, 3)
    if mask.any():
        yield Finding(
            "negative_kl",
            "warning",
            f"The mean log-ratio is below 0 in {span(look.steps, mask)}; the expectation of a KL is not.",
            (
                f"Lowest: {np.nanmin(ratio[mask]):.3g} nats per token.",
                "The logged logprobs are not those of the policy that sampled, or tokens are sampled with "
                "another temperature or cut-off.",
            ),
            tuple(look.steps[mask].tolist()),
            "log_ratio_mean",
            "log_ratio_mean < 0",
        )


@rule("the policy has grown sure", "surprisal_share")
def collapse(look: RuleContext) -> Iterator[Finding]:
    """Surprisal per token falls below this share of the mean of the first five steps."""
    surprisal = look.series("surprisal_mean")
    if surprisal is None or len(surprisal) <= _LEAST or not np.isfinite(surprisal[:_LEAST]).any():
        return
    start = float(np.nanmean(surprisal[:_LEAST]))
    with np.errstate(invalid="ignore"):
        mask = lasting(surprisal < look.thresholds.surprisal_share * start, 2)
    if mask.any():
        yield Finding(
            "collapse",
            "alarm",
            f"Surprisal has fallen below {look.thresholds.surprisal_share:.0%} of its start in "
            f"{span(look.steps, mask)}: the policy hardly varies.",
            (f"First five steps: {start:.3g} nats per token; lowest now: {np.nanmin(surprisal[mask]):.3g}.",),
            tuple(look.steps[mask].tolist()),
            "surprisal_mean",
        )


@rule("importance ratio far from 1", "ratio_low", "ratio_high")
def ratio(look: RuleContext) -> Iterator[Finding]:
    """The mean over tokens of new over old probability is outside this range."""
    found = look.series("ratio_pooled")
    if found is None:
        return
    with np.errstate(invalid="ignore"):
        mask = (found < look.thresholds.ratio_low) | (found > look.thresholds.ratio_high)
    if mask.any():
        yield Finding(
            "ratio",
            "alarm",
            f"The importance ratio is far from 1 in {span(look.steps, mask)}.",
            (f"Mean over tokens: {found[mask].min():.3g} to {found[mask].max():.3g}; its expectation is 1.",),
            tuple(look.steps[mask].tolist()),
            "ratio_pooled",
        )


@rule("trainer and engine disagree", "engine_mismatch")
def engine(look: RuleContext) -> Iterator[Finding]:
    """The mean over tokens of exp|trainer's logprob − engine's| is above this."""
    found = look.series("engine_mismatch")
    if found is None:
        return
    with np.errstate(invalid="ignore"):
        mask = found > look.thresholds.engine_mismatch
    if mask.any():
        yield Finding(
            "engine",
            "alarm" if lasting(mask, 3).any() else "warning",
            f"Trainer and sampling engine disagree about the same tokens in {span(look.steps, mask)}.",
            (
                f"Mean of exp|difference|: up to {found[mask].max():.3g}; 1 is agreement.",
                "Precision, kernels or stale weights differ; what was sampled is not what is trained.",
            ),
            tuple(look.steps[mask].tolist()),
            "engine_mismatch",
        )
