"""Metrics of what a trainer logs about its correction for the sampling engine, and about expert routing."""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric


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
