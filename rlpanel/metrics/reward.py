"""Reward metrics: gap and win rate against the reference, token rewards, differences between ranks."""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments, SubSegments

#: Rewards that differ by at most this count as equal.
EQUAL_WITHIN = 1e-6


@metric(
    "reward gap",
    level="sample",
    formula=r"R_i - R_i^\mathrm{ref}",
    unit="reward",
    good="up",
    advice="Meaningful only if the reference answered the same prompts.",
    color="policy",
)
def reward_gap(reward: np.ndarray, ref_reward: np.ndarray) -> np.ndarray:
    """Reward minus the reference's reward for the same prompt; above 0 the policy wins."""
    return reward - ref_reward


@metric(
    "valid reward gap",
    level="sample",
    formula=r"R_i^\mathrm{valid} - R_i^\mathrm{ref, valid}",
    unit="reward",
    good="up",
    advice="If it falls while the reward gap rises, the policy exploits the reward instead of learning the "
    "task.",
    color="policy",
)
def valid_reward_gap(valid_reward: np.ndarray, ref_valid_reward: np.ndarray) -> np.ndarray:
    """Held-out reward minus the reference's held-out reward for the same prompt."""
    return valid_reward - ref_valid_reward


@metric(
    "token reward",
    level="token",
    unit="reward",
    reductions=("sum",),
    masked=False,
    zero_means_missing=True,
    advice="Zeros at all tokens beside a non-zero score mean nothing: trainers without a critic log them.",
    scale="diverging",
    color="policy",
)
def token_reward(token_rewards: np.ndarray) -> np.ndarray:
    """Reward of each token as used in training; their sum is the score minus the KL penalty."""
    return token_rewards


@metric(
    "win rate against the reference",
    level="step",
    unit="share",
    good="up",
    color="good",
    formula=r"\hat{p} = \frac{1}{n} \sum_i [R_i > R_i^\mathrm{ref}]",
    source="reward > ref_reward",
    advice="Look at its interval: with 64 samples it is ±12 percentage points wide.",
)
def win_share(by: Segments, reward_gap: np.ndarray) -> np.ndarray:
    """Share of samples with a higher reward than the reference's answer."""
    return _share(by, reward_gap, reward_gap > EQUAL_WITHIN)


@metric(
    "win rate, lower bound",
    level="step",
    unit="share",
    formula=r"\frac{\hat{p} + \frac{z^2}{2n} - z \sqrt{\frac{\hat{p}(1 - \hat{p})}{n} + "
    r"\frac{z^2}{4n^2}}}{1 + \frac{z^2}{n}}, \quad z = 1.96",
    source="Wilson 1927, 95 %",
    color="good",
    advice="If it is below 0.5, the policy may be no better than the reference.",
)
def win_share_low(by: Segments, reward_gap: np.ndarray) -> np.ndarray:
    """Lower end of the 95 % confidence interval of the win rate."""
    return wilson(win_share(by, reward_gap), by.count(reward_gap))[0]


@metric(
    "win rate, upper bound",
    level="step",
    unit="share",
    formula=r"\frac{\hat{p} + \frac{z^2}{2n} + z \sqrt{\frac{\hat{p}(1 - \hat{p})}{n} + "
    r"\frac{z^2}{4n^2}}}{1 + \frac{z^2}{n}}, \quad z = 1.96",
    source="Wilson 1927, 95 %",
    color="good",
    advice="Samples of one prompt are correlated, so the true interval is wider.",
)
def win_share_high(by: Segments, reward_gap: np.ndarray) -> np.ndarray:
    """Upper end of the 95 % confidence interval of the win rate."""
    return wilson(win_share(by, reward_gap), by.count(reward_gap))[1]


@metric(
    "ties with the reference",
    level="step",
    unit="share",
    formula=r"\frac{1}{n} \sum_i [R_i = R_i^\mathrm{ref}]",
    source="reward = ref_reward",
    color="muted",
    advice="A coarse reward causes many ties, which hide wins and losses.",
)
def tie_share(by: Segments, reward_gap: np.ndarray) -> np.ndarray:
    """Share of samples with the same reward as the reference's answer (within 1e-6)."""
    return _share(by, reward_gap, np.abs(reward_gap) <= EQUAL_WITHIN)


@metric(
    "losses to the reference",
    level="step",
    unit="share",
    good="down",
    formula=r"\frac{1}{n} \sum_i [R_i < R_i^\mathrm{ref}]",
    source="reward < ref_reward",
    color="bad",
    advice="It should fall during training.",
)
def loss_share(by: Segments, reward_gap: np.ndarray) -> np.ndarray:
    """Share of samples with a lower reward than the reference's answer."""
    return _share(by, reward_gap, reward_gap < -EQUAL_WITHIN)


def _share(by: Segments, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the share of rows in the mask among those with a finite value, per step."""
    return by.mean(np.where(np.isfinite(values), mask, np.nan))


def wilson(share: np.ndarray, count: np.ndarray, z: float = 1.959964) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of the Wilson score interval of a share of ``count`` samples."""
    middle = share + z * z / (2 * count)
    half = z * np.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - half) / (1 + z * z / count), (middle + half) / (1 + z * z / count)


@metric(
    "range of reward over ranks",
    level="step",
    unit="reward",
    good="near 0",
    color="bad",
    formula=r"\max_k \bar{R}_k - \min_k \bar{R}_k",
    source="highest less lowest mean reward of a rank",
    advice="All ranks draw from the same data. A rank that stays apart reads other data or uses another "
    "reward.",
    compares="the highest and the lowest mean reward of a rank",
    over="in each rank, the step's samples that have a reward, all equally",
    undefined="a step with rewards of fewer than two ranks",
)
def reward_rank_spread(by: Segments, rank: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Highest minus lowest mean reward of the step's ranks; NaN with a single rank."""
    ranks = SubSegments(by, rank)
    means = ranks.mean(reward)
    several = ranks.outer.count(means) > 1
    return np.where(several, ranks.outer.max(means) - ranks.outer.min(means), np.nan)
