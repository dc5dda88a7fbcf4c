"""What the critic thought, and how well: values, returns, advantages and what they explain.

Returns and advantages are the logged ones, else they follow from ``values`` and ``token_rewards`` by
`rlpanel.metrics.engine.gae` (see `rlpanel.metrics.engine.derived_arrays`).
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
    silent_at_zero=True,
    advice="It should come to the return it predicts; a critic that starts at 0 is at 0 in the first steps.",
    scale="diverging",
    color="length",
)
def value(values: np.ndarray) -> np.ndarray:
    """The critic's value at each token.

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
    silent_at_zero=True,
    advice="Trainers that whiten log a mean of 0 by construction; what matters is which tokens are far "
    "from it.",
    scale="diverging",
    color="reference",
)
def token_advantage(advantages: np.ndarray) -> np.ndarray:
    """The weight the loss gave each token: as logged, else worked out from values and token rewards.

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
    silent_at_zero=True,
    advice="With γ = 1 it is the score less the KL penalty still to come.",
    scale="diverging",
    color="good",
)
def token_return(returns: np.ndarray) -> np.ndarray:
    """The return the critic was trained towards: as logged, else advantage plus value.

    Parameters
    ----------
    returns : ndarray of float, shape (T,)

    Returns
    -------
    ndarray of float, shape (T,)
    """
    return returns


@metric("squared value", level="token", pooled=True, silent_at_zero=True)
def _value_sq(values: np.ndarray) -> np.ndarray:
    """V²."""
    return np.square(values)


@metric("squared return", level="token", pooled=True, silent_at_zero=True)
def _return_sq(returns: np.ndarray) -> np.ndarray:
    """G²."""
    return np.square(returns)


@metric("return less value", level="token", pooled=True, silent_at_zero=True)
def _error(values: np.ndarray, returns: np.ndarray) -> np.ndarray:
    """G − V."""
    return returns - values


@metric("squared value error", level="token", pooled=True, silent_at_zero=True)
def _error_sq(values: np.ndarray, returns: np.ndarray) -> np.ndarray:
    """(G − V)²."""
    return np.square(returns - values)


@metric(
    "value, mean over tokens",
    level="step",
    unit="reward",
    source="TRL PPO",
    color="length",
    advice="Compare with the returns' mean: a constant distance is a biased critic.",
    aliases=("ppo/val/mean", "ppo/val/vpred"),
    scale="diverging",
)
def value_pooled(by: Segments, value_sum: np.ndarray, value_count: np.ndarray) -> np.ndarray:
    """Mean value over all tokens of the step, as it was when the samples were made."""
    return by.ratio(value_sum, value_count)


@metric(
    "value, variance over tokens",
    level="step",
    source="TRL PPO",
    color="length",
    advice="Near 0 the critic says the same everywhere.",
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
    advice="Rises with the reward; a long response weighs more.",
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
    advice="What there is to explain for the critic.",
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
    advice="Squared, so it grows with the rewards' scale; explained variance does not.",
    aliases=("ppo/val/error",),
)
def value_error(by: Segments, _error_sq_sum: np.ndarray, _error_count: np.ndarray) -> np.ndarray:
    """Mean squared difference of return and value over all tokens of the step."""
    return by.ratio(_error_sq_sum, _error_count)


@metric(
    "explained variance",
    level="step",
    source="1 − Var(G − V) / Var(G)",
    good="near 1",
    advice="Below 0 the critic is worse than a constant; TRL's old PPO puts the mean square for the "
    "variance, so "
    "it reads lower where the critic is biased.",
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
    """Share of the returns' variance that the critic explains, pooled over the step's tokens."""
    whole = np.isfinite(_error_sum) & np.isfinite(token_return_sum)
    total, squares = (np.where(whole, column, np.nan) for column in (token_return_sum, _return_sq_sum))
    returns = _variance(by, total, squares, _error_count)
    left = _variance(by, _error_sum, _error_sq_sum, _error_count)
    told = (by.sum(_value_sq_sum) > 0) & (returns > 1e-12)  # a critic that is constant 0 says nothing
    return np.where(told, 1 - left / returns, np.nan)


def _variance(by: Segments, total: np.ndarray, squares: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Over tokens (ddof 0), from sums a sample."""
    return np.maximum(by.ratio(squares, count) - by.ratio(total, count) ** 2, 0.0)
