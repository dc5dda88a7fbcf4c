"""Rules on logprobs that change over the steps: engine against trainer, KL that falls, ratios, and lag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlpanel.findings.engine.change import Change, at_place, number, percent, since, standard_errors
from rlpanel.findings.engine.change_finding import finding_of, reward_clause, severity_of
from rlpanel.findings.engine.change_tests import series_rise, sustained
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.signal import RowBatch, column_signal, signal
from rlpanel.findings.engine.two_windows import schedules

#: Signed gap in nats per token, share of far tokens, and factor of the absolute gap that are changes.
_SIGNED, _FAR, _GROWN = 0.006, 0.005, 2.0
#: Gaps below this are rounding of the log.
_NOISE = 1e-4
#: Factor by which KL falls, and the share of its level that is left.
_FALL, _LEFT = 3.0, 0.25
#: KL that is 0 but for rounding, and steps in a row with it.
_ZERO, _ZERO_STEPS = 1e-8, 8
#: Factor of the variance of the update's ratio, and the least variance, that matter.
_VARIANCE, _MIN_VARIANCE = 8.0, 0.02
#: Rise of the lag in versions, and its factor.
_LAG, _LAG_FACTOR = 2.0, 2.0


@signal("engine_gap_excess", "engine_log_ratio_mean", kind="positive")
def _excess(rows: RowBatch) -> np.ndarray:
    """Return the mean of exp|log ρ| − 1 over the tokens of each sample."""
    with np.errstate(all="ignore"):
        gap = rows.number("_engine_gap_sum") / rows.number("engine_log_ratio_count") - 1
    return np.clip(gap, _NOISE, 1.0)


@signal("engine_far_share", "engine_log_ratio_mean", kind="level")
def _far(rows: RowBatch) -> np.ndarray:
    """Return the share of each sample's tokens whose probabilities differ by more than a factor of 2."""
    with np.errstate(all="ignore"):
        return rows.number("_engine_far_sum") / rows.number("engine_log_ratio_count")


_ENGINE = "Compare precision, kernels, sampling parameters and weight synchronisation of engine and trainer."


@rule("Engine and trainer part", "change_z")
def engine_change(context: RuleContext) -> Iterator[Finding]:
    """The gap between the logprobs of trainer and engine changes, though it may still be below the limit.

    The signed mean moves by 0.006 nats per token; or the share of tokens that differ by a factor of 2 rises
    by 0.5 points; or the mean of exp|difference| − 1 doubles. Each is tested by two windows of steps with
    errors clustered by group.
    """
    signed = column_signal("engine_log_ratio_mean")
    for sign in (1, -1):
        change = sustained(context, signed, _SIGNED, sign=sign)
        if change is not None and abs(change.after) > abs(change.before):
            side = "less" if sign > 0 else "more"
            yield _of_engine(
                context,
                change,
                f"the engine{at_place(change)} holds its tokens {side} likely than the trainer by "
                f"{number(abs(change.after))} nats per token ({number(change.before)} before)",
                "Rounding has a mean of 0; a mean on one side points to temperature, top-p or other weights.",
            )
            return
    change = sustained(context, _far, _FAR)
    if change is not None:
        yield _of_engine(
            context,
            change,
            f"{percent(change.after)} of the tokens{at_place(change)} have probabilities in engine and "
            f"trainer that differ by more than a factor of 2 ({percent(max(change.before, 0.0))} before)",
            "A few tokens with a large gap bias the gradient more than many with a small one.",
        )
        return
    change = sustained(context, _excess, float(np.log(_GROWN)))
    if change is not None:
        yield _of_engine(
            context,
            change,
            f"the gap between engine and trainer{at_place(change)} grows: the mean of exp|difference| − 1 "
            f"is {number(change.after)}; it was {number(change.before)} before{_doubling(context, change)}",
            "It may not be harmful yet; the limit of the rule Engine mismatch is a mean of "
            f"{context.thresholds.engine_mismatch:g}.",
        )


def _doubling(context: RuleContext, change: Change) -> str:
    """Return in how many steps a growth doubles, as the end of a sentence; empty where it is sudden."""
    if change.sudden or not change.after > change.before > 0:
        return ""
    steps = float(context.steps[change.last] - context.steps[change.onset])
    doubles = steps / np.log2(change.after / change.before)
    return f", and doubles every {number(round(doubles))} steps" if doubles >= 1 else ""


def _of_engine(context: RuleContext, change: Change, text: str, evidence: str) -> Finding:
    return finding_of(
        context,
        change,
        f"{since(context.steps, change)}, {text}.",
        harmful=False,
        column="engine_mismatch",
        evidence=[f"The difference is {standard_errors(change.z)} of the two windows.", evidence],
        advice=_ENGINE,
        sort="-engine_log_ratio_mean" if change.sign > 0 else "engine_log_ratio_mean",
        color="engine_log_ratio",
        tab="tokens",
        subject="engine",
    )


