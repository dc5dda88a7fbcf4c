"""Rules on the quality of the log: invalid numbers, lengths of arrays, missing ranks, lines and rewards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import Change, percent, since, span, standard_errors
from rlpanel.findings.engine.change_finding import finding_of, finding_of_rows, severity_of
from rlpanel.findings.engine.change_tests import PlaceTable, sustained
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.places import GROUPS, MEAN, SAMPLES, WHOLE_RUN
from rlpanel.findings.engine.rule import PATIENT_STEPS, RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_findings
from rlpanel.findings.engine.signal import RowBatch, each_sample, mark, signal
from rlpanel.metrics.engine.ragged import UNSCORED
from rlpanel.schema import FIELD_REMARKS
from rlpanel.store.columns.step_stats import MAX
from rlpanel.store.snapshot.remarks import field_faults

#: Array → a sample column that is NaN if the array contains a NaN, and a sample column with its token count.
_SUMS = {
    "entropy": ("token_entropy_mean", "token_entropy_count"),
    "values": ("value_mean", "value_count"),
    "returns or token_rewards": ("token_return_mean", "token_return_count"),
    "advantages": ("token_advantage_mean", "token_advantage_count"),
}
#: Most kinds of invalid fields that are named.
_NAMED = 5
#: Seconds without new lines after which a run counts as ended and is no longer reported.
_LONG = 3600.0
#: Share of the fall that the rise of zeros must have, standard errors of that rise, and steps before it.
_AS_ZERO, _AS_ZERO_Z, _AS_ZERO_BEFORE = 0.5, 3.0, 20
#: Fewest steps before and after missing rewards end, and the chance that none is missing after it.
_STEPS_BEFORE, _STEPS_AFTER, _NONE_CHANCE = 12, 4, 1e-6


@signal("missing_advantage", "advantage")
def _missing_advantage(rows: RowBatch) -> np.ndarray:
    return mark(~np.isfinite(rows.number("advantage")), np.ones(len(rows), bool))


@rule("NaN or Inf in the log")
def not_finite(context: RuleContext) -> Iterator[Finding]:
    """A logged array contains NaN, infinity or null, or fewer samples have an advantage.

    The share of samples without an advantage must rise by 5 points, by a test of two windows of steps.
    """
    advice = "Check the learning rate, the loss and the precision; the policy may have diverged."
    if any(context.place_series.by_step("invalid arrays", _have_invalid_arrays)):
        yield from _unscored_tokens(context, advice)
        yield from _invalid_arrays(context, advice)
    without = ShareRule(
        signal=_missing_advantage,
        verb="have no finite advantage",
        noun="samples without an advantage",
        of="of the samples",
        rise=0.05,
        column="advantage",
        where="missing(advantage)",
        advice=advice,
    )
    yield from share_findings(context, without, "advantage")


def _have_invalid_arrays(rows: RowBatch) -> list[bool]:
    """Return for each step of some rows if an array has NaN, infinity or null."""
    bad = np.zeros(len(rows), bool)
    for column in UNSCORED.values():
        bad |= rows.number(column) > 0
    for mean, count in _SUMS.values():
        bad |= (rows.number(count) > 0) & ~np.isfinite(rows.number(mean))
    found: list[bool] = (np.bincount(rows.position, bad, minlength=len(rows.steps)) > 0).tolist()
    return found


def _invalid_arrays(context: RuleContext, advice: str) -> Iterator[Finding]:
    """Return a finding for each other array with invalid numbers."""
    seen = np.zeros(len(context.rows), bool)
    for array, (mean, count) in _SUMS.items():
        if not {mean, count} <= set(context.snapshot.steps.columns):
            continue
        bad = (context.column(count) > 0) & ~np.isfinite(context.column(mean)) & ~seen
        seen |= bad
        if bad.any():
            yield finding_of_rows(
                context,
                bad,
                f"The array {array}{{place}} has NaN, infinity or null in {{steps}}.",
                harmful=True,
                evidence=[f"{int(bad.sum()):,} of {len(bad):,} samples; means and sums leave them out."],
                advice=advice,
                column=mean,
                where=f"missing({mean})",
                tab="tokens",
                subject=array,
            )


def _unscored_tokens(context: RuleContext, advice: str) -> Iterator[Finding]:
    """Return a finding for each array of logprobs with missing or infinite numbers."""
    for array, column in UNSCORED.items():
        if column not in context.snapshot.steps.columns:
            continue
        tokens = context.column(column)
        bad = tokens > 0
        if bad.any():
            sampled = array == "rollout_logprobs"
            yield finding_of_rows(
                context,
                bad,
                f"The array {array}{{place}} has NaN, infinity or null in {{steps}}.",
                harmful=not sampled,
                evidence=[
                    f"{int(np.nansum(tokens)):,} tokens in {int(bad.sum()):,} of {len(bad):,} samples; means "
                    "leave out these tokens, and sums of these samples have no value."
                ],
                advice="The sampling engine could not score these tokens." if sampled else advice,
                column=column,
                where=f"{column} > 0",
                tab="tokens",
                subject=array,
            )


@rule("Invalid fields")
def odd_fields(context: RuleContext) -> Iterator[Finding]:
    """The length of an array differs from the response's token count, or a field has the wrong type."""
    faults = [fault for fault in field_faults(context.snapshot, context.rows) if not fault.is_read]
    if not faults:
        return
    odd = np.isin(context.rows, np.concatenate([fault.rows for fault in faults]))
    reasons = [f"{fault.text} ({len(fault.rows) / len(odd):.1%} of the samples)" for fault in faults]
    is_length = "not as many values" in faults[0].text
    yield finding_of_rows(
        context,
        odd,
        f"{int(odd.sum()):,} samples{{place}} have an invalid field in {{steps}}: {faults[0].text}.",
        harmful=False,
        evidence=[f"{odd.mean():.1%} of the samples: {'; '.join(reasons[:_NAMED])}."],
        advice="Compare the lengths of the arrays with the number of response tokens in the recorder."
        if is_length
        else "Log this field in one of the shapes in docs/log.md, or give the right key with --map.",
        where=f"not missing({FIELD_REMARKS})",
    )


