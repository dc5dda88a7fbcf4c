"""Metrics that compare the logprobs of engine and trainer, and what a trainer logs about its correction."""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments
from rlpanel.metrics.kl_divergence import exp_beyond_line, finite_difference

# -- rollout mismatch ----------------------------------------------------------------------------------
# Metrics that compare the logprobs of the sampling engine with the trainer's logprobs of the same tokens.
#
# The two should agree, and often do not. ``logprobs`` are the trainer's, ``rollout_logprobs`` the engine's,
# and ρ = exp(logprobs − rollout_logprobs).


@metric(
    "engine log-ratio",
    level="token",
    unit="nats",
    formula=r"\log \rho_t = \log \pi(a_t) - \log \mu(a_t)",
    source="log ρ; verl's rollout correction logs the mean of −log ρ as kl",
    reductions=("mean",),
    pooled=True,
    good="near 0",
    advice="Differences come from numerical precision or stale weights, not from learning.",
    scale="diverging",
    color="bad",
)
def engine_log_ratio(logprobs: np.ndarray, rollout_logprobs: np.ndarray) -> np.ndarray:
    """Trainer's logprob minus the sampling engine's logprob of the same token."""
    return logprobs - rollout_logprobs


@metric(
    "engine logprob",
    level="token",
    unit="nats",
    reductions=("mean",),
    advice="If only the engine's logprobs are logged, their mean shows how certain the policy is.",
    color="entropy",
)
def engine_logprob(rollout_logprobs: np.ndarray) -> np.ndarray:
    """Log-probability of the sampled token, from the engine that sampled it.

    The engine's logprob may differ from the trainer's of the same token.
    """
    return rollout_logprobs


@metric("engine gap", level="token", pooled=True)
def _engine_gap(logprobs: np.ndarray, rollout_logprobs: np.ndarray) -> np.ndarray:
    """Return exp|log ρ| of each token."""
    return np.exp(np.abs(finite_difference(logprobs, rollout_logprobs)))


@metric("engine k3", level="token", pooled=True)
def _engine_k3(logprobs: np.ndarray, rollout_logprobs: np.ndarray) -> np.ndarray:
    """Return the k3 estimate of KL(engine || trainer); the tokens were sampled from the engine."""
    return exp_beyond_line(logprobs, rollout_logprobs)


@metric("engine far", level="token", pooled=True)
def _engine_far(logprobs: np.ndarray, rollout_logprobs: np.ndarray) -> np.ndarray:
    """Return 1 where ρ is outside [0.5, 2], else 0."""
    d = finite_difference(logprobs, rollout_logprobs)
    return np.where(np.isnan(d), d, np.abs(d) > np.log(2) + 1e-12)


@metric("engine weight", level="token", pooled=True)
def _engine_rho(logprobs: np.ndarray, rollout_logprobs: np.ndarray) -> np.ndarray:
    """Return ρ of each token."""
    return np.exp(finite_difference(logprobs, rollout_logprobs))


@metric("engine squared weight", level="token", pooled=True)
def _engine_rho_sq(logprobs: np.ndarray, rollout_logprobs: np.ndarray) -> np.ndarray:
    """Return ρ² of each token."""
    return np.exp(2 * finite_difference(logprobs, rollout_logprobs))


@metric(
    "engine mismatch",
    level="step",
    formula=r"\frac{1}{T} \sum_t e^{|\log \rho_t|}",
    source="mean exp|log ρ|: NeMo-RL's token_mult_prob_error",
    good="near 1",
    advice="Above 1.05, a usual bound in NeMo-RL's tests, check numerical precision, kernels and weight "
    "synchronisation before anything else.",
    color="bad",
)
def engine_mismatch(
    by: Segments, _engine_gap_sum: np.ndarray, engine_log_ratio_count: np.ndarray
) -> np.ndarray:
    """Mean over tokens of exp|trainer's logprob − engine's logprob|."""
    return by.ratio(_engine_gap_sum, engine_log_ratio_count)


