"""Reward metrics: gap and win rate against the reference, token rewards, ranks, and the KL penalty."""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments, SubSegments

# -- reward --------------------------------------------------------------------------------------------
# Reward metrics: gap and win rate against the reference, token rewards, differences between ranks.


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


# -- kl penalty ----------------------------------------------------------------------------------------
# KL penalty in the reward: its size, and the coefficient β estimated from token rewards.
#
# RLHF maximises score − β Σ d, with d the log-ratio. If token rewards are logged, the penalty follows from
# them; otherwise β has to be given.


_TRL = "TRL PPO and RLOO; the documentation's signs contradict the code, which this follows"


@metric(
    "non-score reward",
    level="sample",
    zero_means_missing=True,
    unit="reward",
    formula=r"\sum_t r_t - R_i, \quad \mathrm{else} \quad -\beta \sum_t d_t \quad \mathrm{or} \quad "
    r"-\beta \sum_t k_3(d_t)",
    source=_TRL,
    good="near 0",
    advice="Below 0 the penalty costs reward. Above 0 it adds reward, which means that the log-ratio is "
    "negative: see its advice.",
    scale="diverging",
    color="kl",
    compares="token rewards and score; without token rewards, −β times the sum of k1 or k3",
    undefined="a sample without token rewards and score, unless it has log-ratios and β is given; "
    "a run with zeros only",
)
def non_score_reward(
    reward: np.ndarray,
    *,
    token_reward_sum: np.ndarray | None = None,
    log_ratio_sum: np.ndarray | None = None,
    kl_k3_sum: np.ndarray | None = None,
    kl_coef: float | None = None,
    kl_estimator: str | None = None,
) -> np.ndarray:
    """KL penalty's part of the reward: Σ token rewards − score or, without those, −β Σ KL.

    The KL of a token is its log-ratio, or its k3 if that is the trainer's estimator. Token rewards that sum
    to exactly 0 while the score is not 0 are ignored: trainers without a critic fill the field with zeros.
    If the score is 0 too, they may be real.
    """
    kl = kl_k3_sum if kl_estimator == "k3" else log_ratio_sum
    penalty = np.full(len(reward), np.nan) if kl_coef is None or kl is None else -kl_coef * kl
    if token_reward_sum is None:
        return penalty
    logged = np.isfinite(token_reward_sum) & ((token_reward_sum != 0) | (reward == 0))
    return np.where(logged, token_reward_sum - reward, penalty)


@metric(
    "RLHF reward",
    level="sample",
    zero_means_missing=True,
    unit="reward",
    formula=r"R_i + \mathrm{non\ score\ reward}_i",
    source=_TRL,
    good="up",
    advice="The quantity that RLHF maximises. If it falls while the score rises, the KL penalty outweighs "
    "the gain.",
    scale="diverging",
    color="policy",
    quantity="score plus non-score reward",
    undefined="a sample without reward or non-score reward; a run with zeros only",
)
def rlhf_reward(reward: np.ndarray, non_score_reward: np.ndarray) -> np.ndarray:
    """Score plus non-score reward."""
    return reward + non_score_reward


@metric("penalty fit xx", level="token", pooled=True)
def _fit_xx(
    token_rewards: np.ndarray, logprobs: np.ndarray, ref_logprobs: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Return the squared log-ratio, 0 at the last token, whose reward contains the score."""
    return _fit_term(np.square(logprobs - ref_logprobs), token_rewards, lengths)


@metric("penalty fit xy", level="token", pooled=True)
def _fit_xy(
    token_rewards: np.ndarray, logprobs: np.ndarray, ref_logprobs: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Return log-ratio times token reward, 0 at the last token."""
    return _fit_term((logprobs - ref_logprobs) * token_rewards, token_rewards, lengths)


@metric("penalty fit yy", level="token", pooled=True)
def _fit_yy(
    token_rewards: np.ndarray, logprobs: np.ndarray, ref_logprobs: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Return the squared token reward, 0 at the last token."""
    return _fit_term(np.square(token_rewards), logprobs - ref_logprobs, lengths)


def _fit_term(values: np.ndarray, other: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Set the last token of each response to 0, in place: the callers pass temporary arrays.

    Tokens at which ``other`` is missing are NaN, so that the three sums of a fit leave out the same samples.
    """
    values[np.isnan(other)] = np.nan
    values[np.cumsum(lengths) - 1] = 0.0
    return values


_FIT_COMPARES = "token rewards and log-ratios, at each token"
_FIT_OVER = "all tokens in the loss mask of the step, but each response's last one"
_FIT_UNDEFINED = "a step whose log-ratios or token rewards are all 0, apart from each response's last token"


@metric(
    "KL coefficient (fit)",
    level="step",
    formula=r"\hat{\beta} = -\frac{\sum_t d_t r_t}{\sum_t d_t^2}",
    source="token rewards on log-ratio, for all tokens but the last",
    advice="Reliable only if the R² of its fit is near 1. It changes under an adaptive KL controller.",
    color="kl",
    compares=_FIT_COMPARES,
    over=_FIT_OVER,
    undefined=_FIT_UNDEFINED,
)
def kl_coef_fit(
    by: Segments, _fit_xx_sum: np.ndarray, _fit_xy_sum: np.ndarray, _fit_yy_sum: np.ndarray
) -> np.ndarray:
    """β estimated from token rewards: least-squares slope through 0 of −reward over log-ratio."""
    xx = by.sum(_fit_xx_sum)
    # If all token rewards are 0, they were not logged: the result is NaN rather than β = 0.
    measurable = (xx > MEASURABLE) & (by.sum(_fit_yy_sum) > 0)
    return np.where(measurable, -by.sum(_fit_xy_sum) / xx, np.nan)


@metric(
    "KL coefficient (fit), R²",
    level="step",
    unit="R²",
    good="near 1",
    color="kl",
    formula=r"\frac{(\sum_t d_t r_t)^2}{\sum_t d_t^2 \sum_t r_t^2}",
    source="token rewards on log-ratio, for all tokens but the last",
    advice="Below about 0.99 the token rewards are not a k1 penalty, and the fitted coefficient means "
    "little.",
    compares=_FIT_COMPARES,
    over=_FIT_OVER,
    undefined=_FIT_UNDEFINED,
)
def kl_coef_r2(
    by: Segments, _fit_xx_sum: np.ndarray, _fit_xy_sum: np.ndarray, _fit_yy_sum: np.ndarray
) -> np.ndarray:
    """R² of the fitted KL coefficient: share of the squared token rewards that a k1 penalty explains."""
    xx, yy = by.sum(_fit_xx_sum), by.sum(_fit_yy_sum)
    return np.where((xx > MEASURABLE) & (yy > 0), by.sum(_fit_xy_sum) ** 2 / (xx * yy), np.nan)


#: Σ d² of a step below which policy and reference count as equal, so that no coefficient can be fitted.
MEASURABLE = 1e-6
