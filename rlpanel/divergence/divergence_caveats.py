"""Limits of a comparison of two runs: few or unpaired steps, other prompts, changed rewards, restarts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.divergence.step_pairs import StepPairs
from rlpanel.findings.engine.places import GROUPS
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import each_sample
from rlpanel.findings.engine.window_scan import MIN_STEPS
from rlpanel.number_text import number
from rlpanel.store.columns.step_stats import MAX, MIN
from rlpanel.store.snapshot.alignment import compared_reward

#: Statements by name, with places for their values.
CAVEATS = {
    "no_steps": "The runs have {count} common steps. Align by samples or time, or log more steps.",
    "few_steps": "With {count} common steps, the noise between steps is not known: only large differences "
    "are found.",
    "unpaired": "{left} of {total} steps of {run} have no counterpart.",
    "resumed": "{run} was resumed: {count} samples of older attempts are left out.",
    "mixed": "Some steps of {run} may hold samples of two attempts.",
    "one_group": "{run} has one group a step: its errors come from the noise between steps alone.",
    "seed": "Two runs cannot separate the effect of a setting from that of the seed: repeat both with "
    "other seeds.",
    "other_prompts": "The runs share {share} of their prompts: levels are not compared, only what "
    "changes later.",
    "other_steps": "The runs share {share} of their prompts, but not in the same steps: means are compared.",
    "functions": "Reward functions differ (only in the first run: {here}; only in the second: {there}): the "
    "reward is not compared.",
    "weights": "The weights of the reward functions differ: the reward is not compared.",
    "large_evaluation": "The evaluation in the folder {folder} of {run} is too large and was not read: its "
    "prompts in the training are not looked for.",
    "scale": "{column} has another scale from the start (range {here} and {there}): it is not compared.",
}
#: Fewer common steps leave little power, and this share of a run's steps without a counterpart is named.
FEW_STEPS, _UNPAIRED = 16, 0.1
#: Prompts are shared if this share of those of both runs is.
SHARED = 0.5
#: Ranges of a reward that differ by this factor are different scales, and the first steps that are compared.
_SCALE, _FIRST = 3.0, 5


@dataclass(frozen=True)
class Caveat:
    """A statement about what cannot be claimed.

    Attributes
    ----------
    name : str
        Key of `CAVEATS`.
    values : tuple of (str, object)
    """

    name: str
    values: tuple[tuple[str, object], ...] = ()

    @property
    def text(self) -> str:
        """The statement with places for its values."""
        return CAVEATS[self.name]

    def __str__(self) -> str:
        return self.text.format(**dict(self.values))


def caveat(name: str, **values: object) -> Caveat:
    """Return a statement with its values."""
    return Caveat(name, tuple(values.items()))


def step_caveats(mine: RuleContext, theirs: RuleContext, pairs: StepPairs) -> Iterator[Caveat]:
    """Yield what few, unpaired or mixed steps leave open."""
    if len(pairs) < MIN_STEPS:
        yield caveat("no_steps", count=len(pairs))
        return
    if len(pairs) < FEW_STEPS:
        yield caveat("few_steps", count=len(pairs))
    for context, pair in ((mine, pairs.here), (theirs, pairs.there)):
        snapshot, left = context.snapshot, int((pair < 0).sum())
        if left > _UNPAIRED * len(pair):
            yield caveat("unpaired", left=left, total=len(pair), run=snapshot.name)
        if snapshot.older:
            yield caveat("resumed", run=snapshot.name, count=snapshot.older)
        if any(remark.kind == "attempts" for remark in snapshot.remarks):
            yield caveat("mixed", run=snapshot.name)
        if context.view.grouped and np.median(context.table(each_sample)[GROUPS, 0]) < 2:
            yield caveat("one_group", run=snapshot.name)
    yield caveat("seed")


def prompt_caveats(shared: float, by_prompt: int) -> Iterator[Caveat]:
    """Yield what other prompts leave open.

    Parameters
    ----------
    shared : float
        See `shared_prompts`.
    by_prompt : int
        Number of pairs of steps that are compared prompt by prompt.
    """
    if shared < SHARED:
        yield caveat("other_prompts", share=f"{shared:.0%}")
    elif not by_prompt:
        yield caveat("other_steps", share=f"{shared:.0%}")


def reward_caveats(mine: RuleContext, theirs: RuleContext) -> tuple[list[Caveat], frozenset[str]]:
    """Return what changed reward functions leave open, and the columns that are not compared."""
    found, ignored = list[Caveat](), set[str]()
    reward = compared_reward(mine.snapshot, theirs.snapshot)
    if reward.only_here or reward.only_there:
        ignored |= {"reward", "advantage"}
        here, there = (", ".join(names) or "–" for names in (reward.only_here, reward.only_there))
        found.append(caveat("functions", here=here, there=there))
    elif reward.weighting == "different":
        ignored |= {"reward", "advantage"}
        found.append(caveat("weights"))
    for column in mine.snapshot.numbers:
        is_reward = column == "reward" or column.startswith("rewards/")
        if is_reward and column not in ignored and theirs.snapshot.has_number(column):
            sizes = [_range(context, column) for context in (mine, theirs)]
            if min(sizes) > 0 and max(sizes) > _SCALE * min(sizes):
                ignored.add(column)
                here, there = (number(size) for size in sizes)
                found.append(caveat("scale", column=column, here=here, there=there))
    return found, frozenset(ignored)


def _range(context: RuleContext, column: str) -> float:
    """Return the range of a column in the first steps; 0 if it is not known."""
    size = min(len(context.steps), _FIRST)
    low, high = (context.snapshot.steps.stat(column, part)[:size] for part in (MIN, MAX))
    if not np.isfinite(low).any():
        return 0.0
    return float(np.nanmax(high) - np.nanmin(low))


def shared_prompts(mine: RuleContext, theirs: RuleContext) -> float:
    """Return the share of the prompts of both runs that the other one has, too: the smaller one."""
    sets = [np.unique(context.snapshot.prompts(context.rows)) for context in (mine, theirs)]
    common = len(np.intersect1d(sets[0], sets[1]))
    return min(common / max(len(each), 1) for each in sets)