@metric(
    "engine KL k3",
    level="step",
    unit="nats",
    formula=r"\frac{1}{T} \sum_t (\rho_t - 1 - \log \rho_t)",
    source="ρ − 1 − log ρ, log ρ within ±20 (Schulman 2020); verl's k3_kl, which does not clamp",
    good="near 0",
    advice="An estimate of KL(engine || trainer), since the engine sampled the tokens. A token that the "
    "engine held very unlikely and the trainer did not can dominate it.",
    color="bad",
)
def engine_kl(by: Segments, _engine_k3_sum: np.ndarray, engine_log_ratio_count: np.ndarray) -> np.ndarray:
    """k3 estimate of the KL between sampling engine and trainer, mean over tokens."""
    return by.ratio(_engine_k3_sum, engine_log_ratio_count)


@metric(
    "engine ratio outside 0.5 to 2",
    level="step",
    unit="share",
    formula=r"\frac{1}{T} \sum_t [\rho_t < 0.5 \vee \rho_t > 2]",
    source="verl, rollout correction: shares above 2 and below 0.5",
    good="near 0",
    advice="A few tokens with a large mismatch bias the gradient more than many with a small one.",
    color="bad",
)
def engine_outside(
    by: Segments, _engine_far_sum: np.ndarray, engine_log_ratio_count: np.ndarray
) -> np.ndarray:
    """Share of tokens whose probabilities in trainer and engine differ by more than a factor of 2."""
    return by.ratio(_engine_far_sum, engine_log_ratio_count)


@metric(
    "effective sample size",
    level="step",
    unit="share",
    formula=r"\frac{(\sum_t \rho_t)^2}{T \sum_t \rho_t^2}",
    source="Kish 1965: (Σρ)² / (n Σρ²)",
    good="near 1",
    advice="Near 0, the importance weights let a few tokens dominate the gradient.",
    color="bad",
)
def effective_sample_size(
    by: Segments,
    _engine_rho_sum: np.ndarray,
    _engine_rho_sq_sum: np.ndarray,
    engine_log_ratio_count: np.ndarray,
) -> np.ndarray:
    """Equivalent number of equally weighted tokens, as a share of the step's tokens."""
    finite = np.isfinite(_engine_rho_sum) & np.isfinite(_engine_rho_sq_sum)
    weights, count = (
        by.sum(np.where(finite, column, np.nan)) for column in (_engine_rho_sum, engine_log_ratio_count)
    )
    return weights**2 / (count * by.sum(_engine_rho_sq_sum))


# -- token correction ----------------------------------------------------------------------------------
# Metrics of what a trainer logs about its correction for the sampling engine, and about expert routing.


@metric(
    "correction weight",
    level="token",
    source="as logged: truncated or masked importance sampling (TIS, MIS), IcePop",
    reductions=("mean",),
    good="near 1",
    advice="A weight of 0 takes the token out of the loss, and a truncated one bounds its gradient.",
)
def correction_weight(correction_weights: np.ndarray) -> np.ndarray:
    """Weight of the token in the loss, from the trainer's correction for the engine."""
    return correction_weights


@metric(
    "masked by correction",
    level="token",
    unit="share",
    source="as logged",
    reductions=("mean",),
    good="near 0",
    advice="A rise means that trainer and engine drift apart, or that the mask's bounds are tight.",
    color="bad",
)
def token_masked(is_masked: np.ndarray) -> np.ndarray:
    """1 for a token that the trainer's correction took out of the policy's loss, else 0."""
    return is_masked


@metric(
    "routing mismatch",
    level="token",
    unit="share",
    source="as logged: layers with another set of experts / mixture-of-experts layers",
    reductions=("mean",),
    good="near 0",
    advice="Some mismatch is usual without routing replay; it grows with the difference in precision.",
    color="bad",
)
def token_routing_mismatch(routing_mismatch: np.ndarray) -> np.ndarray:
    """Share of the layers in which trainer and engine chose other experts for the token."""
    return routing_mismatch
