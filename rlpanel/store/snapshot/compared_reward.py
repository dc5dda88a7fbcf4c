"""Decides by which number two runs are compared: their reward, or the reward functions that both log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlpanel.store.snapshot.snapshot import Snapshot

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
