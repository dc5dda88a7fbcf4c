"""Rules on the length of responses: truncation, and correlation of length and reward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.contrast import within_correlation
from rlpanel.findings.engine.finding import Finding, span
from rlpanel.findings.engine.rule import rule
from rlpanel.findings.engine.rule_context import RuleContext
from rlpanel.findings.engine.step_series import long_stretches


@rule("Truncated responses", "truncated_share")
def truncated(context: RuleContext) -> Iterator[Finding]:
    """At least this share of a step's responses was truncated by the length limit."""
    share = context.series("truncated_share")
    if share is None:
        return
    mask = share >= context.thresholds.truncated_share
    if mask.any():
        yield Finding(
            severity="alarm" if long_stretches(mask, 3).any() else "warning",
            sentence=(
                f"Truncated responses: the length limit cuts {context.thresholds.truncated_share:.0%} or "
                f"more of the responses in {span(context.steps, mask)}."
            ),
            evidence=(
                f"Truncated: {share[mask].min():.0%} to {share[mask].max():.0%} of a step's responses.",
            ),
            steps=tuple(context.steps[mask].tolist()),
            column="truncated_share",
            where="ended == 0",
        )


@rule("Length–reward correlation", "length_correlation")
def length_reward(context: RuleContext) -> Iterator[Finding]:
    """Length and reward of a step's samples correlate by more than this, for five steps in a row.

    The correlation must also exceed that of the first five steps by 0.2.
    """
    r = context.series("length_reward_correlation")
    if r is None or len(r) < 10 or not np.isfinite(r[:5]).any():
        return
    start = float(np.nanmedian(r[:5]))
    mask = long_stretches((r > context.thresholds.length_correlation) & (r > start + 0.2), 5)
    if mask.any():
        yield Finding(
            severity="warning",
            sentence=(
                f"Length–reward correlation: longer responses score higher in {span(context.steps, mask)}; "
                "read the longest ones."
            ),
            evidence=(
                f"Correlation of length and reward: {start:.2f} in the first five steps, then up to "
                f"{np.nanmax(r[mask]):.2f}.",
                _within_groups(context, mask),
            ),
            steps=tuple(context.steps[mask].tolist()),
            column="length_reward_correlation",
        )


def _within_groups(context: RuleContext, mask: np.ndarray) -> str:
    """Return a sentence on the correlation among responses to the same prompt."""
    length = "response_tokens" if context.snapshot.has_number("response_tokens") else "response_chars"
    rows = context.rows[mask[context.row_steps]]
    columns = (context.view.values(name, rows) for name in (length, "reward"))
    within = within_correlation(context.view, rows, *columns)
    if within is None:
        return "Pooled over the step: the prompts with longer responses may just be the easier ones."
    return (
        f"Among responses to the same prompt: {within:.2f}; unlike the pooled value, it does not depend "
        "on how difficult the prompts are."
    )
