"""KL and entropy pooled over the tokens of a step, in the reductions that trainers log.

A mean over samples gives a token of a short response more weight than one of a long response; a mean over
tokens gives all tokens the same weight. Trainers differ in this, so each label names its reduction.
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments, SubSegments
from rlpanel.metrics.kl_divergence import K3_EXTREMES, K3_SOURCE

_TOKENS = "Long responses weigh more than short ones; in the mean over samples all weigh the same."
_MICRO_OVER = "the step's micro-batches, all equally; in each, all tokens in the loss mask"
_MICRO_UNDEFINED = "a step without numbers of micro-batches; samples without one are left out"
_MICRO = "The number that TRL logs: all micro-batches weigh the same, whatever their lengths."


@metric(
    "KL k1, mean over tokens",
    level="step",
    unit="nats",
    formula=r"\frac{1}{T} \sum_t d_t",
    source="TRL RLOO, kl: Σd / ΣT",
    good="near 0",
    advice=_TOKENS,
    scale="diverging",
    color="kl",
)
def kl_k1_pooled(
    by: Segments,
    log_ratio_sum: np.ndarray,
    log_ratio_count: np.ndarray,
    *,
    log_ratio_mean: np.ndarray | None = None,
) -> np.ndarray:
    """Sum of the step's log-ratios divided by its number of tokens."""
    return by.ratio(_of_scored(log_ratio_sum, log_ratio_mean, log_ratio_count), log_ratio_count)


@metric(
    "KL k3, mean over tokens",
    level="step",
    unit="nats",
    formula=r"\frac{1}{T} \sum_t k_3(d_t)",
    source=K3_SOURCE,
    good="near 0",
    advice=f"{_TOKENS} {K3_EXTREMES}",
    color="kl",
)
def kl_k3_pooled(
    by: Segments,
    kl_k3_sum: np.ndarray,
    log_ratio_count: np.ndarray,
    *,
    kl_k3_mean: np.ndarray | None = None,
) -> np.ndarray:
    """Sum of the step's k3 divided by its number of tokens."""
    return by.ratio(_of_scored(kl_k3_sum, kl_k3_mean, log_ratio_count), log_ratio_count)


@metric(
    "KL k3, mean over micro-batches",
    level="step",
    unit="nats",
    formula=r"\frac{1}{M} \sum_m \frac{1}{T_m} \sum_{t \in m} k_3(d_t)",
    source="TRL GRPO, kl, which does not clamp d to ±20",
    good="near 0",
    advice=f"{_MICRO} {K3_EXTREMES}",
    color="kl",
    over=_MICRO_OVER,
    undefined=_MICRO_UNDEFINED,
)
def kl_k3_micro(
    by: Segments,
    kl_k3_sum: np.ndarray,
    log_ratio_count: np.ndarray,
    micro_batch: np.ndarray,
    *,
    kl_k3_mean: np.ndarray | None = None,
) -> np.ndarray:
    """Mean over micro-batches of their k3 per token."""
    sums = _of_scored(kl_k3_sum, kl_k3_mean, log_ratio_count)
    return _over_micro_batches(by, sums, log_ratio_count, micro_batch)


@metric(
    "tokens clamped in k3",
    level="step",
    unit="tokens",
    formula=r"\sum_t [|d_t| > 20]",
    source="|log-ratio| > 20",
    good="near 0",
    advice="Above 0, k3 is too low: TRL's is higher, since it does not clamp. Such tokens are practically "
    "impossible under one of the two models.",
    color="kl",
    over="nothing: it is a number of tokens in the loss mask of the step",
)
def kl_k3_clamped(by: Segments, _clamped_sum: np.ndarray) -> np.ndarray:
    """Number of tokens whose log-ratio was clamped in k3."""
    return by.sum(_clamped_sum)


@metric(
    "entropy, mean over tokens",
    level="step",
    unit="nats",
    formula=r"\frac{1}{T} \sum_t H_t",
    source="logged entropies",
    advice=_TOKENS,
    color="entropy",
)
def entropy_pooled(
    by: Segments, token_entropy_sum: np.ndarray, token_entropy_count: np.ndarray
) -> np.ndarray:
    """Sum of the step's logged entropies divided by its number of tokens."""
    return by.ratio(token_entropy_sum, token_entropy_count)


@metric(
    "entropy, mean over micro-batches",
    level="step",
    unit="nats",
    formula=r"\frac{1}{M} \sum_m \frac{1}{T_m} \sum_{t \in m} H_t",
    source="TRL GRPO and RLOO, entropy",
    advice=_MICRO,
    color="entropy",
    over=_MICRO_OVER,
    undefined=_MICRO_UNDEFINED,
)
def entropy_micro(
    by: Segments, token_entropy_sum: np.ndarray, token_entropy_count: np.ndarray, micro_batch: np.ndarray
) -> np.ndarray:
    """Mean over micro-batches of their logged entropy per token."""
    return _over_micro_batches(by, token_entropy_sum, token_entropy_count, micro_batch)


@metric(
    "surprisal, mean over tokens",
    level="step",
    unit="nats",
    formula=r"-\frac{1}{T} \sum_t \log \pi(a_t)",
    source="−Σ logprob / ΣT",
    advice="Estimates the entropy from one sampled token per position; logged entropies are exact.",
    color="entropy",
)
def surprisal_pooled(
    by: Segments,
    surprisal_sum: np.ndarray,
    surprisal_count: np.ndarray,
    *,
    surprisal_mean: np.ndarray | None = None,
) -> np.ndarray:
    """Sum of the step's −logprobs divided by its number of tokens."""
    return by.ratio(_of_scored(surprisal_sum, surprisal_mean, surprisal_count), surprisal_count)


def _of_scored(sums: np.ndarray, means: np.ndarray | None, counts: np.ndarray) -> np.ndarray:
    """Return the sums over the tokens that are counted.

    The column of sums has no value for a sample with a token that could not be scored; its mean over the
    others has one.
    """
    return sums if means is None else np.where(np.isfinite(sums), sums, means * counts)


def _over_micro_batches(
    by: Segments, sums: np.ndarray, counts: np.ndarray, micro_batch: np.ndarray
) -> np.ndarray:
    micro = SubSegments(by, micro_batch)
    return micro.outer.mean(micro.ratio(np.where(np.isfinite(micro_batch), sums, np.nan), counts))
