"""The KL penalty in the reward: what it took, and the coefficient that the rows themselves show.

RLHF maximises score − β Σ d, with d the log-ratio. Trainers that log the reward of each token show what was
taken; where they do not, β has to be given.
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments

_TRL = "TRL PPO and RLOO; the documentation's signs contradict the code, which this follows"


@metric(
    "non-score reward",
    level="sample",
    silent_at_zero=True,
    unit="reward",
    source=_TRL,
    good="near 0",
    advice="Below 0 the penalty costs reward; above 0 the policy is paid for being unlike itself, see "
    "log-ratio.",
    aliases=("objective/non_score_reward", "ppo/mean_non_score_reward"),
    scale="diverging",
    color="kl",
)
def non_score_reward(
    reward: np.ndarray,
    *,
    token_reward_sum: np.ndarray | None = None,
    log_ratio_sum: np.ndarray | None = None,
    kl_coef: float | None = None,
) -> np.ndarray:
    """Reward beside the score: Σ of the token rewards less the score, else −β Σ log-ratio where β is known.

    Token rewards that sum to exactly 0 beside another score are what writers without a critic log; they say
    nothing. Beside a score of 0 they may be honest.
    """
    unknown = np.full(len(reward), np.nan)
    given = unknown if kl_coef is None or log_ratio_sum is None else -kl_coef * log_ratio_sum
    if token_reward_sum is None:
        return given
    told = np.isfinite(token_reward_sum) & ((token_reward_sum != 0) | (reward == 0))
    return np.where(told, token_reward_sum - reward, given)


@metric(
    "RLHF reward",
    level="sample",
    silent_at_zero=True,
    unit="reward",
    source=_TRL,
    good="up",
    advice="The quantity that RLHF maximises; where it falls while the score rises, the KL costs too much.",
    aliases=("objective/rlhf_reward",),
    scale="diverging",
    color="policy",
)
def rlhf_reward(reward: np.ndarray, non_score_reward: np.ndarray) -> np.ndarray:
    """Score plus non-score reward."""
    return reward + non_score_reward


@metric("penalty fit xx", level="token", pooled=True)
def _fit_xx(
    token_rewards: np.ndarray, logprobs: np.ndarray, ref_logprobs: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Squared log-ratio, the last token left out: the score stands there."""
    return _but_last(np.square(logprobs - ref_logprobs), lengths)


@metric("penalty fit xy", level="token", pooled=True)
def _fit_xy(
    token_rewards: np.ndarray, logprobs: np.ndarray, ref_logprobs: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Log-ratio times token reward."""
    return _but_last((logprobs - ref_logprobs) * token_rewards, lengths)


@metric("penalty fit yy", level="token", pooled=True)
def _fit_yy(
    token_rewards: np.ndarray, logprobs: np.ndarray, ref_logprobs: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Squared token reward."""
    return _but_last(np.square(token_rewards), lengths)


def _but_last(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    values[np.cumsum(lengths) - 1] = 0.0  # in place: what comes in was just made
    return values


@metric(
    "KL coefficient (fit)",
    level="step",
    source="token rewards on log-ratio, for all tokens but the last",
    advice="Trust it where its fit is near 1; an adaptive controller moves it.",
    aliases=("objective/kl_coef",),
    color="kl",
)
def kl_coef_fit(
    by: Segments, _fit_xx_sum: np.ndarray, _fit_xy_sum: np.ndarray, _fit_yy_sum: np.ndarray
) -> np.ndarray:
    """β as the token rewards show it: the slope of −reward over log-ratio, through 0."""
    spread = by.sum(_fit_xx_sum)
    told = (spread > MEASURABLE) & (by.sum(_fit_yy_sum) > 0)  # no penalty at all is not logged, rather than 0
    return np.where(told, -by.sum(_fit_xy_sum) / spread, np.nan)


@metric(
    "fit of the KL coefficient",
    level="step",
    unit="R²",
    good="near 1",
    color="kl",
    source="token rewards on log-ratio, for all tokens but the last",
    advice="Below about 0.99 the token rewards are no k1 penalty, and the coefficient beside it says little.",
)
def kl_coef_r2(
    by: Segments, _fit_xx_sum: np.ndarray, _fit_xy_sum: np.ndarray, _fit_yy_sum: np.ndarray
) -> np.ndarray:
    """Share of the token rewards' squares that a k1 penalty explains."""
    spread, squares = by.sum(_fit_xx_sum), by.sum(_fit_yy_sum)
    return np.where(
        (spread > MEASURABLE) & (squares > 0), by.sum(_fit_xy_sum) ** 2 / (spread * squares), np.nan
    )


#: Σ d² of a step below which policy and reference are the same and no coefficient can be read off.
MEASURABLE = 1e-6
