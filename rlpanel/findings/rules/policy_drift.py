"""Rules on the policy: KL spikes, entropy collapse, importance ratios, mismatch with the sampling engine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.finding import Finding, span
from rlpanel.findings.engine.rule import rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.findings.engine.step_series import deviations, long_stretches

#: Number of steps of the initial level, and minimum number of steps of a running median.
_LEAST = 5
#: KL in nats per token that is too small to report: the policy is still close to the reference.
_SMALL_KL = 0.3


@rule("KL spike", "kl_factor")
def kl_leap(context: RuleContext) -> Iterator[Finding]:
    """A step's KL k3 is more than this many times the median of the 15 steps before it.

    It must also exceed 0.3 nats per token and twice every earlier step, because KL starts at 0 and climbs.
    """
    kl = context.series("kl_k3_mean")
    if kl is None:
        return
    median = deviations(kl, _LEAST)[1]
    with np.errstate(invalid="ignore"):
        highest = np.fmax.accumulate(np.concatenate([[0.0], np.nan_to_num(kl[:-1])]))
        mask = (kl > context.thresholds.kl_factor * median) & (kl > 2 * highest) & (kl > _SMALL_KL)
    if mask.any():
        worst = int(np.nanargmax(np.where(mask, kl / median, np.nan)))
        yield Finding(
            severity="alarm" if long_stretches(mask, 3).any() else "warning",
            sentence=(
                f"KL spike: KL k3 is more than {context.thresholds.kl_factor:g} times its running median in "
                f"{span(context.steps, mask)}."
            ),
            evidence=(
                f"Step {context.steps[worst]:,}: KL k3 {kl[worst]:.3g} nats per token, "
                f"{kl[worst] / median[worst]:.0f} times the median of the steps before "
                f"({median[worst]:.3g}).",
                "A single token that the policy held very unlikely and the reference did not can dominate "
                "the mean: sort by KL.",
            ),
            steps=tuple(context.steps[mask].tolist()),
            column="kl_k3_mean",
        )


@rule("Negative KL estimate")
def negative_kl(context: RuleContext) -> Iterator[Finding]:
    """The step's mean log-ratio is below 0 by more than two standard errors, for three steps in a row."""
    ratio = context.series("log_ratio_mean")
    if ratio is None:
        return
    count = context.snapshot.steps.samples[: len(context.steps)]
    error = context.snapshot.steps.std("log_ratio_mean")[: len(context.steps)] / np.sqrt(count)
    with np.errstate(invalid="ignore"):
        mask = long_stretches(ratio < -2 * error, 3)
    if mask.any():
        yield Finding(
            severity="warning",
            sentence=(
                "Negative KL estimate: the mean log-ratio to the reference is below 0 in "
                f"{span(context.steps, mask)}; a KL divergence cannot be negative."
            ),
            evidence=(
                f"Lowest: {np.nanmin(ratio[mask]):.3g} nats per token.",
                "Either the logged logprobs are not those of the policy that sampled, or sampling used "
                "another temperature or truncation (top-p, top-k).",
            ),
            steps=tuple(context.steps[mask].tolist()),
            column="log_ratio_mean",
            where="log_ratio_mean < 0",
        )


@rule("Low entropy", "surprisal_share")
def collapse(context: RuleContext) -> Iterator[Finding]:
    """Surprisal per token is below this share of its mean over the first five steps, two steps in a row."""
    surprisal = context.series("surprisal_mean")
    if surprisal is None or len(surprisal) <= _LEAST or not np.isfinite(surprisal[:_LEAST]).any():
        return
    start = float(np.nanmean(surprisal[:_LEAST]))
    with np.errstate(invalid="ignore"):
        mask = long_stretches(surprisal < context.thresholds.surprisal_share * start, 2)
    if mask.any():
        yield Finding(
            severity="alarm",
            sentence=(
                f"Low entropy: surprisal per token is below {context.thresholds.surprisal_share:.0%} of its "
                f"initial level in {span(context.steps, mask)}."
            ),
            evidence=(
                f"Mean of the first five steps: {start:.3g} nats per token; "
                f"lowest later step: {np.nanmin(surprisal[mask]):.3g}.",
            ),
            steps=tuple(context.steps[mask].tolist()),
            column="surprisal_mean",
        )


@rule("Importance ratio far from 1", "ratio_low", "ratio_high")
def ratio(context: RuleContext) -> Iterator[Finding]:
    """The mean over tokens of new over old probability is outside this range."""
    ratios = context.series("ratio_pooled")
    if ratios is None:
        return
    low, high = context.thresholds.ratio_low, context.thresholds.ratio_high
    with np.errstate(invalid="ignore"):
        mask = (ratios < low) | (ratios > high)
    if mask.any():
        yield Finding(
            severity="alarm",
            sentence=(
                f"Importance ratio far from 1: its mean over tokens is outside {low:g} to {high:g} in "
                f"{span(context.steps, mask)}."
            ),
            evidence=(
                f"Mean over tokens: {ratios[mask].min():.3g} to {ratios[mask].max():.3g}; "
                "its expected value is 1.",
            ),
            steps=tuple(context.steps[mask].tolist()),
            column="ratio_pooled",
        )


@rule("Engine mismatch", "engine_mismatch")
def engine(context: RuleContext) -> Iterator[Finding]:
    """The mean over tokens of exp|trainer logprob − engine logprob| is above this."""
    mismatch = context.series("engine_mismatch")
    if mismatch is None:
        return
    with np.errstate(invalid="ignore"):
        mask = mismatch > context.thresholds.engine_mismatch
    if mask.any():
        yield Finding(
            severity="alarm" if long_stretches(mask, 3).any() else "warning",
            sentence=(
                "Engine mismatch: trainer and sampling engine report different logprobs for the same "
                f"tokens in {span(context.steps, mask)}."
            ),
            evidence=(
                f"Mean over tokens of exp|difference|: up to {mismatch[mask].max():.3g}; 1 means equal.",
                "Possible causes: different precision or kernels, or stale weights in the engine.",
            ),
            steps=tuple(context.steps[mask].tolist()),
            column="engine_mismatch",
        )
