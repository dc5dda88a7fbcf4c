"""Rule on a tool that begins to fail."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_finding
from rlpanel.findings.engine.signal import Signal, mark
from rlpanel.schema import TOOL_ERRORS


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
                advice="Read the results of this tool in some samples: did the tool break, or does the "
                "policy call it with wrong arguments?",
            ),
            subject=tool,
        )
        if found is not None:
            yield found


def _failure_signal(column: str) -> Signal:
    def fails(rows: RowBatch) -> np.ndarray:
        errors = rows.number(column)
        return mark(errors > 0, np.isfinite(errors))

    return Signal(f"{column} > 0", "share", (column,), fails)
