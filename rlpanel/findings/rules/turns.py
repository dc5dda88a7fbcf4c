"""Rule on rollouts that become shorter in turns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import at_place, number, percent, since
from rlpanel.findings.engine.change_finding import affected_rows, finding_of, reward_clause
from rlpanel.findings.engine.changes import sustained
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.signal import signal


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
    )
