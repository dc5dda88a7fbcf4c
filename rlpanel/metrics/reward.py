"""What the response earned, against the reference and token by token."""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments, SubSegments

#: Rewards no further apart than this are the same.
SAME = 1e-6


@metric(
    "reward gap",
    level="sample",
    unit="reward",
    good="up",
    advice="Rises with the policy only where the reference answered the same prompts.",
    color="policy",
)
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


@metric(
    "valid reward gap",
    level="sample",
    unit="reward",
    good="up",
    advice="Where it falls while the reward gap rises, the policy learns the reward and not the task.",
    color="policy",
)
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
    silent_at_zero=True,
    advice="All zeros beside another score is what trainers without a critic log; it says nothing.",
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


@metric(
    "wins against the reference",
    level="step",
    unit="share",
    good="up",
    color="good",
    source="reward > ref_reward",
    advice="Compare its interval, not the number: 64 samples leave ±12 points.",
)
def win_share(by: Segments, reward_gap: np.ndarray) -> np.ndarray:
    """Share of samples that score above the reference's answer."""
    return _share(by, reward_gap, reward_gap > SAME)


@metric(
    "wins, lower bound",
    level="step",
    unit="share",
    source="Wilson 1927, 95 %",
    color="good",
    advice="Below 0.5 the policy may be no better than the reference.",
)
def win_share_low(by: Segments, reward_gap: np.ndarray) -> np.ndarray:
    """Lower end of the 95 % interval of the share of wins."""
    return wilson(win_share(by, reward_gap), by.count(reward_gap))[0]


@metric(
    "wins, upper bound",
    level="step",
    unit="share",
    source="Wilson 1927, 95 %",
    color="good",
    advice="Samples of one prompt go together, so the true interval is wider.",
)
def win_share_high(by: Segments, reward_gap: np.ndarray) -> np.ndarray:
    """Upper end of the 95 % interval of the share of wins."""
    return wilson(win_share(by, reward_gap), by.count(reward_gap))[1]


@metric(
    "ties with the reference",
    level="step",
    unit="share",
    source="reward = ref_reward",
    color="muted",
    advice="Many ties under a coarse reward hide both wins and losses.",
)
def tie_share(by: Segments, reward_gap: np.ndarray) -> np.ndarray:
    """Share of samples that score what the reference's answer scores (within 1e-6)."""
    return _share(by, reward_gap, np.abs(reward_gap) <= SAME)


@metric(
    "losses to the reference",
    level="step",
    unit="share",
    good="down",
    source="reward < ref_reward",
    color="bad",
    advice="Should fall as training goes on.",
)
def loss_share(by: Segments, reward_gap: np.ndarray) -> np.ndarray:
    """Share of samples that score below the reference's answer."""
    return _share(by, reward_gap, reward_gap < -SAME)


def _share(by: Segments, values: np.ndarray, which: np.ndarray) -> np.ndarray:
    return by.mean(np.where(np.isfinite(values), which, np.nan))


def wilson(share: np.ndarray, count: np.ndarray, z: float = 1.959964) -> tuple[np.ndarray, np.ndarray]:
    """Ends of Wilson's interval of a share among ``count`` draws."""
    middle = share + z * z / (2 * count)
    half = z * np.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)


@metric(
    "spread between ranks",
    level="step",
    unit="reward",
    good="near 0",
    color="bad",
    source="highest less lowest mean reward of a rank",
    advice="Ranks draw from the same data; one that stays apart reads other data or scores otherwise.",
)
def reward_rank_spread(by: Segments, rank: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """How far apart the ranks' mean rewards are; NaN with a single rank."""
    ranks = SubSegments(by, rank)
    means = ranks.mean(reward)
    several = ranks.outer.count(means) > 1
    return np.where(several, ranks.outer.max(means) - ranks.outer.min(means), np.nan)
