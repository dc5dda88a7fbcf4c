"""Finds the weights with which a reward is the sum of its logged parts, if it is one."""

from __future__ import annotations

import numpy as np

from rlpanel.store.snapshot.run_view import RunView

#: Prefix of the columns of a reward's parts.
PARTS = "rewards/"
#: Largest distance of a sum from the reward, and the least share of the samples where it is smaller.
_CLOSE, _MOST = 1e-3, 0.95


def reward_weights(view: RunView, rows: np.ndarray) -> dict[str, float]:
    """Return the weight of each part of the reward; empty if the reward is not a weighted sum of them.

    A part that is missing counts as 0. Weights of 1 are tried first, then those of least squares.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int
        Rows by which this is decided.
    """
    names = [name for name in view.snapshot.numbers if name.startswith(PARTS)]
    reward = view.counted("reward", rows)
    finite = np.isfinite(reward)
    if not names or not finite.any():
        return {}
    reward = reward[finite].astype(float)
    parts = np.stack([np.nan_to_num(view.counted(name, rows)[finite].astype(float)) for name in names])
    for weights in (np.ones(len(names)), _fitted(parts, reward)):
        # A sum of products by hand: a matrix product would wake a thread for each core.
        distance = np.abs((weights[:, None] * parts).sum(axis=0) - reward)
        if (distance <= _CLOSE * (1 + np.abs(reward))).mean() >= _MOST:
            return dict(zip(names, weights.tolist(), strict=True))
    return {}


def _fitted(parts: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Return the weights of least squares, from the small matrix of products of the parts."""
    products = np.array([[(a * b).sum() for b in parts] for a in parts])
    return np.linalg.lstsq(products, (parts * reward).sum(axis=1), rcond=None)[0]
