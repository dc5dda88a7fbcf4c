"""Rules on the policy: KL spikes, negative KL estimates, collapse, importance ratios."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.analysis.change_sentences import sentences
from rlpanel.analysis.step_change import explain_step
from rlpanel.findings.engine.change import Change, at_place, number, percent, since, span, standard_errors
from rlpanel.findings.engine.change_finding import finding_of, reward_clause, severity_of
from rlpanel.findings.engine.change_tests import PlaceTable, beyond, sustained
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.places import WHOLE_RUN
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.signal import Kind, column_signal, long_stretches, running_median
from rlpanel.findings.rules.responses import duplicate_signal

#: Number of earlier steps with which a step is compared to find a spike.
_MIN_EARLIER = 5
#: KL in nats per token that is too small to report: the policy is still close to the reference.
_SMALL_KL = 0.3
#: Steps in which KL stays high, from which on it is more than a spike.
_LASTING = 5
#: Rise of the share of duplicate responses that confirms a collapse.
_MORE_DUPLICATES = 0.1
#: Numbers that fall when a policy collapses, the best one first.
_SURPRISALS = ("token_entropy_mean", "surprisal_mean", "engine_logprob_mean")


@rule("KL spike", "kl_factor")
def kl_spike(context: RuleContext) -> Iterator[Finding]:
    """A step's KL k3 is more than this many times the median of the 15 steps before it.

    It must also exceed 0.3 nats per token and twice every earlier step, because KL starts at 0 and climbs.
    """
    kl = context.series("kl_k3_mean")
    if kl is None:
        return
    median = running_median(kl, _MIN_EARLIER)
    with np.errstate(all="ignore"):
        highest = np.fmax.accumulate(np.concatenate([[0.0], np.nan_to_num(kl[:-1])]))
        mask = (kl > context.thresholds.kl_factor * median) & (kl > 2 * highest) & (kl > _SMALL_KL)
    if not mask.any():
        return
    worst = int(np.nanargmax(np.where(mask, kl / median, np.nan)))
    step = int(context.steps[worst])
    explained = explain_step(context.view, "kl_k3_mean", step)
    raised = _raised(kl, mask, context.thresholds.kl_factor * median[int(mask.argmax())])
    if raised.sum() >= _LASTING and not explained.of_kind("samples"):
        yield _lasting(context, kl, raised, float(median[int(mask.argmax())]))
        return
    rows = context.rows[context.row_steps == worst]
    top = rows[np.nanargmax(context.view.values("kl_k3_mean", rows))]
    yield Finding(
        severity=severity_of(context, mask, harmful=bool(long_stretches(mask, 3).any())),
        sentence=(
            f"KL k3 to the reference is {number(kl[worst])} nats per token in step {step:,}, "
            f"{kl[worst] / median[worst]:.0f} times the median of the steps before ({number(median[worst])})."
        ),
        evidence=(
            *sentences(explained),
            "A token that the policy held very unlikely and the reference did not can dominate the mean.",
            *([f"Also in {span(context.steps, mask)}."] if mask.sum() > 1 else []),
        ),
        advice="Look at the tokens with the largest KL; a few of them can be masked or clipped.",
        steps=tuple(context.steps[mask].tolist()),
        ongoing=bool(mask[-1]),
        worst=step,
        column="kl_k3_mean",
        sort="-kl_k3_mean",
        color="kl_k3",
        tab="tokens",
        uid=context.snapshot.uid(int(top)),
    )


def _raised(kl: np.ndarray, mask: np.ndarray, level: float) -> np.ndarray:
    """Return the mask of the steps from a spike on with KL above a level; single ones may be below."""
    first = int(mask.argmax())
    low = np.flatnonzero(~(kl[first:] > level))
    pairs = low[1:][np.diff(low) == 1] - 1
    raised = np.zeros(len(kl), bool)
    raised[first : first + int(pairs[0]) if len(pairs) else len(kl)] = True
    return raised


def _lasting(context: RuleContext, kl: np.ndarray, mask: np.ndarray, before: float) -> Finding:
    """Return the finding of a KL that jumps in many samples and stays: no spike of few tokens."""
    worst = int(np.nanargmax(np.where(mask, kl, np.nan)))
    last = int(np.flatnonzero(mask)[-1])
    first = context.steps[int(mask.argmax())]
    when = f"From step {first:,} on" if mask[-1] else f"In steps {first:,}–{context.steps[last]:,}"
    change = Change(
        column_signal("kl_k3_mean"), WHOLE_RUN, mask, bool(mask[-1]), before, float(np.nanmean(kl[mask])), kl
    )
    return finding_of(
        context,
        change,
        f"{when}, KL k3 to the reference is {number(change.after)} nats per token on average, in many "
        f"samples; the median of the steps before was {number(before)}{reward_clause(context, change)}.",
        harmful=True,
        column="kl_k3_mean",
        evidence=[f"Highest in step {context.steps[worst]:,}: {number(float(kl[worst]))}."],
        advice="The policy moved at once, not a few tokens: check the learning rate, the gradient norm and "
        f"the batch of step {first:,}.",
        sort="-kl_k3_mean",
        color="kl_k3",
        tab="tokens",
        subject="lasting",
    )


@rule("Negative KL estimate")
def negative_kl(context: RuleContext) -> Iterator[Finding]:
    """The mean log-ratio to the reference is below 0 for three steps in a row, by four standard errors.

    Errors are clustered by group, and count only samples that have both logprobs.
    """
    change = beyond(context, column_signal("log_ratio_mean"), 0.0, sign=-1)
    if change is None or change.z < 4:
        return
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, the mean log-ratio to the reference{at_place(change)} is "
        f"{number(change.after)} nats per token; a KL divergence cannot be negative.",
        harmful=False,
        column="log_ratio_mean",
        evidence=[f"It is {standard_errors(change.z)} below 0, clustered by group."],
        advice="Either the logged logprobs are not those of the policy that sampled, or sampling used "
        "another temperature or truncation (top-p, top-k).",
        where="log_ratio_mean < 0",
        sort="log_ratio_mean",
        color="log_ratio",
        tab="tokens",
    )


@rule("Entropy collapse", "surprisal_share", "change_z")
def collapse(context: RuleContext) -> Iterator[Finding]:
    """Entropy or surprisal falls by half while more responses are duplicates, or it falls below this share.

    The fall is tested by two windows of steps with errors clustered by group, against the highest level held
    earlier. The share of duplicates must rise by 10 points.
    """
    column = next((name for name in _SURPRISALS if context.snapshot.has_number(name)), "")
    if not column:
        return
    sign = 1 if column == "engine_logprob_mean" else -1
    kind: Kind = "level" if column == "engine_logprob_mean" else "positive"
    level = context.series(column)
    least = (
        np.log(2) if kind == "positive" else 0.5 * abs(float(np.nanmedian(level))) if level is not None else 0
    )
    change = sustained(context, column_signal(column, kind), least, sign=sign)
    if change is None or not np.isfinite(change.before):
        return
    old, new = (abs(part) for part in (change.before, change.after))
    repeated = _duplicates(context, change)
    alike = repeated is not None and repeated[1] - repeated[0] > _MORE_DUPLICATES
    if not alike and new > context.thresholds.surprisal_share * old:
        return
    noun = "entropy" if column == "token_entropy_mean" else "surprisal"
    evidence = [f"The difference is {standard_errors(change.z)} of the two windows."]
    if repeated is not None:
        evidence.append(f"Duplicate responses: {percent(repeated[0])} before, then {percent(repeated[1])}.")
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, the {noun} per token{at_place(change)} is {number(new)} nats; it "
        f"was {number(old)} before{', and more responses repeat each other' if alike else ''}"
        f"{reward_clause(context, change)}.",
        harmful=alike or "fell" in reward_clause(context, change),
        column=column,
        evidence=evidence,
        advice="Raise the entropy bonus, the sampling temperature or the upper clip range; check for "
        "repeated texts that score high.",
        sort=column if sign < 0 else f"-{column}",
        color="token_entropy" if column == "token_entropy_mean" else "surprisal",
        tab="group",
    )


def _duplicates(context: RuleContext, change: Change) -> tuple[float, float] | None:
    """Return the share of duplicate responses before the onset and in the newest affected steps."""
    if not context.available(duplicate_signal) or not change.onset:
        return None
    table = PlaceTable.of(context, duplicate_signal)
    share = table.mean[table.places.index(change.place)]
    late = np.flatnonzero(change.mask)[-5:]
    early = share[max(0, change.onset - 8) : change.onset]
    if not (np.isfinite(early).any() and np.isfinite(share[late]).any()):
        return None
    return float(np.nanmean(early)), float(np.nanmean(share[late]))


@rule("Importance ratio far from 1", "ratio_low", "ratio_high")
def ratio(context: RuleContext) -> Iterator[Finding]:
    """The mean over tokens of new over old probability is outside this range, by three standard errors."""
    low, high = context.thresholds.ratio_low, context.thresholds.ratio_high
    signal = column_signal("ratio_mean")
    change = beyond(context, signal, high, least=1) or beyond(context, signal, low, least=1, sign=-1)
    if change is None:
        return
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, the importance ratio{at_place(change)} is {number(change.after)} "
        "on average; its expected value is 1.",
        harmful=True,
        column="ratio_pooled",
        evidence=[
            f"Outside {low:g} to {high:g} in {span(context.steps, change.mask)}, by "
            f"{standard_errors(change.z)}."
        ],
        advice="Check which weights computed the old and the new logprobs, and the learning rate.",
        sort="-ratio_mean" if change.sign > 0 else "ratio_mean",
        color="ratio",
        tab="tokens",
    )
