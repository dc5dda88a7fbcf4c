"""Rules on the quality of the log: invalid numbers, lengths of arrays, missing ranks, missing lines."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.finding import Finding, span
from rlpanel.findings.engine.rule import rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.store.columns.step_stats import MAX

#: Array → a sample column that is NaN if the array contains a NaN, and a sample column with its token count.
_SUMS = {
    "logprobs": ("surprisal_mean", "surprisal_count"),
    "ref_logprobs": ("log_ratio_mean", "log_ratio_count"),
    "rollout_logprobs": ("engine_log_ratio_mean", "engine_log_ratio_count"),
    "old_logprobs or new_logprobs": ("ratio_mean", "ratio_count"),
    "entropy": ("token_entropy_mean", "token_entropy_count"),
    "values": ("value_mean", "value_count"),
    "returns or token_rewards": ("token_return_mean", "token_return_count"),
    "advantages": ("token_advantage_mean", "token_advantage_count"),
}
#: Seconds without new lines after which a run counts as ended and is no longer reported.
_LONG = 3600.0


@rule("NaN or Inf in the log")
def not_finite(context: RuleContext) -> Iterator[Finding]:
    """A logged array contains NaN, infinity or null."""
    seen = np.zeros(len(context.rows), bool)
    for array, (mean, count) in _SUMS.items():
        if not {mean, count} <= set(context.snapshot.steps.columns):
            continue
        bad = (context.column(count) > 0) & ~np.isfinite(context.column(mean)) & ~seen
        seen |= bad
        if bad.any():
            mask = np.bincount(context.row_steps[bad], minlength=len(context.steps)) > 0
            yield Finding(
                severity="alarm",
                sentence=(
                    f"NaN or Inf in the log: {array} has NaN, infinity or null entries in "
                    f"{span(context.steps, mask)}."
                ),
                evidence=(
                    f"{int(bad.sum()):,} of {len(bad):,} samples; they are excluded from means and sums.",
                ),
                steps=tuple(context.steps[mask].tolist()),
                column=mean,
                where=f"missing({mean})",
                subject=array,
            )


@rule("Invalid fields")
def odd_fields(context: RuleContext) -> Iterator[Finding]:
    """The length of an array differs from the response's token count, or a field has the wrong type."""
    odd = context.snapshot.metadata("notes")[context.rows] > 0
    if odd.any():
        mask = np.bincount(context.row_steps[odd], minlength=len(context.steps)) > 0
        yield Finding(
            severity="warning",
            sentence=(
                f"Invalid fields: {int(odd.sum()):,} samples have an array of the wrong length or a value of "
                f"the wrong type in {span(context.steps, mask)}."
            ),
            evidence=(f"{odd.mean():.1%} of the samples; open one to see which of its fields is invalid.",),
            steps=tuple(context.steps[mask].tolist()),
            uid=context.snapshot.uid(int(context.rows[odd][-1])),
        )


@rule("Missing rank")
def missing_rank(context: RuleContext) -> Iterator[Finding]:
    """A rank that wrote samples before has none in a complete step for which other ranks have some."""
    ranks, index = np.unique(context.snapshot.metadata("rank")[context.rows], return_inverse=True)
    if len(ranks) < 2:
        return
    present = np.zeros((len(ranks), len(context.steps)), bool)
    present[index, context.row_steps] = True
    # Skip ranks that take part in few steps, as with asynchronous trainers: there a gap is normal.
    regular = present.mean(axis=1) > 0.5
    missing = present.any(axis=0) & ~present & (np.cumsum(present, axis=1) > 0)
    for rank in np.flatnonzero(regular & missing.any(axis=1)).tolist():
        mask = missing[rank]
        yield Finding(
            severity="alarm" if mask[-3:].all() else "warning",
            sentence=f"Missing rank: rank {ranks[rank]} has no samples in {span(context.steps, mask)}.",
            evidence=(
                f"{int(present[:, mask].sum(axis=0).min())} or more other ranks have samples in these steps.",
            ),
            steps=tuple(context.steps[mask].tolist()),
            subject=str(ranks[rank]),
        )


@rule("No new lines", "quiet_factor", clock=True)
def quiet(context: RuleContext) -> Iterator[Finding]:
    """No line was written for more than this many times the median step time; reported for one hour."""
    newest, steps = context.snapshot.newest_line, context.snapshot.steps
    if "time" not in steps.columns or len(context.steps) < 5:
        return
    durations = np.diff(steps.stat("time", MAX))
    usual = float(np.median(durations[np.isfinite(durations)])) if np.isfinite(durations).any() else 0.0
    silence = context.now - newest
    if usual <= 0:
        return
    patience = context.thresholds.quiet_factor * max(usual, 5.0)
    # In a copied or replayed log the times in the lines differ from the time of writing: report nothing.
    own_time = abs(newest - float(np.nanmax(steps.stat("time", MAX)))) < patience
    if own_time and patience < silence < _LONG:
        elapsed = f"{silence / 60:.0f} min" if silence >= 120 else f"{silence:.0f} s"
        yield Finding(
            severity="warning",
            sentence=(
                f"No new lines: nothing was written for {elapsed} since step {steps.values[-1]:,}; "
                f"the median step takes {usual:.0f} s."
            ),
            evidence=(
                "Training may have ended, may be waiting or may have crashed: the log does not show which.",
            ),
            steps=(int(steps.values[-1]),),
            subject=f"after step {steps.values[-1]}",
        )
