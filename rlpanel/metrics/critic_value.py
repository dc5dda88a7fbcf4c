"""Critic metrics: values, returns, advantages, value error and explained variance.

Returns and advantages that were not logged are derived from ``values`` and ``token_rewards`` by GAE (see
`rlpanel.metrics.engine.derived_arrays`).
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments

_GAE = "logged, else GAE(γ, λ): Schulman 2016"


@metric(
    "value",
    level="token",
    unit="reward",
    reductions=("mean",),
    pooled=True,
    zero_means_missing=True,
    advice="It should approach the return, which it predicts. A critic initialised at 0 stays near 0 in the "
    "first steps.",
    scale="diverging",
    color="length",
)
def value(values: np.ndarray) -> np.ndarray:
    """The critic's value estimate at each token.

    Parameters
    ----------
    values : ndarray of float, shape (T,)

    Returns
    -------
    ndarray of float, shape (T,)
    """
    return values


@metric(
    "token advantage",
    level="token",
    source=_GAE,
    reductions=("mean",),
    pooled=True,
    zero_means_missing=True,
    advice="Whitened advantages have mean 0 by construction, so look for single tokens far from 0.",
    scale="diverging",
    color="reference",
)
def token_advantage(advantages: np.ndarray) -> np.ndarray:
    """Advantage of each token: as logged, else derived from values and token rewards.

    Parameters
    ----------
    advantages : ndarray of float, shape (T,)

    Returns
    -------
    ndarray of float, shape (T,)
    """
    return advantages


@metric(
    "return",
    level="token",
    unit="reward",
    source=_GAE,
    reductions=("mean",),
    pooled=True,
    zero_means_missing=True,
    advice="With γ = λ = 1 it is the score minus the KL penalty of the remaining tokens.",
    scale="diverging",
    color="good",
)
def token_return(returns: np.ndarray) -> np.ndarray:
    """Return that the critic was trained to predict: as logged, else advantage plus value.

    Parameters
    ----------
    returns : ndarray of float, shape (T,)

    Returns
    -------
    ndarray of float, shape (T,)
    """
    return returns


@metric("squared value", level="token", pooled=True, zero_means_missing=True)
def _value_sq(values: np.ndarray) -> np.ndarray:
    """Return V² of each token."""
    return np.square(values)


@metric("squared return", level="token", pooled=True, zero_means_missing=True)
def _return_sq(returns: np.ndarray) -> np.ndarray:
    """Return G² of each token."""
    return np.square(returns)


@metric("return minus value", level="token", pooled=True, zero_means_missing=True)
def _error(values: np.ndarray, returns: np.ndarray) -> np.ndarray:
    """Return G − V of each token."""
    return returns - values


@metric("squared value error", level="token", pooled=True, zero_means_missing=True)
def _error_sq(values: np.ndarray, returns: np.ndarray) -> np.ndarray:
    """Return (G − V)² of each token."""
    return np.square(returns - values)


@metric(
    "value, mean over tokens",
    level="step",
    unit="reward",
    source="TRL PPO",
    color="length",
    advice="Compare it with the mean return: a constant difference means a biased critic.",
    aliases=("ppo/val/mean", "ppo/val/vpred"),
    scale="diverging",
)
def value_pooled(by: Segments, value_sum: np.ndarray, value_count: np.ndarray) -> np.ndarray:
    """Mean value over all tokens of the step, as estimated at the time of sampling."""
    return by.ratio(value_sum, value_count)


@metric(
    "value, variance over tokens",
    level="step",
    source="TRL PPO",
    color="length",
    advice="Near 0 the critic predicts the same value everywhere.",
    aliases=("ppo/val/var",),
)
def value_variance(
    by: Segments, value_sum: np.ndarray, _value_sq_sum: np.ndarray, value_count: np.ndarray
) -> np.ndarray:
    """Variance of the value over all tokens of the step."""
    return _variance(by, value_sum, _value_sq_sum, value_count)


@metric(
    "return, mean over tokens",
    level="step",
    unit="reward",
    source="TRL PPO",
    color="good",
    good="up",
    advice="Rises with the reward; long responses weigh more than short ones.",
    aliases=("ppo/returns/mean",),
    scale="diverging",
)
def return_pooled(by: Segments, token_return_sum: np.ndarray, token_return_count: np.ndarray) -> np.ndarray:
    """Mean return over all tokens of the step."""
    return by.ratio(token_return_sum, token_return_count)


@metric(
    "return, variance over tokens",
    level="step",
    source="TRL PPO",
    color="good",
    advice="The variance that the critic has to explain.",
    aliases=("ppo/returns/var",),
)
def return_variance(
    by: Segments, token_return_sum: np.ndarray, _return_sq_sum: np.ndarray, token_return_count: np.ndarray
) -> np.ndarray:
    """Variance of the return over all tokens of the step."""
    return _variance(by, token_return_sum, _return_sq_sum, token_return_count)


@metric(
    "advantage, mean over tokens",
    level="step",
    source="TRL PPO",
    good="near 0",
    color="reference",
    advice="Whitened advantages have a mean of 0 by construction.",
    scale="diverging",
    aliases=("ppo/policy/advantages_mean", "ppo/policy/advantages"),
)
def advantage_pooled(
    by: Segments, token_advantage_sum: np.ndarray, token_advantage_count: np.ndarray
) -> np.ndarray:
    """Mean advantage over all tokens of the step."""
    return by.ratio(token_advantage_sum, token_advantage_count)


@metric(
    "value error",
    level="step",
    source="TRL PPO",
    good="down",
    color="bad",
    advice="It is squared, so it depends on the scale of rewards; explained variance does not.",
    aliases=("ppo/val/error",),
)
def value_error(by: Segments, _error_sq_sum: np.ndarray, _error_count: np.ndarray) -> np.ndarray:
    """Mean squared difference between return and value over all tokens of the step."""
    return by.ratio(_error_sq_sum, _error_count)


@metric(
    "explained variance",
    level="step",
    source="1 − Var(G − V) / Var(G)",
    good="near 1",
    advice="Below 0 the critic predicts worse than a constant. TRL's old PPO uses the mean square instead of"
    " the variance, so its number is lower if the critic is biased.",
    aliases=("ppo/val/var_explained",),
    color="good",
)
def var_explained(
    by: Segments,
    _error_sum: np.ndarray,
    _error_sq_sum: np.ndarray,
    token_return_sum: np.ndarray,
    _return_sq_sum: np.ndarray,
    _value_sq_sum: np.ndarray,
    _error_count: np.ndarray,
) -> np.ndarray:
    """Share of the returns' variance that the critic explains, over all tokens of the step."""
    finite = np.isfinite(_error_sum) & np.isfinite(token_return_sum)
    total, squares = (np.where(finite, column, np.nan) for column in (token_return_sum, _return_sq_sum))
    returns = _variance(by, total, squares, _error_count)
    unexplained = _variance(by, _error_sum, _error_sq_sum, _error_count)
    # Values that are all 0 are a filler for a missing critic, so they give no result.
    measurable = (by.sum(_value_sq_sum) > 0) & (returns > 1e-12)
    return np.where(measurable, 1 - unexplained / returns, np.nan)


def _variance(by: Segments, total: np.ndarray, squares: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the variance (ddof 0) over the tokens of each step, from sums per sample."""
    return np.maximum(by.ratio(squares, count) - by.ratio(total, count) ** 2, 0.0)