@rule("Missing rank")
def missing_rank(context: RuleContext) -> Iterator[Finding]:
    """A rank that wrote samples before has none in a complete step for which other ranks have some.

    It may write later than the others: three complete steps must follow, or three median step times pass.
    """
    names, rows = context.ranks()
    if not names:
        return
    ranks, present = np.array(names, int), context.table(each_sample)[SAMPLES, rows] > 0
    # Skip ranks that take part in few steps, as with asynchronous trainers: there a gap is normal.
    taken = np.cumsum(present, axis=1)
    until = present.shape[1] - present[:, ::-1].argmax(axis=1)
    regular = taken[:, -1] / until > 0.5
    missing = present.any(axis=0) & ~present & (taken > 0)
    if not context.is_overdue:  # a rank that is only behind will still write the newest steps
        first = max(0, missing.shape[1] - PATIENT_STEPS)
        missing[:, first:] &= missing[:, first - 1 : first] if first else False
    for rank in np.flatnonzero(regular & missing.any(axis=1)).tolist():
        mask = missing[rank]
        yield Finding(
            severity=severity_of(context, mask, harmful=bool(mask[-3:].all())),
            sentence=f"Rank {ranks[rank]} has no samples in {span(context.steps, mask)}.",
            evidence=(
                f"{int(present[:, mask].sum(axis=0).min())} or more other ranks have samples in these steps.",
            ),
            advice="Look at the log of this rank's process, and whether its file is still written.",
            steps=tuple(context.steps[mask].tolist()),
            ongoing=bool(mask[-1]),
            rank=int(ranks[rank]),
            subject=str(ranks[rank]),
        )


@rule("No new lines", "quiet_factor", clock=True)
def quiet(context: RuleContext) -> Iterator[Finding]:
    """No line was written for more than this many times the median step time; reported for one hour."""
    newest, steps = context.snapshot.newest_line, context.snapshot.steps
    usual = context.step_seconds
    if len(context.steps) < 5 or not usual > 0:
        return
    silence = context.now - newest
    patience = context.thresholds.quiet_factor * max(usual, 5.0)
    # In a copied or replayed log the times in the lines differ from the time of writing: report nothing.
    own_time = abs(newest - float(np.nanmax(steps.stat("time", MAX)))) < patience
    if own_time and patience < silence < _LONG:
        elapsed = f"{silence / 60:.0f} min" if silence >= 120 else f"{silence:.0f} s"
        yield Finding(
            severity="warning",
            sentence=(
                f"Nothing was written for {elapsed} since step {steps.values[-1]:,}; "
                f"the median step takes {usual:.0f} s."
            ),
            evidence=(
                "Training may have ended, may be waiting or may have crashed: the log does not show which.",
            ),
            advice="Look at the processes of the training.",
            steps=(int(steps.values[-1]),),
            ongoing=True,
            subject=f"after step {steps.values[-1]}",
        )


