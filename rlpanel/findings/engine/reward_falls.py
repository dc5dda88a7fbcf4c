"""Sustained falls of the reward, of its parts and of a held-out reward, and rises of the reward meanwhile."""

from __future__ import annotations

import numpy as np

from rlpanel.findings.engine.change import Change
from rlpanel.findings.engine.changes import sustained
from rlpanel.findings.engine.place_table import PlaceTable
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import column_signal

#: Smallest change: in standard deviations of the samples of a step, and relative to the level before.
_EFFECT, _RELATIVE = 0.5, 0.2
#: The same for parts of the reward, which trade off against each other while a run is healthy.
_PART_EFFECT, _PART_RELATIVE = 0.75, 0.5
#: Rise of the reward, in standard errors, during the fall of another one.
_RISES = 4.0


def parts(context: RuleContext) -> list[str]:
    """Return the parts of the reward, and a held-out reward."""
    parts = [name for name in context.snapshot.numbers if name.startswith("rewards/")]
    return [*parts, *(["valid_reward"] if context.snapshot.has_number("valid_reward") else [])]


def fall(context: RuleContext, column: str) -> Change | None:
    """Return a sustained fall of a reward; None without one, or if the run does not have it."""
    signal = column_signal(column)
    if not context.available(signal):
        return None
    effect, relative = (_EFFECT, _RELATIVE) if column == "reward" else (_PART_EFFECT, _PART_RELATIVE)
    if column == "valid_reward":
        effect, relative = _EFFECT, _RELATIVE
    least = effect * spread(context, column)
    change = sustained(context, signal, least, sign=-1)
    if change is None or not np.isfinite(change.before):
        return None
    far_enough = change.before - change.after > relative * abs(change.before)
    return change if far_enough else None


def spread(context: RuleContext, column: str) -> float:
    """Return the usual standard deviation of a step's samples."""
    spread = context.snapshot.steps.std(column)[: len(context.steps)]
    return float(np.nanmedian(spread)) if np.isfinite(spread).any() else 0.0


def rises_meanwhile(context: RuleContext, change: Change) -> tuple[float, float] | None:
    """Return the reward before a change and at its end if it rose; else None."""
    reward = column_signal("reward")
    if not context.available(reward):
        return None
    table = PlaceTable.of(context, reward)
    row = table.places.index(change.place)
    early = slice(max(0, change.onset - 6), change.onset + 1)
    late = slice(max(change.onset + 1, change.last - 6), change.last + 1)
    (old, old_error), (new, new_error) = (table.level(row, part) for part in (early, late))
    return (old, new) if new - old > _RISES * np.hypot(old_error, new_error) else None
