"""Rule on a reward that rises while a held-out reward or one of its parts falls.

The falls of rewards that are found here explain other findings, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rlpanel.findings.engine.change import Change, at_place, number, since, span, standard_errors
from rlpanel.findings.engine.change_finding import affected_rows, finding_of
from rlpanel.findings.engine.change_tests import PlaceTable, sustained
from rlpanel.findings.engine.column_stats import HIGHEST, LOWEST, NO_SHARE
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext, rule
from rlpanel.findings.engine.signal import column_signal, flag_signal
from rlpanel.number_text import fixed

#: Smallest change: in standard deviations of the samples of a step, and relative to the level before.
_EFFECT, _RELATIVE = 0.5, 0.2
#: The same for parts of the reward, which trade off against each other while a run is healthy.
_PART_EFFECT, _PART_RELATIVE = 0.75, 0.5
#: The same for a share of 0 and 1: of its logit, relative to the level before, and of the share itself. The
#: reward itself is measured so where it is rarely 1.
_ODDS, _ODDS_RELATIVE, _ODDS_LEAST, _RARE = 1.0, 0.35, 0.03, 0.25
#: Largest standard deviation of a constant part.
_CONSTANT = 1e-9
#: Rise of the reward, in standard errors, during the fall of another one.
_RISES = 4.0


def parts(context: RuleContext) -> list[str]:
    """Return the parts of the reward that are not the reward itself, and a held-out reward."""
    parts = [name for name in reward_parts(context) if name not in copies(context)]
    return [*parts, *(["valid_reward"] if context.snapshot.has_number("valid_reward") else [])]


def reward_parts(context: RuleContext) -> list[str]:
    """Return the columns of all parts of the reward."""
    return [name for name in context.snapshot.numbers if name.startswith("rewards/")]


def copies(context: RuleContext) -> list[str]:
    """Return the parts whose means are those of the reward, times a factor: they say the same again."""
    if copies not in context.results:
        reward = column_signal("reward")
        known = reward_parts(context) if context.available(reward) else []
        whole = PlaceTable.of(context, reward).mean[0] if known else np.empty(0)
        context.results[copies] = [
            name for name in known if _is_multiple(PlaceTable.of(context, column_signal(name)).mean[0], whole)
        ]
    found: list[str] = context.results[copies]
    return found


def _is_multiple(part: np.ndarray, whole: np.ndarray) -> bool:
    both = np.isfinite(part) & np.isfinite(whole)
    if not both.any() or (np.isfinite(part) != np.isfinite(whole)).any() or not (whole[both] ** 2).sum():
        return False
    factor = (part[both] * whole[both]).sum() / (whole[both] ** 2).sum()
    expected = factor * whole[both]
    return bool((np.abs(part[both] - expected) <= 1e-9 + 1e-6 * np.abs(expected)).all())


def fall(context: RuleContext, column: str) -> Change | None:
    """Return a sustained fall of a reward; None without one, or if the run does not have it."""
    change = sustained_fall(context, column)
    return change if change is None or not is_start(context, column, change) else None


def is_start(context: RuleContext, column: str, change: Change) -> bool:
    """Return True if a part that was the same in all samples begins to vary, and moves the reward little.

    A constant has no standard deviation, so its change is measured in those of the reward.
    """
    if column in {"reward", "valid_reward"} or not context.snapshot.has_number("reward"):
        return False
    steps = context.snapshot.steps
    before = steps.std(column)[: change.onset]
    known = before[np.isfinite(before)]
    is_constant = bool(len(known)) and float(np.median(known)) <= _CONSTANT
    lost = change.before - change.after
    return is_constant and lost < _PART_EFFECT * spread(context, "reward")


def sustained_fall(context: RuleContext, column: str) -> Change | None:
    """Return a sustained fall of a reward, also of a part that starts; None without one."""
    signal = column_signal(column)
    if not context.available(signal):
        return None
    effect, relative = (_EFFECT, _RELATIVE) if column == "reward" else (_PART_EFFECT, _PART_RELATIVE)
    if column == "valid_reward":
        effect, relative = _EFFECT, _RELATIVE
    least = effect * spread(context, column)
    change = sustained(context, signal, least, sign=-1)
    if change is None or not np.isfinite(change.before):
        return _fall_of_odds(context, column)
    far_enough = change.before - change.after > relative * abs(change.before)
    return change if far_enough else _fall_of_odds(context, column)


def _fall_of_odds(context: RuleContext, column: str) -> Change | None:
    """Return a sustained fall of the share of a reward of 0 and 1, by its logit; None without one.

    A share cannot fall by more than its level: at 0.1, by a third of a standard deviation of its samples.
    """
    if not is_share(context, column):
        return None
    change = sustained(context, flag_signal(column, "odds"), _ODDS, sign=-1)
    if change is None or not np.isfinite(change.before):
        return None
    if column in {"reward", "valid_reward"} and change.before > _RARE:
        return None
    lost = change.before - change.after
    return change if lost > max(_ODDS_RELATIVE * change.before, _ODDS_LEAST) else None


def is_share(context: RuleContext, column: str) -> bool:
    """Return True if a column has 0 and 1 only: then its variance follows from its mean."""
    lowest, highest, others = context.step_stats.facts([column])[[LOWEST, HIGHEST, NO_SHARE], 0].tolist()
    return bool(0 <= lowest < highest <= 1 and not others)


def spread(context: RuleContext, column: str) -> float:
    """Return the usual standard deviation of a step's samples."""
    usual = context.spread(column)
    return usual if np.isfinite(usual) else 0.0


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


@rule("Reward up, held-out down", "change_z")
def held_out(context: RuleContext) -> Iterator[Finding]:
    """The held-out reward or a part of the reward falls while the reward rises.

    The fall is tested as in "Sustained change"; the reward must rise by four standard errors meanwhile.
    """
    for column in parts(context):
        change = fall(context, column)
        if change is None:
            continue
        rise = rises_meanwhile(context, change)
        if rise is None:
            continue
        label = "held-out reward" if column == "valid_reward" else column
        old, new = rise
        yield finding_of(
            context,
            change,
            f"{since(context.steps, change)}, the mean of {label}{at_place(change)} falls from "
            f"{number(change.before)} to {number(change.after)} while the reward rises from {number(old)} to "
            f"{number(new)}.",
            harmful=column == "valid_reward" or change.after < change.before / 2,
            column=column,
            evidence=[
                f"The fall is {standard_errors(change.z)} in {span(context.steps, change.mask)}.",
                _correlation(context, change, column),
            ],
            advice="Read samples with a high reward and a low value of the other: the policy may exploit the "
            "reward.",
            sort=column,
            subject=column,
        )


def _correlation(context: RuleContext, change: Change, column: str) -> str:
    """Return a sentence on the correlation of both rewards in the affected samples."""
    rows = affected_rows(context, change)
    a, b = rows.number("reward"), rows.number(column)
    known = np.isfinite(a) & np.isfinite(b)
    if known.sum() < 3 or not a[known].std() or not b[known].std():
        return "The affected samples do not have both numbers."
    return f"Correlation of both in the affected samples: {fixed(np.corrcoef(a[known], b[known])[0, 1])}."
