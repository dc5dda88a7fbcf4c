"""Metrics of on-policy distillation: a teacher scores the tokens that the policy sampled.

``logprobs`` are the policy's and ``teacher_logprobs`` the teacher's, of the same tokens. Trainers that cannot
score a token, such as one of the chat template or of another tokenizer, often log 0 for it.
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric


@metric(
    "KL to teacher",
    level="token",
    unit="nats",
    formula=r"\log \pi(a_t) - \log \pi_\mathrm{teacher}(a_t)",
    source="k1 of the reverse KL(policy || teacher); its negative is the reward per token in on-policy "
    "distillation (Thinking Machines 2025)",
    reductions=("mean", "sum"),
    good="down",
    advice="Its mean estimates the reverse KL. A few tokens of 10 nats and more often come from a template "
    "or a tokenizer that teacher and policy do not share.",
    scale="diverging",
    color="kl",
)
def teacher_kl(logprobs: np.ndarray, teacher_logprobs: np.ndarray) -> np.ndarray:
    """Policy's logprob minus the teacher's logprob of the same token."""
    return logprobs - teacher_logprobs


@metric(
    "teacher logprob",
    level="token",
    unit="nats",
    formula=r"\log \pi_\mathrm{teacher}(a_t)",
    reductions=("mean",),
    good="up",
    advice="A teacher with another tokenizer gives values far below the policy's from the first step on.",
    color="entropy",
)
def teacher_logprob(teacher_logprobs: np.ndarray) -> np.ndarray:
    """Log-probability of the sampled token under the teacher."""
    return teacher_logprobs


@metric(
    "zero from the teacher",
    level="token",
    unit="share",
    formula=r"\mathbb{1}\left[\log \pi_\mathrm{teacher}(a_t) = 0\right]",
    source="teacher logprob = 0 exactly",
    reductions=("mean",),
    good="near 0",
    advice="No model is entirely certain of many tokens: zeros are usually tokens of a template, or of "
    "another tokenizer, and pull the mean KL up or down.",
    color="bad",
)
def teacher_zero(teacher_logprobs: np.ndarray) -> np.ndarray:
    """1 where the teacher's logprob is exactly 0, else 0."""
    return np.where(np.isnan(teacher_logprobs), np.nan, teacher_logprobs == 0)
