"""Rule on samples without a reward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_finding
from rlpanel.findings.engine.signal import mark, signal


@signal("missing_reward", "reward")
def _missing(rows: RowBatch) -> np.ndarray:
    missing = ~np.isfinite(rows.number("reward"))
    return mark(missing, rows.has_outcome)


@rule("Missing rewards", "missing_share", "change_z")
def missing_rewards(context: RuleContext) -> Iterator[Finding]:
    """The share of samples without a finite reward rises by more than this, or is above four times this.

    A rise is tested by two windows of steps with errors clustered by group.
    """
    share = context.thresholds.missing_share
    found = share_finding(
        context,
        ShareRule(
            signal=_missing,
            verb="have no reward",
            noun="samples without a reward",
            of="of the samples",
            rise=share,
            limit=4 * share,
            harmful=4 * share,
            column="reward",
            where="missing(reward)",
            advice="Read the reward function's errors and time-outs; these samples do not train the policy, "
            "or train it on a default.",
        ),
    )
    if found is not None:
        yield found
