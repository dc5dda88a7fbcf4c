"""Metrics of one policy update: importance ratio, approximate KL, share of clipped tokens.

``new_logprobs`` and ``old_logprobs`` are the policy's logprobs after and before the update. `derived_arrays`
chooses the logged arrays for them; if only the engine's ``rollout_logprobs`` are logged, they serve as old.

References
----------
Schulman et al. 2017, Proximal Policy Optimization; TRL's PPO trainer for the names.
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments

_PPO = "TRL PPO"


@metric(
    "ratio",
    level="token",
    source="Schulman 2017, PPO",
    reductions=("mean",),
    pooled=True,
    good="near 1",
    advice="For a single token, 2 or 0.1 is a drastic change and 200 a collapse. TRL divides its val/ratio "
    "by the number of mini-batches.",
    color="policy",
)
def ratio(new_logprobs: np.ndarray, old_logprobs: np.ndarray) -> np.ndarray:
    """Probability of the sampled token after the update divided by that before it (or the engine's)."""
    return np.exp(new_logprobs - old_logprobs)


@metric("squared ratio", level="token", pooled=True)
def _ratio_sq(new_logprobs: np.ndarray, old_logprobs: np.ndarray) -> np.ndarray:
    """Return the squared ratio."""
    return np.exp(2 * (new_logprobs - old_logprobs))


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
    rho = np.exp(new_logprobs - old_logprobs)
    high = epsilon if epsilon_high is None else epsilon_high
    clipped = ((rho < 1 - epsilon) & (weight < 0)) | ((rho > 1 + high) & (weight > 0))
    return np.where(np.isfinite(rho) & np.isfinite(weight), clipped, np.nan)


@metric(
    "ratio, mean over tokens",
    level="step",
    source=_PPO,
    good="near 1",
    advice="Its expectation is 1. Outside 0.5 to 2, the update was too large or the two logprobs do not "
    "belong together.",
    aliases=("ppo/policy/ratio", "val/ratio"),
    color="policy",
)
def ratio_pooled(by: Segments, ratio_sum: np.ndarray, ratio_count: np.ndarray) -> np.ndarray:
    """Mean ratio over all tokens of the step."""
    return by.ratio(ratio_sum, ratio_count)


@metric(
    "ratio, variance over tokens",
    level="step",
    source=_PPO,
    good="near 0",
    advice="It grows before the mean departs from 1.",
    aliases=("val/ratio_var",),
    color="policy",
)
def ratio_variance(
    by: Segments, ratio_sum: np.ndarray, _ratio_sq_sum: np.ndarray, ratio_count: np.ndarray
) -> np.ndarray:
    """Variance of the ratio over all tokens of the step."""
    return np.maximum(by.ratio(_ratio_sq_sum, ratio_count) - by.ratio(ratio_sum, ratio_count) ** 2, 0.0)


@metric(
    "update KL k2",
    level="step",
    unit="nats",
    source=_PPO,
    good="near 0",
    advice="Measures the change of the policy in this update, not its distance from the reference. If only "
    "the engine's logprobs are logged beside the policy's, it measures their mismatch instead.",
    aliases=("ppo/policy/approxkl", "policy/approxkl_avg", "approxkl"),
    color="kl",
)
def approxkl(by: Segments, _update_k2_sum: np.ndarray, ratio_count: np.ndarray) -> np.ndarray:
    """Half the squared log-ratio of new to old policy, mean over tokens."""
    return by.ratio(_update_k2_sum, ratio_count)


@metric(
    "update KL k1",
    level="step",
    unit="nats",
    source=_PPO,
    good="near 0",
    advice="Noisier than k2; it can be negative by chance.",
    aliases=("ppo/policy/policykl",),
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
    source="TRL PPO policy/clipfrac; GRPO clip_ratio/region_mean",
    good="down",
    advice="Clipped tokens do not contribute to the gradient. With a single on-policy update per step it is "
    "0.",
    aliases=("ppo/policy/clipfrac", "policy/clipfrac_avg", "clip_ratio/region_mean"),
    color="bad",
)
def clipfrac(by: Segments, _clipped_sum: np.ndarray, _clipped_count: np.ndarray) -> np.ndarray:
    """Share of tokens with ratio < 1−ε and a negative advantage, or > 1+ε and a positive one."""
    return by.ratio(_clipped_sum, _clipped_count)
