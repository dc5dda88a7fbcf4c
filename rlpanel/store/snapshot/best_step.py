"""Chooses a run's best step on one half of the prompts, so that the other half can be compared without bias.

Of many steps, the one with the highest mean is in part the luckiest. On the prompts by which it was chosen it
would win against a run that is as good.
"""

from __future__ import annotations

import numpy as np

#: Fewest prompts of either half at the chosen step, if the run has steps with so many.
_FEWEST = 2


def choosing_half(keys: np.ndarray) -> np.ndarray:
    """Return the mask of the samples whose prompts take part in the choice of the best step.

    It depends only on the prompts' keys, which are hashes of their texts, so a prompt is in the same half in
    all runs and sessions. If no prompt of the run is in this half, all take part.
    """
    half = (keys & np.uint64(1)).astype(bool)
    return half if half.any() else np.ones(len(keys), bool)


def best_step(steps: np.ndarray, keys: np.ndarray, reward: np.ndarray, half: np.ndarray) -> int:
    """Return the step with the highest mean reward over the prompts of the choosing half.

    Each prompt counts once. Of equal steps, the first one is chosen.

    Parameters
    ----------
    steps : ndarray of int, shape (N,)
        Step of each sample; N is at least 1.
    keys : ndarray of uint64, shape (N,)
        Key of each sample's prompt.
    reward : ndarray of float, shape (N,)
        Finite rewards.
    half : ndarray of bool, shape (N,)
        Result of `choosing_half`.
    """
    order = np.lexsort((keys, steps))
    steps, keys = steps[order], keys[order]
    starts = np.flatnonzero(np.append(True, (steps[1:] != steps[:-1]) | (keys[1:] != keys[:-1])))
    # From here on, one entry for each prompt at each step.
    mean = np.add.reduceat(reward[order], starts) / np.diff(np.append(starts, len(steps)))
    chose = half[order][starts]
    values, index = np.unique(steps[starts], return_inverse=True)
    choosing, held_out = np.bincount(index, chose), np.bincount(index, ~chose)
    enough = (choosing >= _FEWEST) & (held_out >= _FEWEST)
    allowed = enough if enough.any() else choosing > 0
    total = np.bincount(index, np.where(chose, mean, 0.0))
    means = np.divide(total, choosing, out=np.full(len(values), -np.inf), where=allowed)
    return int(values[np.argmax(means)])
