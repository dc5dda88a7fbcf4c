"""Finds the weights with which a reward is the sum of its logged parts, if it is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

#: Prefix of the columns of a reward's parts.
PARTS = "rewards/"
#: Largest distance of a sum from the reward, and the least share of the samples where it is smaller.
_CLOSE, _MIN_SHARE = 1e-3, 0.95
#: Singular values of the correlations of parts that are smaller, relative to the largest, count as 0.
_SINGULAR = 1e-10


@dataclass(frozen=True)
class RewardSum:
    """A reward as a weighted sum of its parts plus a constant.

    Attributes
    ----------
    weights : dict of str to float
        Of the parts that vary in the samples.
    offset : float
        What is added: also what the parts in ``constant`` add.
    constant : dict of str to float
        Values of the parts that are the same in all samples, so that their weight is not known.
    is_unique : bool
        False if parts depend on one another, so that other weights fit as well.
    """

    weights: dict[str, float]
    offset: float
    constant: dict[str, float]
    is_unique: bool

    def expected(self, parts: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward that follows from the parts, shape (N,); NaN where a part is missing."""
        total: np.ndarray | float = self.offset
        for name, weight in self.weights.items():
            total = total + weight * parts[name]
        return np.asarray(total)


def fitted_sum(reward: np.ndarray, parts: Mapping[str, np.ndarray]) -> RewardSum:
    """Return the weighted sum of parts that is next to a reward, by ordinary least squares with a constant.

    Parameters
    ----------
    reward : ndarray of float, shape (N,)
        Finite, of at least one sample.
    parts : mapping of str to ndarray of float, shape (N,)
        Finite.
    """
    constant = {name: float(values[0]) for name, values in parts.items() if not np.ptp(values)}
    names = [name for name in parts if name not in constant]
    middle = float(reward.mean())
    if not names:
        return RewardSum({}, middle, constant, is_unique=True)
    means = np.array([parts[name].mean() for name in names])
    scales = np.array([parts[name].std() for name in names])
    centred = [(parts[name] - mean) / scale for name, mean, scale in zip(names, means, scales, strict=True)]
    # Sums of products by hand: a product of large matrices would wake a thread for each core.
    products = np.array([[(a * b).sum() for b in centred] for a in centred])
    target = np.array([(each * (reward - middle)).sum() for each in centred])
    fitted, _, rank, _ = np.linalg.lstsq(products, target, rcond=_SINGULAR)
    weights = fitted / scales
    offset = middle - float((weights * means).sum())
    return RewardSum(
        dict(zip(names, weights.tolist(), strict=True)), offset, constant, bool(rank == len(names))
    )


def reward_weights(view: RunView, rows: np.ndarray) -> dict[str, float]:
    """Return the weight of each part of the reward; empty if the reward is not a weighted sum of them.

    A part that is missing counts as 0. Weights of 1 are tried first, then those of least squares; a part
    that does not vary then has the weight 0.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int
        Rows by which this is decided.
    """
    parts = part_names(view.snapshot)
    reward = view.counted("reward", rows)
    finite = np.isfinite(reward)
    if not parts or not finite.any():
        return {}
    reward = reward[finite].astype(float)
    values = {name: np.nan_to_num(view.counted(name, rows)[finite].astype(float)) for name in parts}
    plain = RewardSum(dict.fromkeys(parts, 1.0), 0.0, {}, is_unique=True)
    for found in (plain, fitted_sum(reward, values)):
        if close_share(found.expected(values), reward) >= _MIN_SHARE:
            return {name: found.weights.get(name, 0.0) for name in parts}
    return {}


def part_names(snapshot: Snapshot) -> list[str]:
    """Return the columns of the reward's parts."""
    return [name for name in snapshot.numbers if name.startswith(PARTS)]


def close_share(expected: np.ndarray, reward: np.ndarray) -> float:
    """Return the share of samples whose reward is the expected one but for rounding."""
    return float((np.abs(expected - reward) <= _CLOSE * (1 + np.abs(reward))).mean())
