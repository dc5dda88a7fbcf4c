"""The engine that sampled against the trainer that scores its tokens: they should agree, and often do not.

``logprobs`` is the trainer's, ``rollout_logprobs`` the engine's; ρ = exp(logprobs − rollout_logprobs).
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments
from rlpanel.metrics.kl_divergence import CLAMP

_VERL = "verl, rollout correction metrics"


@metric(
    "engine log-ratio",
    level="token",
    unit="nats",
    source=_VERL,
    reductions=("mean",),
    pooled=True,
    good="near 0",
    advice="Trainer minus engine: what differs here is numerics or stale weights, not learning.",
    scale="diverging",
    color="bad",
)
def engine_log_ratio(logprobs: np.ndarray, rollout_logprobs: np.ndarray) -> np.ndarray:
    """The trainer's logprob minus the sampling engine's, for the same token."""
    return logprobs - rollout_logprobs


@metric("engine gap", level="token", pooled=True)
def _engine_gap(logprobs: np.ndarray, rollout_logprobs: np.ndarray) -> np.ndarray:
    """Exp of the absolute difference."""
    return np.exp(np.abs(logprobs - rollout_logprobs))


@metric("engine k3", level="token", pooled=True)
def _engine_k3(logprobs: np.ndarray, rollout_logprobs: np.ndarray) -> np.ndarray:
    """k3 of engine against trainer: tokens were sampled from the engine."""
    d = np.clip(logprobs - rollout_logprobs, -CLAMP, CLAMP)
    return np.expm1(d) - d


@metric("engine far", level="token", pooled=True)
def _engine_far(logprobs: np.ndarray, rollout_logprobs: np.ndarray) -> np.ndarray:
    """Whether ρ is outside [0.5, 2]."""
    d = logprobs - rollout_logprobs
    return np.where(np.isfinite(d), np.abs(d) > np.log(2) + 1e-12, np.nan)


@metric("engine weight", level="token", pooled=True)
def _engine_rho(logprobs: np.ndarray, rollout_logprobs: np.ndarray) -> np.ndarray:
    """ρ."""
    return np.exp(logprobs - rollout_logprobs)


@metric("engine squared weight", level="token", pooled=True)
def _engine_rho_sq(logprobs: np.ndarray, rollout_logprobs: np.ndarray) -> np.ndarray:
    """ρ²."""
    return np.exp(2 * (logprobs - rollout_logprobs))


@metric(
    "engine mismatch",
    level="step",
    source=_VERL,
    good="near 1",
    advice="Above 1.05: investigate precision, kernels and weight synchronisation before anything else.",
    color="bad",
)
def engine_mismatch(
    by: Segments, _engine_gap_sum: np.ndarray, engine_log_ratio_count: np.ndarray
) -> np.ndarray:
    """Mean over tokens of exp|trainer's logprob − engine's|."""
    return by.ratio(_engine_gap_sum, engine_log_ratio_count)


@metric(
    "engine KL k3",
    level="step",
    unit="nats",
    source="Schulman 2020",
    good="near 0",
    advice="KL(engine || trainer) on the engine's own samples.",
    color="bad",
)
def engine_kl(by: Segments, _engine_k3_sum: np.ndarray, engine_log_ratio_count: np.ndarray) -> np.ndarray:
    """k3 of the sampling engine against the trainer, mean over tokens."""
    return by.ratio(_engine_k3_sum, engine_log_ratio_count)


@metric(
    "engine ratio outside 0.5 to 2",
    level="step",
    unit="share",
    source=_VERL,
    good="near 0",
    advice="Few tokens far off bias the gradient more than many that are slightly off.",
    color="bad",
)
def engine_outside(
    by: Segments, _engine_far_sum: np.ndarray, engine_log_ratio_count: np.ndarray
) -> np.ndarray:
    """Share of tokens that trainer and engine see a factor of two apart."""
    return by.ratio(_engine_far_sum, engine_log_ratio_count)


@metric(
    "effective sample size",
    level="step",
    unit="share",
    source="Kish 1965: (Σρ)² / (n Σρ²)",
    good="near 1",
    advice="The share of tokens that importance weights leave in effect; near 0 a few tokens are the "
    "gradient.",
    color="bad",
)
def effective_sample_size(
    by: Segments,
    _engine_rho_sum: np.ndarray,
    _engine_rho_sq_sum: np.ndarray,
    engine_log_ratio_count: np.ndarray,
) -> np.ndarray:
    """How many equally weighted tokens the step's tokens are worth, as a share."""
    whole = np.isfinite(_engine_rho_sum) & np.isfinite(_engine_rho_sq_sum)
    count = by.sum(np.where(whole, engine_log_ratio_count, np.nan))
    return by.sum(_engine_rho_sum) ** 2 / (count * by.sum(_engine_rho_sq_sum))
