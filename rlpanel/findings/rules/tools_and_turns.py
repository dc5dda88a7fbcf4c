"""Rules on agents: fewer turns than before, a tool that begins to fail, a tool whose errors are rewarded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlpanel.findings.engine.change import at_place, number, percent, since
from rlpanel.findings.engine.change_finding import affected_rows, finding_of, reward_clause, rows_of_finding
from rlpanel.findings.engine.change_tests import sustained
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, group_gaps, share_finding
from rlpanel.findings.engine.signal import RowBatch, Signal, mark, signal
from rlpanel.schema import TOOL_CALLS, TOOL_ERRORS


@signal("turns", "turns", kind="positive")
def _turns(rows: RowBatch) -> np.ndarray:
    turns = rows.number("turns")
    return np.where(turns > 0, turns, np.nan)


@rule("Turns collapse", "turns_factor", "change_z")
def turns_collapse(context: RuleContext) -> Iterator[Finding]:
    """The number of turns falls by this factor; it is an alarm if the reward did not rise meanwhile.

    The fall is tested by two windows of steps, on the geometric mean, with errors clustered by group.
    """
    change = sustained(context, _turns, float(np.log(context.thresholds.turns_factor)), sign=-1)
    if change is None:
        return
    reward = reward_clause(context, change)
    rows = affected_rows(context, change)
    single = float(np.mean(rows.number("turns") == 1))
    yield finding_of(
        context,
        change,
        f"{since(context.steps, change)}, rollouts{at_place(change)} have {number(change.after)} turns "
        f"({number(change.before)} before){reward}.",
        harmful="rose" not in reward,
        column="turns",
        evidence=[
            f"{percent(single)} of the rollouts in these steps have a single turn.",
            "The numbers of turns are geometric means.",
        ],
        advice="Read the first turns: does the policy answer without its tools, or do its calls no longer "
        "parse?",
        sort="turns",
        tab="conversation",
    )


@rule("A tool fails", "rise", "change_z")
def tool_fails(context: RuleContext) -> Iterator[Finding]:
    """The share of a tool's rollouts with an error of this tool rises by this much, or is above 50%.

    Only rollouts that called the tool count. A rise is tested by two windows of steps with errors clustered
    by group.
    """
    for column in context.snapshot.numbers:
        if not column.startswith(TOOL_ERRORS):
            continue
        tool = column.removeprefix(TOOL_ERRORS)
        found = share_finding(
            context,
            ShareRule(
                signal=_failure_signal(column),
                verb=f"have an error of {tool}",
                noun=f"rollouts with an error of {tool}",
                of=f"of the rollouts that call {tool}",
                rise=context.thresholds.rise,
                limit=0.5,
                harmful=0.2,
                column="failed_call_share",
                where="" if "`" in column else f"`{column}` > 0",
                sort=f"-{column}",
                tab="conversation",
                advice="Read the results of this tool in some samples: did the tool break, or does the "
                "policy call it with wrong arguments?",
            ),
            subject=tool,
        )
        if found is not None:
            yield replace(found, tool=tool, evidence=(*_of_calls(context, found, tool), *found.evidence))


def _of_calls(context: RuleContext, found: Finding, tool: str) -> list[str]:
    """Return the share of the tool's calls that failed in the affected steps, and before; beside rollouts."""
    earlier = tuple(step for step in context.steps.tolist() if step < found.steps[0])
    both = [rows_of_finding(context, replace(found, steps=steps)) for steps in (found.steps, earlier)]
    columns = [[rows.number(f"{prefix}{tool}") for rows in both] for prefix in (TOOL_CALLS, TOOL_ERRORS)]
    known = [np.isfinite(calls) & np.isfinite(errors) for calls, errors in zip(*columns, strict=True)]
    count, failed = (
        [float(part[at].sum()) for part, at in zip(column, known, strict=True)] for column in columns
    )
    if not count[0]:
        return []
    before = f" ({percent(failed[1] / count[1])} before)" if count[1] else ""
    return [
        f"Of the calls of {tool}, {failed[0]:,.0f} of {count[0]:,.0f} fail: "
        f"{percent(failed[0] / count[0])}{before}."
    ]


def _failure_signal(column: str) -> Signal:
    def fails(rows: RowBatch) -> np.ndarray:
        errors = rows.number(column)
        return mark(errors > 0, np.isfinite(errors))

    return Signal(f"{column} > 0", "share", (column,), fails)


#: The difference must be at least this share of the reward's standard deviation.
_EFFECT = 0.2


@rule("Errors are rewarded", "change_z")
def errors_rewarded(context: RuleContext) -> Iterator[Finding]:
    """Rollouts with an error of a tool get a higher reward than others of their group that call it.

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
            tab="conversation",
            tool=tool,
            subject=tool,
        )


def _error(gaps: np.ndarray) -> float:
    """Return the standard error of the mean."""
    return float(gaps.std(ddof=1) / np.sqrt(len(gaps)))
