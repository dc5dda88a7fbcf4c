"""How runs are compared: the x axis on which they are aligned, and the reward by which they are measured.

The axis is steps, samples seen, or wall time. Rewards are compared by the reward functions that both runs log
if their rewards mean different things.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlpanel.board_url import SAMPLES, STEP, TIME
from rlpanel.store.columns.step_stats import MAX, MIN
from rlpanel.store.snapshot.snapshot import Snapshot

#: Label on screen → name in the URL.
ALIGNMENTS = {"step": STEP, "samples seen": SAMPLES, "wall time": TIME}
#: Quantity on the axis, for tooltips and exported tables.
AXIS_LABELS = {STEP: "step", SAMPLES: "samples seen", TIME: "hours"}
#: Sample columns with the time of writing, in seconds since the epoch; the first that the run has is used.
CLOCKS = ("time", "timestamp")
_HOUR = 3600.0


@dataclass(frozen=True)
class RunAxis:
    """Positions of a run's steps on the x axis.

    Attributes
    ----------
    steps : ndarray of int, shape (S,)
        Ascending.
    positions : ndarray of float, shape (S,)
        Position of each step, never falling: the step itself, the number of samples up to its end, or the
        hours up to its last sample.
    """

    steps: np.ndarray
    positions: np.ndarray

    def positions_of(self, steps: np.ndarray) -> np.ndarray:
        """Return the positions of any steps; one that the run lacks has the position of the step before."""
        if self.steps is self.positions:
            return np.asarray(steps, float)
        index = np.searchsorted(self.steps, steps, side="right") - 1
        return self.positions[index.clip(min=0)] if len(self.positions) else np.full(np.shape(steps), np.nan)

    def nearest(self, x: float) -> int | None:
        """Return the step nearest to a position on the axis; None while there are no steps."""
        return int(self.steps[np.abs(self.positions - x).argmin()]) if len(self.steps) else None


def axis_of(snapshot: Snapshot, alignment: str) -> RunAxis | None:
    """Return the axis of a run; None if the run does not log the time that the alignment needs."""
    steps = snapshot.steps.values
    if alignment == SAMPLES:
        return RunAxis(steps, np.cumsum(snapshot.steps.samples).astype(float))
    if alignment == TIME:
        clock = next((name for name in CLOCKS if snapshot.has_number(name)), None)
        return None if clock is None else RunAxis(steps, _hours(snapshot, clock))
    return RunAxis(steps, steps)


def chosen_axis(snapshot: Snapshot, alignment: str) -> RunAxis:
    """Return the axis of the selected run for the chosen alignment, or its step axis if it lacks that one."""
    steps = snapshot.steps.values
    return axis_of(snapshot, alignment) or RunAxis(steps, steps)


def alignment_of(snapshot: Snapshot, alignment: str) -> str:
    """Return the alignment in use for the selected run: the chosen one, or the step if the run lacks it."""
    return alignment if axis_of(snapshot, alignment) is not None else STEP


def _hours(snapshot: Snapshot, clock: str) -> np.ndarray:
    """Return the hours from the run's first sample to each step's last one.

    A step without times has the hours of the step before it.
    """
    first, last = snapshot.steps.stat(clock, MIN), snapshot.steps.stat(clock, MAX)
    if not len(last):
        return last
    start = np.nanmin(first)
    return (np.fmax.accumulate(np.fmax(last, start)) - start) / _HOUR


#: Columns with the score of one reward function start with this.
_FUNCTION = "rewards/"

#: Weights of the summed functions: those that both runs give; or all 1, since the runs give different ones
#: ("different") or at least one run does not give them ("unknown").
Weighting = Literal["same", "different", "unknown"]


@dataclass(frozen=True)
class ComparedReward:
    """The number by which two runs are compared.

    Attributes
    ----------
    functions : tuple of str
        Reward functions that are summed; empty if the logged ``reward`` is compared.
    weights : tuple of float
        Weight of each of these functions.
    weighting : {"same", "different", "unknown"}
        Where the weights come from.
    only_here, only_there : tuple of str
        Reward functions that only the first or only the second run logs.
    """

    functions: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    weighting: Weighting = "unknown"
    only_here: tuple[str, ...] = ()
    only_there: tuple[str, ...] = ()

    @property
    def doubtful(self) -> bool:
        """True if the logged ``reward`` is compared although the runs log other reward functions."""
        return not self.functions and bool(self.only_here or self.only_there)

    def values(self, snapshot: Snapshot) -> np.ndarray:
        """Return the number of each sample, shape (rows,); NaN for samples that have none.

        As in TRL, a function without a score is left out of its sample's sum.
        """
        if not self.functions:
            logged = snapshot.has_number("reward")
            return snapshot.counted("reward") if logged else np.full(snapshot.rows, np.nan)
        total, scored = np.zeros(snapshot.rows), np.zeros(snapshot.rows, bool)
        for function, weight in zip(self.functions, self.weights, strict=True):
            scores = snapshot.counted(_FUNCTION + function)
            has_score = ~np.isnan(scores)
            total[has_score] += weight * scores[has_score]
            scored |= has_score
        return np.where(scored, total, np.nan)


def compared_reward(here: Snapshot, there: Snapshot) -> ComparedReward:
    """Choose the number by which two runs are compared.

    The rewards themselves are compared if both runs log the same reward functions and give them the same
    weights, as far as known, or if they share no function. Else the functions that both log are summed.
    """
    mine, theirs = _functions(here), _functions(there)
    shared = tuple(name for name in mine if name in theirs)
    only_here = tuple(name for name in mine if name not in theirs)
    only_there = tuple(name for name in theirs if name not in mine)
    weights, weighting = _weights(here, there, shared)
    equal_rewards = not (only_here or only_there) and weighting != "different"
    if equal_rewards or not shared:
        return ComparedReward(only_here=only_here, only_there=only_there)
    return ComparedReward(shared, weights, weighting, only_here, only_there)


def _functions(snapshot: Snapshot) -> list[str]:
    """Return the names of the reward functions that have a score in the run."""
    columns = (name for name in snapshot.numbers if name.startswith(_FUNCTION))
    return [name.removeprefix(_FUNCTION) for name in columns if snapshot.has_number(name)]


def _weights(
    here: Snapshot, there: Snapshot, functions: tuple[str, ...]
) -> tuple[tuple[float, ...], Weighting]:
    """Return the weight of each function, and where the weights come from."""
    mine, theirs = _given(here, functions), _given(there, functions)
    if not mine or not theirs:
        return (1.0,) * len(functions), "unknown"
    return (mine, "same") if mine == theirs else ((1.0,) * len(functions), "different")


def _given(snapshot: Snapshot, functions: tuple[str, ...]) -> tuple[float, ...]:
    """Return the weights that a run gives for these functions; empty if it does not give all of them."""
    weights = snapshot.constants.get("reward_weights")
    if not isinstance(weights, Mapping) or not all(name in weights for name in functions):
        return ()
    return tuple(weights[name] for name in functions)
