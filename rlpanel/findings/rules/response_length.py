"""How responses end, and whether length is what is rewarded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.contrast import within_correlation
from rlpanel.findings.engine.finding import Finding, span
from rlpanel.findings.engine.rule import rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.findings.engine.step_series import lasting


@rule("nearly all responses are cut", "truncated_share")
def truncated(look: RuleContext) -> Iterator[Finding]:
    """At least this share of a step's responses was cut by the length limit."""
    share = look.series("truncated_share")
    if share is None:
        return
    mask = share >= look.thresholds.truncated_share
    if mask.any():
        yield Finding(
            "truncated",
            "alarm" if lasting(mask, 3).any() else "warning",
            f"Nearly all responses are cut by the length limit in {span(look.steps, mask)}.",
            (f"Cut: {share[mask].min():.0%} to {share[mask].max():.0%} of the step's responses.",),
            tuple(look.steps[mask].tolist()),
            "truncated_share",
            "ended == 0",
        )


@rule("reward goes with length", "length_correlation")
def length_reward(look: RuleContext) -> Iterator[Finding]:
    """Length and reward of a step's samples correlate by more than this, five steps in a row.

    And by more than in the first five steps.
    """
    r = look.series("length_reward_correlation")
    if r is None or len(r) < 10 or not np.isfinite(r[:5]).any():
        return
    start = float(np.nanmedian(r[:5]))
    mask = lasting((r > look.thresholds.length_correlation) & (r > start + 0.2), 5)
    if mask.any():
        yield Finding(
            "length_reward",
            "warning",
            f"Longer responses score higher in {span(look.steps, mask)}: read the longest.",
            (
                f"Correlation of length and reward: {start:.2f} in the first five steps, then up to "
                f"{np.nanmax(r[mask]):.2f}.",
                _within(look, mask),
            ),
            tuple(look.steps[mask].tolist()),
            "length_reward_correlation",
        )


def _within(look: RuleContext, mask: np.ndarray) -> str:
    """The same correlation among answers to one prompt."""
    length = "response_tokens" if look.snapshot.has_number("response_tokens") else "response_chars"
    rows = look.rows[mask[look.row_steps]]
    columns = (look.view.values(name, rows) for name in (length, "reward"))
    within = within_correlation(look.view, rows, *columns)
    if within is None:
        return "Pooled over the step: longer answers may also be those of easier prompts."
    return f"Among the answers to one prompt: {within:.2f}; what is pooled may also be easier prompts."
