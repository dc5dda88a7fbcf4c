"""What the response earned, against the reference and token by token."""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.registry import metric


@metric("reward gap", level="sample", unit="reward", color="policy")
def reward_gap(reward: np.ndarray, ref_reward: np.ndarray) -> np.ndarray:
    """Reward minus the reference's reward for the same prompt; above 0 the policy won.

    Parameters
    ----------
    reward, ref_reward : ndarray of float, shape (N,)

    Returns
    -------
    ndarray of float, shape (N,)
    """
    return reward - ref_reward


@metric("valid reward gap", level="sample", unit="reward", color="policy")
def valid_reward_gap(valid_reward: np.ndarray, ref_valid_reward: np.ndarray) -> np.ndarray:
    """Held-out reward minus the reference's held-out reward for the same prompt.

    Parameters
    ----------
    valid_reward, ref_valid_reward : ndarray of float, shape (N,)

    Returns
    -------
    ndarray of float, shape (N,)
    """
    return valid_reward - ref_valid_reward


@metric(
    "token reward",
    level="token",
    unit="reward",
    reductions=("sum",),
    scale="diverging",
    color="policy",
)
def token_reward(token_rewards: np.ndarray) -> np.ndarray:
    """The reward training used at each token; its sum is the score with the KL penalty taken off.

    Parameters
    ----------
    token_rewards : ndarray of float, shape (T,)

    Returns
    -------
    ndarray of float, shape (T,)
    """
    return token_rewards
