"""Metrics of one policy update: importance ratio, approximate KL, share of clipped tokens.

``new_logprobs`` and ``old_logprobs`` are the policy's logprobs after and before the update; if only one of
them is logged, ``logprobs`` are the other (`derived_arrays`). The engine's logprobs are neither: their
difference from the policy's is not an update (`rollout_mismatch`).

References
----------
Schulman et al. 2017, Proximal Policy Optimization; TRL's PPO trainer for the names.
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.ragged import squared_deviations
from rlpanel.metrics.engine.segments import Segments
from rlpanel.metrics.kl_divergence import finite_difference

_PPO = "TRL PPO"


@metric(
    "ratio",
    level="token",
    formula=r"w_t = \frac{\pi_\mathrm{new}(a_t)}{\pi_\mathrm{old}(a_t)}",
    source="Schulman 2017, PPO",
    reductions=("mean",),
    pooled=True,
    good="near 1",
    advice="For a single token, 2 or 0.1 is a drastic change and 200 a collapse. TRL divides its val/ratio "
    "by the number of mini-batches.",
    color="policy",
)
def ratio(new_logprobs: np.ndarray, old_logprobs: np.ndarray) -> np.ndarray:
    """Probability of the sampled token after the update divided by that before it."""
    return np.exp(finite_difference(new_logprobs, old_logprobs))


@metric("squared deviation of the ratio", level="token", pooled=True)
def _ratio_dev(new_logprobs: np.ndarray, old_logprobs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the squared deviation of each token's ratio from its sample's mean."""
    return squared_deviations(ratio(new_logprobs, old_logprobs), lengths)


@metric("policy KL", level="token", pooled=True)
def _update_k1(new_logprobs: np.ndarray, old_logprobs: np.ndarray) -> np.ndarray:
    """Return k1 of the KL of the policy before the update from the policy after it."""
    return old_logprobs - new_logprobs


@metric("approximate KL", level="token", pooled=True)
def _update_k2(new_logprobs: np.ndarray, old_logprobs: np.ndarray) -> np.ndarray:
    """Return k2 of the KL of the policy before the update from the policy after it."""
    return 0.5 * np.square(new_logprobs - old_logprobs)


@metric("clipped", level="token", pooled=True)
def _clipped(
    new_logprobs: np.ndarray,
    old_logprobs: np.ndarray,
    weight: np.ndarray,
    *,
    epsilon: float,
    epsilon_high: float | None = None,
) -> np.ndarray:
    """Return 1 where clipping removed the token from the gradient, else 0."""
    rho = ratio(new_logprobs, old_logprobs)
    high = epsilon if epsilon_high is None else epsilon_high
    clipped = ((rho < 1 - epsilon) & (weight < 0)) | ((rho > 1 + high) & (weight > 0))
    return np.where(np.isfinite(rho) & np.isfinite(weight), clipped, np.nan)


@metric(
    "ratio, mean over tokens",
    level="step",
    formula=r"\bar{w} = \frac{1}{T} \sum_t w_t",
    source=_PPO,
    good="near 1",
    advice="Its expectation is 1. Outside 0.5 to 2, the update was too large or the two logprobs do not "
    "belong together.",
    color="policy",
)
def ratio_pooled(by: Segments, ratio_sum: np.ndarray, ratio_count: np.ndarray) -> np.ndarray:
    """Mean ratio over all tokens of the step."""
    return by.ratio(ratio_sum, ratio_count)


@metric(
    "ratio, variance over tokens",
    level="step",
    formula=r"\mathrm{Var}(w_t)",
    source=_PPO,
    good="near 0",
    advice="It grows before the mean departs from 1.",
    color="policy",
)
def ratio_variance(
    by: Segments, ratio_sum: np.ndarray, _ratio_dev_sum: np.ndarray, ratio_count: np.ndarray
) -> np.ndarray:
    """Variance (ddof 0) of the ratio over all tokens of the step."""
    return by.variance(ratio_sum, _ratio_dev_sum, ratio_count)


@metric(
    "update KL k2",
    level="step",
    unit="nats",
    formula=r"\frac{1}{2T} \sum_t (\log w_t)^2",
    source=_PPO,
    good="near 0",
    advice="Measures the change of the policy in this update, not its distance from the reference.",
    color="kl",
)
def approxkl(by: Segments, _update_k2_sum: np.ndarray, ratio_count: np.ndarray) -> np.ndarray:
    """Half the squared log-ratio of new to old policy, mean over tokens."""
    return by.ratio(_update_k2_sum, ratio_count)


@metric(
    "update KL k1",
    level="step",
    unit="nats",
    formula=r"-\frac{1}{T} \sum_t \log w_t",
    source=_PPO,
    good="near 0",
    advice="Noisier than k2; it can be negative by chance.",
    scale="diverging",
    color="kl",
)
def policykl(by: Segments, _update_k1_sum: np.ndarray, ratio_count: np.ndarray) -> np.ndarray:
    """Old logprob minus new logprob, mean over tokens."""
    return by.ratio(_update_k1_sum, ratio_count)


@metric(
    "clipped tokens",
    level="step",
    unit="share",
    formula=r"\frac{1}{T} \sum_t [(w_t < 1 - \epsilon \wedge A_t < 0) \vee (w_t > 1 + "
    r"\epsilon_\mathrm{high} \wedge A_t > 0)]",
    source="TRL PPO policy/clipfrac; GRPO clip_ratio/region_mean",
    good="down",
    advice="Clipped tokens do not contribute to the gradient. With a single on-policy update per step it is "
    "0.",
    color="bad",
    compares="policy after and before the update, and the sign of the advantage",
    undefined="a step without advantages, or without logprobs of both policies",
)
def clipfrac(by: Segments, _clipped_sum: np.ndarray, _clipped_count: np.ndarray) -> np.ndarray:
    """Share of tokens with ratio < 1−ε and a negative advantage, or > 1+ε and a positive one."""
    return by.ratio(_clipped_sum, _clipped_count)
