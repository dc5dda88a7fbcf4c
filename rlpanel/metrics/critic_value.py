"""Critic metrics: values, returns, advantages, value error and explained variance.

Returns and advantages that were not logged are derived from ``values`` and ``token_rewards`` by GAE (see
`rlpanel.metrics.engine.derived_arrays`).
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.ragged import squared_deviations
from rlpanel.metrics.engine.segments import Segments

_GAE = "logged, else GAE(γ, λ): Schulman 2016; it skips tokens outside the loss mask, as verl does"


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
    """The critic's value estimate at each token."""
    return values


@metric(
    "token advantage",
    level="token",
    formula=r"A_t = \sum_{k \ge 0} (\gamma \lambda)^k \delta_{t+k}, \quad \delta_t = r_t + \gamma "
    r"V_{t+1} - V_t",
    source=_GAE,
    reductions=("mean",),
    pooled=True,
    zero_means_missing=True,
    advice="Whitened advantages have mean 0 by construction, so look for single tokens far from 0.",
    scale="diverging",
    color="reference",
    undefined="a sample without advantages, unless values and token rewards are logged and returns are not; "
    "a run with zeros only",
)
def token_advantage(advantages: np.ndarray) -> np.ndarray:
    """Advantage of each token: as logged, else derived from values and token rewards."""
    return advantages


@metric(
    "return",
    level="token",
    unit="reward",
    formula=r"G_t = A_t + V_t",
    source=_GAE,
    reductions=("mean",),
    pooled=True,
    zero_means_missing=True,
    advice="With γ = λ = 1 it is the score minus the KL penalty of the remaining tokens.",
    scale="diverging",
    color="good",
    undefined="a sample without returns, unless values and token rewards of equal length are logged; "
    "a run with zeros only",
)
def token_return(returns: np.ndarray) -> np.ndarray:
    """Return that the critic was trained to predict: as logged, else advantage plus value."""
    return returns


@metric("squared deviation of the value", level="token", pooled=True, zero_means_missing=True)
def _value_dev(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the squared deviation of each token's value from its sample's mean."""
    return squared_deviations(values, lengths)


@metric("squared deviation of the return", level="token", pooled=True, zero_means_missing=True)
def _return_dev(returns: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the squared deviation of each token's return from its sample's mean."""
    return squared_deviations(returns, lengths)


@metric("return minus value", level="token", pooled=True, zero_means_missing=True)
def _error(values: np.ndarray, returns: np.ndarray) -> np.ndarray:
    """Return G − V of each token."""
    return returns - values


@metric("squared deviation of return minus value", level="token", pooled=True, zero_means_missing=True)
def _error_dev(values: np.ndarray, returns: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the squared deviation of each token's G − V from its sample's mean."""
    return squared_deviations(returns - values, lengths)


@metric("squared value error", level="token", pooled=True, zero_means_missing=True)
def _error_sq(values: np.ndarray, returns: np.ndarray) -> np.ndarray:
    """Return (G − V)² of each token."""
    return np.square(returns - values)


@metric(
    "value, mean over tokens",
    level="step",
    unit="reward",
    formula=r"\frac{1}{T} \sum_t V_t",
    source="TRL PPO",
    color="length",
    advice="Compare it with the mean return: a constant difference means a biased critic.",
    scale="diverging",
)
def value_pooled(by: Segments, value_sum: np.ndarray, value_count: np.ndarray) -> np.ndarray:
    """Mean value over all tokens of the step, as estimated at the time of sampling."""
    return by.ratio(value_sum, value_count)


@metric(
    "value, variance over tokens",
    level="step",
    formula=r"\mathrm{Var}(V_t)",
    source="TRL PPO",
    color="length",
    advice="Near 0 the critic predicts the same value everywhere.",
)
def value_variance(
    by: Segments, value_sum: np.ndarray, _value_dev_sum: np.ndarray, value_count: np.ndarray
) -> np.ndarray:
    """Variance (ddof 0) of the value over all tokens of the step."""
    return by.variance(value_sum, _value_dev_sum, value_count)


@metric(
    "return, mean over tokens",
    level="step",
    unit="reward",
    formula=r"\frac{1}{T} \sum_t G_t",
    source="TRL PPO",
    color="good",
    good="up",
    advice="Rises with the reward; long responses weigh more than short ones.",
    scale="diverging",
)
def return_pooled(by: Segments, token_return_sum: np.ndarray, token_return_count: np.ndarray) -> np.ndarray:
    """Mean return over all tokens of the step."""
    return by.ratio(token_return_sum, token_return_count)


@metric(
    "return, variance over tokens",
    level="step",
    formula=r"\mathrm{Var}(G_t)",
    source="TRL PPO",
    color="good",
    advice="The variance that the critic has to explain.",
)
def return_variance(
    by: Segments, token_return_sum: np.ndarray, _return_dev_sum: np.ndarray, token_return_count: np.ndarray
) -> np.ndarray:
    """Variance (ddof 0) of the return over all tokens of the step."""
    return by.variance(token_return_sum, _return_dev_sum, token_return_count)


@metric(
    "advantage, mean over tokens",
    level="step",
    formula=r"\frac{1}{T} \sum_t A_t",
    source="TRL PPO",
    good="near 0",
    color="reference",
    advice="Whitened advantages have a mean of 0 by construction.",
    scale="diverging",
)
def advantage_pooled(
    by: Segments, token_advantage_sum: np.ndarray, token_advantage_count: np.ndarray
) -> np.ndarray:
    """Mean advantage over all tokens of the step."""
    return by.ratio(token_advantage_sum, token_advantage_count)


@metric(
    "value error",
    level="step",
    formula=r"\frac{1}{T} \sum_t (G_t - V_t)^2",
    source="TRL PPO",
    good="down",
    color="bad",
    advice="It is squared, so it depends on the scale of rewards; explained variance does not.",
)
def value_error(by: Segments, _error_sq_sum: np.ndarray, _error_count: np.ndarray) -> np.ndarray:
    """Mean squared difference between return and value over all tokens of the step."""
    return by.ratio(_error_sq_sum, _error_count)


@metric(
    "explained variance",
    level="step",
    formula=r"1 - \frac{\mathrm{Var}(G_t - V_t)}{\mathrm{Var}(G_t)}",
    source="1 − Var(G − V) / Var(G)",
    good="near 1",
    advice="Below 0 the critic predicts worse than a constant. TRL's old PPO uses the mean square instead of"
    " the variance, so its number is lower if the critic is biased.",
    color="good",
    undefined="a step whose returns are all equal; a step whose values are all 0",
)
def var_explained(
    by: Segments,
    _error_sum: np.ndarray,
    _error_dev_sum: np.ndarray,
    token_return_sum: np.ndarray,
    _return_dev_sum: np.ndarray,
    value_sum: np.ndarray,
    _value_dev_sum: np.ndarray,
    _error_count: np.ndarray,
) -> np.ndarray:
    """Share of the returns' variance that the critic explains, over all tokens of the step."""
    paired = np.where(np.isfinite(_error_sum), token_return_sum, np.nan)
    returns = by.variance(paired, _return_dev_sum, _error_count)
    unexplained = by.variance(_error_sum, _error_dev_sum, _error_count)
    # Values that are all 0 are a filler for a missing critic, so they give no result.
    logged = (by.max(np.abs(value_sum)) > 0) | (by.sum(_value_dev_sum) > 0)
    return np.where(logged & (returns > 1e-12), 1 - unexplained / returns, np.nan)