@signal("missing_reward", "reward")
def _missing(rows: RowBatch) -> np.ndarray:
    missing = ~np.isfinite(rows.number("reward"))
    return mark(missing, rows.has_outcome)


@rule("Missing rewards", "missing_share", "change_z")
def missing_rewards(context: RuleContext) -> Iterator[Finding]:
    """The share of samples without a finite reward rises by more than this, or is above four times this.

    A rise is tested by two windows of steps with errors clustered by group.
    """
    share = context.thresholds.missing_share
    yield from share_findings(
        context,
        ShareRule(
            signal=_missing,
            verb="have no reward",
            noun="samples without a reward",
            of="of the samples",
            rise=share,
            limit=4 * share,
            harmful=4 * share,
            column="reward",
            where="missing(reward)",
            advice="Read the reward function's errors and time-outs; these samples do not train the policy, "
            "or train it on a default.",
        ),
    )


@signal("zero_reward", "reward")
def _zero(rows: RowBatch) -> np.ndarray:
    return mark(rows.number("reward") == 0, rows.has_outcome)


def _none_missing(context: RuleContext) -> Change | None:
    """Return the newest steps if no sample in them is without a reward, as chance would not have it.

    Samples of one group count as one: they may fail together.
    """
    if not context.available(_missing):
        return None
    table = context.table(_missing)
    share, groups, samples = (np.nan_to_num(table[part, 0]) for part in (MEAN, GROUPS, SAMPLES))
    some = np.flatnonzero(share > 0)
    onset = int(some[-1]) + 1 if len(some) else 0
    if onset < _STEPS_BEFORE or len(share) - onset < _STEPS_AFTER:
        return None
    usual = float((share[:onset] * samples[:onset]).sum() / max(samples[:onset].sum(), 1.0))
    if usual < context.thresholds.missing_share or (1 - usual) ** groups[onset:].sum() > _NONE_CHANCE:
        return None
    mask = np.arange(len(share)) >= onset
    return Change(_missing, WHOLE_RUN, mask, True, usual, 0.0, share, sign=-1)


def _without(change: Change) -> str:
    """Return in words how many samples have no reward after a change and before it."""
    if not change.after:
        return f"every sample has a reward ({percent(change.before)} had none before)"
    return f"{percent(change.after)} of the samples have no reward ({percent(change.before)} before)"


@rule("Missing rewards become 0", "missing_share", "change_z")
def missing_as_zero(context: RuleContext) -> Iterator[Finding]:
    """The share of samples without a reward falls by more than this, and that of zeros rises.

    The fall is tested by two windows of steps with errors clustered by group, or by the chance that no sample
    of the newest steps is without one. The share of zeros must rise by at least half of the fall, and by this
    many standard errors of the steps.
    """
    change = sustained(context, _missing, context.thresholds.missing_share, sign=-1, places=False)
    change = change or _none_missing(context)
    if change is None or not np.isfinite(change.before):
        return
    zeros = PlaceTable.of(context, _zero).mean[0]
    # Zeros become rarer while the policy learns, so that early steps would hide the rise.
    before, after = zeros[max(change.onset - _AS_ZERO_BEFORE, 0) : change.onset], zeros[change.mask]
    rise = float(np.nanmean(after) - np.nanmean(before))
    error = float(np.hypot(*(np.nanstd(part) / np.sqrt(max(len(part), 1)) for part in (before, after))))
    lost = change.before - change.after
    if rise < _AS_ZERO * lost or rise < _AS_ZERO_Z * error:
        return
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, {_without(change)}, while {percent(rise)} more have a reward of "
        "exactly 0.",
        harmful=False,
        column="reward",
        where="reward == 0",
        evidence=[
            f"The fall is {standard_errors(change.z)} of the two windows."
            if change.z
            else f"No sample is without a reward in {int(change.mask.sum()):,} steps in a row."
        ],
        advice="Check whether errors of the reward function are now logged as 0: the policy is trained on "
        "them as on wrong answers.",
        subject="reward",
    )
