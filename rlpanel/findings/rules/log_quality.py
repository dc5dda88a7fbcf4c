"""Whether the log says what it should: numbers, lengths, ranks, and lines that keep coming."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.finding import Finding, span
from rlpanel.findings.engine.rule import rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.store.columns.step_stats import MAX

#: For each array a sample column that is NaN where the array holds one, and one that counts its tokens.
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
#: After this long a run that stopped is history.
_LONG = 3600.0


@rule("numbers that are none")
def not_finite(look: RuleContext) -> Iterator[Finding]:
    """A logged array holds NaN, infinity or null."""
    seen = np.zeros(len(look.rows), bool)
    for array, (mean, count) in _SUMS.items():
        if not {mean, count} <= set(look.snapshot.steps.columns):
            continue
        bad = (look.column(count) > 0) & ~np.isfinite(look.column(mean)) & ~seen
        seen |= bad
        if bad.any():
            mask = np.bincount(look.row_steps[bad], minlength=len(look.steps)) > 0
            yield Finding(
                "not_finite",
                "alarm",
                f"Numbers of {array} are NaN, infinity or null in {span(look.steps, mask)}.",
                (f"{int(bad.sum()):,} of {len(bad):,} samples; they are left out of means and sums.",),
                tuple(look.steps[mask].tolist()),
                mean,
                f"missing({mean})",
                subject=array,
            )


@rule("samples with fields that do not fit")
def odd_fields(look: RuleContext) -> Iterator[Finding]:
    """An array has another length than the response has tokens, or a field has a value of the wrong kind."""
    odd = look.snapshot.place("notes")[look.rows] > 0
    if odd.any():
        mask = np.bincount(look.row_steps[odd], minlength=len(look.steps)) > 0
        yield Finding(
            "odd_fields",
            "warning",
            f"Fields of {int(odd.sum()):,} samples do not fit, in {span(look.steps, mask)}.",
            (
                f"{odd.mean():.1%} of the samples; each says what is odd about it: an array that is "
                "not as long as the response, or a value of the wrong kind.",
            ),
            tuple(look.steps[mask].tolist()),
            uid=look.snapshot.uid(int(look.rows[odd][-1])),
        )


@rule("a rank is missing")
def missing_rank(look: RuleContext) -> Iterator[Finding]:
    """A rank that wrote before has no sample in a complete step that other ranks have."""
    ranks, index = np.unique(look.snapshot.place("rank")[look.rows], return_inverse=True)
    if len(ranks) < 2:
        return
    there = np.zeros((len(ranks), len(look.steps)), bool)
    there[index, look.row_steps] = True
    # Steps that a rank has no part in at all, as an asynchronous trainer's, say nothing about a loss.
    usual = there.mean(axis=1) > 0.5
    gone = there.any(axis=0) & ~there & (np.cumsum(there, axis=1) > 0)
    for rank in np.flatnonzero(usual & gone.any(axis=1)).tolist():
        mask = gone[rank]
        yield Finding(
            "missing_rank",
            "alarm" if mask[-3:].all() else "warning",
            f"Rank {ranks[rank]} is missing from {span(look.steps, mask)}.",
            (f"{int(there[:, mask].sum(axis=0).min())} or more other ranks have samples there.",),
            tuple(look.steps[mask].tolist()),
            subject=str(ranks[rank]),
        )


@rule("no new line", "quiet_factor", clock=True)
def quiet(look: RuleContext) -> Iterator[Finding]:
    """No line has come for more than this many times the median time of a step; said for an hour."""
    newest, steps = look.snapshot.newest_line, look.snapshot.steps
    if "time" not in steps.columns or len(look.steps) < 5:
        return
    took = np.diff(steps.stat("time", MAX))
    usual = float(np.median(took[np.isfinite(took)])) if np.isfinite(took).any() else 0.0
    silence = look.now - newest
    if usual <= 0:
        return
    patience = look.thresholds.quiet_factor * max(usual, 5.0)
    # A log that was copied or is replayed was written at another time than its lines say.
    own_time = abs(newest - float(np.nanmax(steps.stat("time", MAX)))) < patience
    if own_time and patience < silence < _LONG:
        yield Finding(
            "quiet",
            "warning",
            f"No new line for {silence / 60:.0f} min; a step took {usual:.0f} s before."
            if silence >= 120
            else f"No new line for {silence:.0f} s; a step took {usual:.0f} s before.",
            (f"The last step is {steps.values[-1]:,}. It ended, waits or died: the log cannot tell.",),
            (int(steps.values[-1]),),
            subject=f"after step {steps.values[-1]}",
        )
