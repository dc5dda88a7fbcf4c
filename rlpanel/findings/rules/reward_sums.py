"""Rule on a reward that no longer is the weighted sum of its parts which it was at first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from rlpanel.findings.engine.change import number
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.share_rule import ShareRule, share_finding
from rlpanel.findings.engine.signal import RowBatch, mark, signal
from rlpanel.store.snapshot.snapshot import Snapshot

#: First samples that give the weights, and fewest of them.
_FIRST, _FEWEST = 512, 32
#: Largest error of a sum in standard deviations of the reward that rounding explains.
_ROUNDED = 0.01
#: Rise of the share of samples whose reward is another one.
_RISE = 0.3


@dataclass(frozen=True)
class _Sum:
    """Weights of the parts by which the reward is their sum, in the first samples.

    Attributes
    ----------
    names : tuple of str
        The parts that vary.
    weights : ndarray of float
        One for each, and a constant.
    constant : dict of str to float
        Values of the parts that are the same in all of these samples, so that their weight is not known; NaN
        for those that none has.
    error : float
        Largest difference that counts as equal.
    """

    names: tuple[str, ...]
    weights: np.ndarray
    constant: dict[str, float]
    error: float


def _columns(snapshot: Snapshot, names: tuple[str, ...], rows: np.ndarray) -> np.ndarray:
    """Return some parts and a column of ones, shape (N, parts + 1)."""
    return np.stack([*(snapshot.number(name)[rows] for name in names), np.ones(len(rows))], axis=1)


def _sum_of(snapshot: Snapshot, rows: np.ndarray) -> _Sum | None:
    """Return the weights of the parts in some samples; None if the reward is not their sum."""
    every = [name for name in snapshot.numbers if name.startswith("rewards/")]
    parts = tuple(name for name in every if np.isfinite(snapshot.number(name)[rows]).any())
    if not parts or not snapshot.has_number("reward"):
        return None
    reward, values = snapshot.number("reward")[rows], _columns(snapshot, parts, rows)
    known = np.isfinite(reward) & np.isfinite(values).all(axis=1)
    reward, values = reward[known], values[known]
    if len(reward) < _FEWEST or not reward.std():
        return None
    varies = np.ptp(values, axis=0) > 0
    names = tuple(name for name, each in zip(parts, varies, strict=False) if each)
    constant = {name: float(values[0, at]) for at, name in enumerate(parts) if not varies[at]}
    constant |= {name: np.nan for name in every if name not in parts}
    varies[-1] = True
    weights, _, rank, _ = np.linalg.lstsq(values[:, varies], reward, rcond=1e-6)
    error = _ROUNDED * float(reward.std())
    if rank < varies.sum() or np.abs(values[:, varies] @ weights - reward).max() > error:
        return None
    return _Sum(names, weights, constant, error)


@signal("other_sum", "reward")
def _other_sum(rows: RowBatch) -> np.ndarray:
    """Mark samples whose reward is not the sum of its parts with the weights of the first samples."""
    snapshot, unknown = rows.view.snapshot, np.full(len(rows), np.nan)
    found = _sum_of(snapshot, snapshot.alive_rows[:_FIRST])
    if found is None:
        return unknown
    expected = _columns(snapshot, found.names, rows.rows) @ found.weights
    reward = rows.number("reward")
    known = np.isfinite(expected) & np.isfinite(reward)
    for name, value in found.constant.items():
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


def _text(found: _Sum) -> str:
    """Return a sum in words."""
    terms = [
        f"{number(float(weight))} × {name}" for weight, name in zip(found.weights, found.names, strict=False)
    ]
    return f"reward = {' + '.join(terms)} + {number(round(float(found.weights[-1]), 9) + 0.0)}"