@rule("KL falls", "change_z")
def kl_falls(context: RuleContext) -> Iterator[Finding]:
    """KL k3 to the reference falls by a factor of 3 within a few steps.

    Less than a quarter of its level is left. An info if it falls about as far at equal distances from the
    first step on, as where the reference is set to the policy by a schedule.

    It is tested by two windows of steps with errors clustered by group.
    """
    kl = column_signal("kl_k3_mean", "positive")
    change = sustained(context, kl, float(np.log(_FALL)), sign=-1, base="adjacent")
    if change is None or not change.after < _LEFT * change.before:
        return
    reward = reward_clause(context, change)
    is_harmful = "fell" in reward
    every = 0 if change.place or is_harmful else _schedule_of_kl(context, change)
    planned = f"It falls about as far every {every:,} logged steps, as a schedule does."
    found = finding_of(
        context,
        change,
        f"{since(context.steps, change)}, KL k3 to the reference{at_place(change)} fell to "
        f"{number(change.after)} nats per token; it was {number(change.before)} before{reward}.",
        harmful=is_harmful,
        column="kl_k3_mean",
        evidence=[
            f"A factor of {number(change.before / change.after)}; {standard_errors(change.z)}.",
            *([planned] if every else []),
        ],
        advice="With a fall of the reward the policy may have older weights again, as from a wrong "
        "checkpoint. Without one the reference may have been replaced by the policy.",
        color="kl_k3",
        tab="tokens",
        subject="kl_k3_mean",
    )
    yield replace(found, severity="info") if every else found


def _schedule_of_kl(context: RuleContext, change: Change) -> int:
    """Return after how many steps KL falls as far each time; 0 if it does not."""
    kl = context.series("kl_k3_mean")
    if kl is None:
        return 0
    with np.errstate(all="ignore"):
        found = schedules(np.where(kl > 0, np.log(kl), np.nan), change.onset)
    return next(iter(found), 0)


@rule("KL is 0")
def kl_zero(context: RuleContext) -> Iterator[Finding]:
    """KL k3 to the reference is 0 in the newest eight steps or more, the first step aside."""
    kl = context.series("kl_k3_mean")
    if kl is None:
        return
    known = np.flatnonzero(np.isfinite(kl))
    above = np.flatnonzero(np.abs(kl[known]) > _ZERO)
    start = int(above[-1]) + 1 if len(above) else 0
    if len(known) - start < _ZERO_STEPS + (not start):
        return
    mask = np.arange(len(kl)) >= known[start]
    steps = context.steps[mask]
    yield Finding(
        severity=severity_of(context, mask, harmful=False),
        sentence=f"From step {steps[0]:,} on, KL to the reference is 0: the reference equals the policy.",
        evidence=(
            f"KL k3 is below {number(_ZERO)} nats per token in {int(mask.sum()):,} steps; a policy that "
            "learns moves away from its reference.",
        ),
        advice="The reference's logprobs may be those of the policy, or the policy does not change: compare "
        "the weights, and look at the learning rate and the gradient norm.",
        steps=tuple(steps.tolist()),
        ongoing=True,
        column="kl_k3_mean",
        color="kl_k3",
        tab="tokens",
        subject="kl_k3_mean",
    )


@rule("Ratios spread", "change_z")
def ratio_spread(context: RuleContext) -> Iterator[Finding]:
    """The variance of the update's importance ratio over tokens grows by a factor of 8 to at least 0.02.

    It is tested by two windows of steps against the noise between steps.
    """
    variance = context.series("ratio_variance")
    if variance is None:
        return
    with np.errstate(all="ignore"):
        level = np.log(np.maximum(variance, 1e-9))
    change = series_rise(context, level, float(np.log(_VARIANCE)))
    if change is None:
        return
    before, after = float(np.exp(change.before)), float(np.exp(change.after))
    if after < _MIN_VARIANCE:
        return
    yield Finding(
        severity=severity_of(context, change.mask, harmful=False),
        sentence=f"{since(context.steps, change)}, the importance ratios of tokens have a variance of "
        f"{number(after)} ({number(before)} before): few tokens dominate the update.",
        evidence=(
            f"An effective sample size of about {percent(1 / (1 + after))} of the tokens; it was "
            f"{percent(1 / (1 + before))}.",
        ),
        advice="Look at the tokens with the largest ratio, clip or truncate it, and lower the learning rate "
        "or the lag.",
        steps=tuple(context.steps[change.mask].tolist()),
        ongoing=change.ongoing,
        column="ratio_variance",
        sort="-ratio_mean",
        color="ratio",
        tab="tokens",
        subject="ratio_variance",
    )


@rule("Samples become older", "change_z")
def lag_grows(context: RuleContext) -> Iterator[Finding]:
    """The mean lag between the sampling and the trained policy rises by two versions and a factor of 2.

    It is tested by two windows of steps with errors clustered by group.
    """
    lag = column_signal("lag")
    change = sustained(context, lag, _LAG)
    if change is None or change.after < _LAG_FACTOR * max(change.before, 0.0):
        return
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, samples{at_place(change)} come from a policy that is "
        f"{number(change.after)} versions old on average ({number(change.before)} before).",
        harmful=False,
        column="lag",
        evidence=[f"The difference is {standard_errors(change.z)} of the two windows."],
        advice="Check the queue between sampling and training, and a slow engine; state a bound as max_lag "
        "in run.json.",
        sort="-lag",
        subject="lag",
    )
