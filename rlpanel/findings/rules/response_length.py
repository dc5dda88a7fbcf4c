"""Rules on the length of responses: truncation, and correlation of length and reward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import span
from rlpanel.findings.engine.change_finding import severity_of
from rlpanel.findings.engine.changes import series_rise
from rlpanel.findings.engine.contrast import within_correlation
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_finding
from rlpanel.findings.engine.signal import long_stretches, signal

#: Smallest rise of the correlation whose begin is reported as the onset.
_CLEAR_RISE = 0.3


@signal("truncated", "ended")
def _truncated(rows: RowBatch) -> np.ndarray:
    return 1 - rows.number("ended")


@rule("Truncated responses", "truncated_share", "change_z")
def truncated(context: RuleContext) -> Iterator[Finding]:
    """The share of responses cut at the length limit rises by 25 points, or is above this.

    A rise is tested by two windows of steps with errors clustered by group.
    """
    found = share_finding(
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
    if found is not None:
        yield found


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
            f"Correlation of length and reward: {start:.2f} in the first five steps, then up to "
            f"{np.nanmax(r[mask]):.2f}.",
            "Pooled over the step: the prompts with longer responses may just be the easier ones."
            if within is None
            else f"Among responses to the same prompt: {within:.2f}; unlike the pooled value, it does not "
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
