"""How far one update moved the policy, and how far the engine that sampled was from it.

``new_logprobs`` and ``old_logprobs`` are the two sides of an update (`derived_arrays` says which logged
arrays they are); the engine's own are ``rollout_logprobs``.

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
    advice="At a single token 2 or 0.1 is drastic and 200 is collapse; TRL's val/ratio is divided by the "
    "number "
    "of mini-batches.",
    color="policy",
)
def ratio(new_logprobs: np.ndarray, old_logprobs: np.ndarray) -> np.ndarray:
    """Probability of the sampled token after the update over that before it (or the engine's)."""
    return np.exp(new_logprobs - old_logprobs)


@metric("squared ratio", level="token", pooled=True)
def _ratio_sq(new_logprobs: np.ndarray, old_logprobs: np.ndarray) -> np.ndarray:
    """The ratio, squared."""
    return np.exp(2 * (new_logprobs - old_logprobs))


@metric("policy KL", level="token", pooled=True)
def _update_k1(new_logprobs: np.ndarray, old_logprobs: np.ndarray) -> np.ndarray:
    """k1 of the policy before the update against the one after it."""
    return old_logprobs - new_logprobs


@metric("approximate KL", level="token", pooled=True)
def _update_k2(new_logprobs: np.ndarray, old_logprobs: np.ndarray) -> np.ndarray:
    """k2 of the policy before the update against the one after it."""
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
    """Whether the clip took the token out of the gradient."""
    moved = np.exp(new_logprobs - old_logprobs)
    high = epsilon if epsilon_high is None else epsilon_high
    clipped = ((moved < 1 - epsilon) & (weight < 0)) | ((moved > 1 + high) & (weight > 0))
    return np.where(np.isfinite(moved) & np.isfinite(weight), clipped, np.nan)


@metric(
    "ratio, mean over tokens",
    level="step",
    source=_PPO,
    good="near 1",
    advice="Its expectation is 1; a step outside 0.5 to 2 was too large an update, or two streams do not "
    "match.",
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
    advice="Grows before the mean leaves 1.",
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
    advice="How far the policy moved in this update, not how far it is from the reference.",
    aliases=("ppo/policy/approxkl", "policy/approxkl_avg", "approxkl"),
    color="kl",
)
def approxkl(by: Segments, _update_k2_sum: np.ndarray, ratio_count: np.ndarray) -> np.ndarray:
    """Half the squared log-ratio of new and old policy, mean over tokens."""
    return by.ratio(_update_k2_sum, ratio_count)


@metric(
    "update KL k1",
    level="step",
    unit="nats",
    source=_PPO,
    good="near 0",
    advice="Noisier than k2, and below 0 by chance alone.",
    aliases=("ppo/policy/policykl",),
    scale="diverging",
    color="kl",
)
def policykl(by: Segments, _update_k1_sum: np.ndarray, ratio_count: np.ndarray) -> np.ndarray:
    """Old minus new logprob, mean over tokens."""
    return by.ratio(_update_k1_sum, ratio_count)


@metric(
    "clipped tokens",
    level="step",
    unit="share",
    source="TRL PPO policy/clipfrac; GRPO clip_ratio/region_mean",
    good="down",
    advice="Tokens the loss ignored because the ratio went too far; 0 while a step has a single update.",
    aliases=("ppo/policy/clipfrac", "policy/clipfrac_avg", "clip_ratio/region_mean"),
    color="bad",
)
def clipfrac(by: Segments, _clipped_sum: np.ndarray, _clipped_count: np.ndarray) -> np.ndarray:
    """Share of tokens with ratio < 1−ε and a negative advantage, or > 1+ε and a positive one."""
    return by.ratio(_clipped_sum, _clipped_count)
