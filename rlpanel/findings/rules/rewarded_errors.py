"""Rule on a tool whose errors are rewarded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import number
from rlpanel.findings.engine.contrast import group_gaps
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.schema import TOOL_ERRORS

#: The difference must be at least this share of the reward's standard deviation.
_EFFECT = 0.2


@rule("Errors are rewarded", "change_z")
def errors_rewarded(context: RuleContext) -> Iterator[Finding]:
    """Rollouts with an error of a tool get a higher reward than others of the same group that call the tool.

    The difference must be this many standard errors over groups, and a fifth of the reward's deviation.
    """
    if not context.snapshot.has_number("reward") or not context.view.grouped:
        return
    reward = context.column("reward")
    spread = float(np.nanstd(reward)) if np.isfinite(reward).any() else 0.0
    for column in context.snapshot.numbers:
        if not column.startswith(TOOL_ERRORS):
            continue
        errors = context.column(column)
        called = np.isfinite(errors) & np.isfinite(reward)
        failed = errors[called] > 0
        gaps = group_gaps(context.snapshot, context.rows[called], failed, reward[called])
        if gaps is None or not gaps.mean() > max(
            context.thresholds.change_z * _error(gaps), _EFFECT * spread
        ):
            continue
        tool = column.removeprefix(TOOL_ERRORS)
        yield Finding(
            severity="warning",
            sentence=f"Rollouts in which {tool} fails get a reward that is {number(gaps.mean())} higher than "
            "that of others of the same group.",
            evidence=(
                f"{number(gaps.mean())} ± {number(2 * _error(gaps))} (2 s.e.) over {len(gaps):,} groups that "
                f"have rollouts with and without an error of {tool}.",
                f"{int(failed.sum()):,} of {len(failed):,} rollouts that call {tool} have such an error.",
            ),
            advice="Does the reward count calls, or take an error for a result? Longer rollouts may have "
            "both more errors and more success: compare rollouts with as many turns.",
            ongoing=True,
            column="reward",
            where="" if "`" in column else f"`{column}` > 0",
            sort="-reward",
            subject=tool,
        )


def _error(gaps: np.ndarray) -> float:
    """Return the standard error of the mean."""
    return float(gaps.std(ddof=1) / np.sqrt(len(gaps)))
