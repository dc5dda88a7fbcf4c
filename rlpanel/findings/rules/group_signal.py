"""Rule on groups without learning signal: all rewards of a group are the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlpanel.findings.engine.block_tables import MEAN
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_finding
from rlpanel.findings.engine.signal import mark, signal

#: Rewards this close are the same.
_SAME = 1e-6
#: Solved groups count from this share of the limit on.
_SOLVED = 0.9
#: A reward that is 0 in this share of the run's first steps, or in this many, is normal.
_EARLY_SHARE, _EARLY_STEPS = 0.2, 10


@signal("zero_variance", "reward", by_group=True)
def zero_variance_signal(rows: RowBatch) -> np.ndarray:
    """Mark samples whose group has several rewards, all the same."""
    reward = rows.number("reward")
    several = (rows.group_counts(reward) >= 2)[rows.group]
    apart = (rows.group_sums((np.abs(rows.less_group_mean(reward)) > _SAME).astype(float)) > 0)[rows.group]
    return mark(~apart, several & np.isfinite(reward))


@rule("Zero-variance groups", "zero_variance_share", "change_z")
def zero_variance(context: RuleContext) -> Iterator[Finding]:
    """At least this share of the samples are in groups whose rewards are all the same.

    Or their share rises by 40 points. A rise is tested by two windows of steps. Groups in which all samples
    pass are solved: they count from 90% of the limit on, as a warning.
    A reward that is the same everywhere in the first steps is normal.
    """
    if not context.view.grouped:
        return
    limit = context.thresholds.zero_variance_share
    found = share_finding(
        context,
        ShareRule(
            signal=zero_variance_signal,
            verb="are in zero-variance groups, which carry no learning signal",
            noun="samples of zero-variance groups",
            of="of the samples",
            rise=0.4,
            limit=limit,
            harmful=limit,
            column="zero_variance_groups",
            tab="group",
            advice="All samples of a group get the same reward: the prompts are too hard or too easy, the "
            "reward is constant, or the responses are equal.",
        ),
    )
    if found is None:
        return
    mask = np.isin(context.steps, found.steps)
    if _only_early(mask):
        return
    low, high = (context.series(f"zero_variance_{end}") for end in ("low", "high"))
    evidence = found.evidence
    solved = False
    if low is not None and high is not None:
        failed, passed = (float(np.nan_to_num(np.nanmean(part[mask]))) for part in (low, high))
        solved = passed > failed
        evidence += (
            f"On average, all samples fail (reward below a pass) in {failed:.0%} of the groups, and all "
            f"pass in {passed:.0%}.",
        )
    if solved and float(np.nanmean(context.table(zero_variance_signal)[MEAN, 0][mask])) < _SOLVED * limit:
        return
    mild = found.severity == "alarm" and solved
    yield replace(found, evidence=evidence, severity="warning" if mild else found.severity)


def _only_early(mask: np.ndarray) -> bool:
    """Return True if only the first steps are marked."""
    return bool(mask[0]) and int(np.flatnonzero(mask)[-1]) < max(_EARLY_STEPS, _EARLY_SHARE * len(mask))
