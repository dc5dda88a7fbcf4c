"""Rule on a reward that no longer is the weighted sum of its parts which it was at first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rlpanel.analysis.reward_parts import RewardSum, fitted_sum, part_names
from rlpanel.findings.engine.change import number
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_finding
from rlpanel.findings.engine.signal import RowBatch, mark, signal
from rlpanel.store.snapshot.snapshot import Snapshot

#: First samples that give the weights, and fewest of them.
_FIRST, _MIN_FIRST = 512, 32
#: Largest error of a sum in standard deviations of the reward that rounding explains.
_ROUNDED = 0.01
#: Rise of the share of samples whose reward is another one.
_RISE = 0.3


@dataclass(frozen=True)
class _FirstSum:
    """The weighted sum of its parts that the reward is in some samples, exactly.

    Attributes
    ----------
    sum : RewardSum
        Its constant parts have the value NaN if no sample has them.
    error : float
        Largest difference that counts as equal.
    """

    sum: RewardSum
    error: float


def _sum_of(snapshot: Snapshot, rows: np.ndarray) -> _FirstSum | None:
    """Return the weights of the parts in some samples; None if the reward is not their sum."""
    every = part_names(snapshot)
    values = {name: snapshot.number(name)[rows] for name in every}
    values = {name: each for name, each in values.items() if np.isfinite(each).any()}
    if not values or not snapshot.has_number("reward"):
        return None
    reward = snapshot.number("reward")[rows]
    known = np.isfinite(reward) & np.all([np.isfinite(each) for each in values.values()], axis=0)
    reward, values = reward[known], {name: each[known] for name, each in values.items()}
    if len(reward) < _MIN_FIRST or not reward.std():
        return None
    found, error = fitted_sum(reward, values), _ROUNDED * float(reward.std())
    if not found.is_unique or np.abs(found.expected(values) - reward).max() > error:
        return None
    missing = {name: np.nan for name in every if name not in values}
    return _FirstSum(replace(found, constant=found.constant | missing), error)


@signal("other_sum", "reward")
def _other_sum(rows: RowBatch) -> np.ndarray:
    """Mark samples whose reward is not the sum of its parts with the weights of the first samples."""
    snapshot, unknown = rows.view.snapshot, np.full(len(rows), np.nan)
    found = _sum_of(snapshot, snapshot.alive_rows[:_FIRST])
    if found is None:
        return unknown
    expected = found.sum.expected({name: snapshot.number(name)[rows.rows] for name in found.sum.weights})
    reward = rows.number("reward")
    known = np.isfinite(expected) & np.isfinite(reward)
    for name, value in found.sum.constant.items():
        part = snapshot.number(name)[rows.rows]
        known &= np.isnan(part) if np.isnan(value) else part == value
    return mark(np.abs(expected - reward) > found.error, known)


@rule("Reward no longer the sum of its parts", "change_z")
def sum_changes(context: RuleContext) -> Iterator[Finding]:
    """The share of samples whose reward is not the weighted sum of its parts rises by 30 points, from 1%.

    The weights are those by which it is their sum in the first samples, exactly; a reward that never was such
    a sum is left out. A rise is tested by two windows of steps.
    """
    found = share_finding(
        context,
        ShareRule(
            signal=_other_sum,
            verb="have a reward that is not the sum of its parts with the weights of before",
            noun="samples with another sum",
            of="of the samples",
            rise=_RISE,
            at_most_before=0.01,
            harmful=2.0,
            column="reward",
            advice="Compare the weights of the reward functions with those of before: a resume or a new "
            "version may ignore them, scale a part, or clip the sum.",
        ),
    )
    if found is None:
        return
    snapshot, step = context.snapshot, context.snapshot.metadata("step")[context.rows]
    before = _sum_of(snapshot, snapshot.alive_rows[:_FIRST])
    after = _sum_of(snapshot, context.rows[np.isin(step, found.steps)][-_FIRST:])
    lines = [f"Before: {_text(before)}."] if before is not None else []
    lines += [f"Now: {_text(after)}."] if after is not None else ["Now it is not a sum of them at all."]
    yield replace(found, evidence=(*lines, *found.evidence))


def _text(found: _FirstSum) -> str:
    """Return a sum in words."""
    terms = [f"{number(weight)} × {name}" for name, weight in found.sum.weights.items()]
    return f"reward = {' + '.join(terms)} + {number(round(found.sum.offset, 9) + 0.0)}"
