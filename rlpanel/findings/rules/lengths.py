"""Rules on the length of responses: its limit, its correlation with the reward, and that of wrong answers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import percent, since, span, standard_errors
from rlpanel.findings.engine.change_finding import finding_of, severity_of
from rlpanel.findings.engine.change_tests import series_rise, sustained
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_findings, within_correlation
from rlpanel.findings.engine.signal import RowBatch, long_stretches, mark, signal
from rlpanel.number_text import fixed

#: Distance from the group's mean reward that is none.
_EQUAL = 1e-9
#: Difference of log lengths that is a change, and the one at which wrong answers were of another kind before.
_LONGER, _MUCH_SHORTER = 0.22, -0.1
#: Smallest rise of the correlation whose begin is reported as the onset.
_CLEAR_RISE = 0.3
#: Samples of a step that share its largest length, fewest tokens of it, and the rise of their share.
_TIES, _LONG, _UNMARKED = 3, 16, 0.05


@signal("wrong_length", "reward", "response_chars", kind="level", by_group=True)
def _wrong_length(rows: RowBatch) -> np.ndarray:
    """Return by how much longer the worse half of each group is: the difference of mean log lengths."""
    reward = rows.less_group_mean(rows.number("reward"))
    with np.errstate(all="ignore"):
        length = np.log(np.maximum(rows.number("response_chars"), 1.0))
        sums = [
            (
                rows.group_sums(np.where(side, length, np.nan)),
                rows.group_counts(np.where(side, length, np.nan)),
            )
            for side in (reward < -_EQUAL, reward > _EQUAL)
        ]
        (worse, worse_count), (better, better_count) = sums
        return (worse / worse_count - better / better_count)[rows.group]


@rule("Wrong answers grow", "change_z")
def wrong_grow(context: RuleContext) -> Iterator[Finding]:
    """Within groups, responses below the mean reward become longer than the others, by 25% more than before.

    Before, wrong answers may not be much shorter. Runs with tools are left out: their calls and results make
    the length. It is tested by two windows of steps.
    """
    if not context.view.grouped or context.snapshot.has_number("tool_calls"):
        return
    change = sustained(context, _wrong_length, _LONGER, places=False)
    if change is None or change.after < _LONGER or change.before < _MUCH_SHORTER:
        return
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, wrong answers are "
        f"{percent(float(np.expm1(change.after)))} longer than right ones of the same group "
        f"({percent(max(float(np.expm1(change.before)), 0.0))} before).",
        harmful=False,
        column="response_chars",
        evidence=[f"The difference is {standard_errors(change.z)} of the two windows."],
        advice="A loss that is divided by each response's length punishes long wrong answers less: see Dr. "
        "GRPO.",
        sort="-response_chars",
        tab="group",
    )


@signal("limit_unmarked", "ended", "response_tokens")
def _limit_unmarked(rows: RowBatch) -> np.ndarray:
    """Mark the samples that are as long as others of the step, longer than all the rest, and not cut."""
    tokens, ended = rows.number("response_tokens"), rows.number("ended")
    known = np.isfinite(tokens) & np.isfinite(ended)
    longest = np.zeros(len(rows.steps))
    np.maximum.at(longest, rows.position[known], tokens[known])
    at_limit = known & (tokens == longest[rows.position]) & (tokens >= _LONG)
    ties = np.bincount(rows.position[at_limit], minlength=len(rows.steps))
    return mark(at_limit & (ties[rows.position] >= _TIES) & (ended > 0), known)


@rule("Cut responses not marked", "change_z")
def cut_unmarked(context: RuleContext) -> Iterator[Finding]:
    """The share of responses that reach a common largest length, but are logged as ended, rises by 5 points.

    Three samples of a step, or more, must have exactly that many tokens. A rise is tested by two windows of
    steps with errors clustered by group.
    """
    yield from share_findings(
        context,
        ShareRule(
            signal=_limit_unmarked,
            verb="have exactly the largest length of their step, yet count as ended, not as truncated",
            noun="responses at the largest length that count as ended",
            rise=_UNMARKED,
            at_most_before=0.05,
            harmful=2.0,
            column="truncated_share",
            sort="-response_tokens",
            advice="A limit cuts them: compare max_tokens of the engine with the trainer's, and the finish "
            "reasons. A mask or penalty for truncated responses does not see them.",
        ),
    )


@signal("truncated", "ended")
def _truncated(rows: RowBatch) -> np.ndarray:
    return 1 - rows.number("ended")


@rule("Truncated responses", "truncated_share", "change_z")
def truncated(context: RuleContext) -> Iterator[Finding]:
    """The share of responses cut at the length limit rises by 25 points, or is above this.

    A rise is tested by two windows of steps with errors clustered by group.
    """
    yield from share_findings(
        context,
        ShareRule(
            signal=_truncated,
            verb="are truncated by the length limit",
            noun="truncated responses",
            rise=0.25,
            limit=context.thresholds.truncated_share,
            harmful=0.5,
            column="truncated_share",
            where="ended == 0",
            sort="-response_tokens",
            advice="Read how the longest ones end: loops, missing end tokens, or a limit that is too low.",
        ),
    )


@rule("Length–reward correlation", "length_correlation")
def length_reward(context: RuleContext) -> Iterator[Finding]:
    """Length and reward of a step's samples correlate by more than this, for five steps in a row.

    The correlation must also exceed that of the first five steps by 0.2, and within groups it must exceed
    half of the threshold.
    """
    r = context.series("length_reward_correlation")
    if r is None or len(r) < 10 or not np.isfinite(r[:5]).any():
        return
    start = float(np.nanmedian(r[:5]))
    limit = context.thresholds.length_correlation
    mask = long_stretches((r > limit) & (r > start + 0.2), 5)
    if not mask.any():
        return
    rise = series_rise(context, r, _CLEAR_RISE)
    if rise is not None and rise.ongoing and rise.onset < mask.argmax():
        mask[rise.onset : mask.argmax()] = True
    within = _within_groups(context, mask)
    if within is not None and within < limit / 2:
        return
    yield Finding(
        severity=severity_of(context, mask, harmful=False),
        sentence=f"Longer responses score higher in {span(context.steps, mask)}.",
        evidence=(
            f"Correlation of length and reward: {fixed(start)} in the first five steps, then up to "
            f"{fixed(float(np.nanmax(r[mask])))}.",
            "Pooled over the step: the prompts with longer responses may just be the easier ones."
            if within is None
            else f"Among responses to the same prompt: {fixed(within)}; unlike the pooled value, it does not "
            "depend on how difficult the prompts are.",
        ),
        advice="Read the longest responses: is the text better, or only longer?",
        steps=tuple(context.steps[mask].tolist()),
        ongoing=bool(mask[-1]),
        worst=int(context.steps[np.nanargmax(np.where(mask, r, np.nan))]),
        column="length_reward_correlation",
        sort="-response_tokens",
    )


def _within_groups(context: RuleContext, mask: np.ndarray) -> float | None:
    """Return the correlation among responses to the same prompt; None with too little data."""
    length = "response_tokens" if context.snapshot.has_number("response_tokens") else "response_chars"
    rows = context.rows[mask[context.row_steps]]
    columns = (context.view.counted(name, rows) for name in (length, "reward"))
    return within_correlation(context.view, rows, *columns)
