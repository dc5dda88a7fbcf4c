"""Token metrics of policy, reference and teacher: estimators of KL divergence, entropy, logprobs."""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric

# -- kl divergence -------------------------------------------------------------------------------------
# Token metrics of policy and reference: estimators of their KL divergence, entropy and log-probabilities.
#
# All assume tokens *sampled from the policy*. With ``d = logprobs - ref_logprobs`` the estimators of
# KL(policy || reference) are k1 = d, k2 = d²/2 and k3 = exp(-d) - 1 + d.
#
# References
# ----------
# Schulman 2020, Approximating KL Divergence (http://joschu.net/blog/kl-approx.html). The GRPO penalty of TRL
# and verl is k3, too, but it is not clamped as here: see `CLAMP`.


#: |d| is clamped to this before exp is taken: beyond it the result has no meaning (e^20 ≈ 5e8). TRL 1.16 does
#: not clamp; verl 0.9 clamps d to ±20 and the result to at most 10.
CLAMP = 20.0

#: Which tokens can dominate a mean of k3, and which cannot.
K3_EXTREMES = (
    "A token that the policy held very unlikely and the reference did not can dominate a step's mean; one "
    "that the reference holds impossible adds at most 19."
)
#: Where the clamped k3 differs from that of trainers.
K3_SOURCE = "exp(−d) − 1 + d, |d| ≤ 20 (Schulman 2020); TRL does not clamp, verl limits k3 to 10, too"


@metric("clamped", level="token", pooled=True)
def _clamped(logprobs: np.ndarray, ref_logprobs: np.ndarray) -> np.ndarray:
    """Return 1 for tokens whose log-ratio k3 clamps, else 0."""
    d = finite_difference(logprobs, ref_logprobs)
    return np.where(np.isnan(d), d, np.abs(d) > CLAMP)


@metric(
    "log-ratio",
    level="token",
    unit="nats",
    formula=r"d_t = \log \pi(a_t) - \log \pi_\mathrm{ref}(a_t)",
    source="logprob − ref logprob (k1 of Schulman 2020)",
    reductions=("mean", "sum"),
    pooled=True,
    good="near 0",
    advice="Its expectation is the KL. A step mean that stays below 0 means that the logged logprobs are not "
    "those of the policy that sampled.",
    scale="diverging",
    color="kl",
)
def log_ratio(logprobs: np.ndarray, ref_logprobs: np.ndarray) -> np.ndarray:
    """Log of policy probability over reference probability; as an estimate of KL this is k1.

    A step mean below 0 is a warning, since the expectation is a KL, which is never negative.
    """
    return logprobs - ref_logprobs


@metric(
    "KL k3",
    level="token",
    unit="nats",
    formula=r"k_3(d_t) = e^{-d_t} - 1 + d_t",
    source=K3_SOURCE,
    reductions=("mean", "sum"),
    good="near 0",
    advice=f"Never below 0. {K3_EXTREMES}",
    color="kl",
)
def kl_k3(logprobs: np.ndarray, ref_logprobs: np.ndarray) -> np.ndarray:
    """Non-negative, low-variance estimate of KL(policy || reference) at each sampled token.

    ``exp(-d) - 1 + d`` with ``d = logprobs - ref_logprobs``, -d clamped to ±20.

    The value is never below 0; NaN where d is NaN or infinite.
    """
    return exp_beyond_line(ref_logprobs, logprobs)


@metric(
    "KL k2",
    level="token",
    unit="nats",
    formula=r"k_2(d_t) = \frac{d_t^2}{2}",
    source="d²/2, d the log-ratio (Schulman 2020)",
    reductions=("mean", "sum"),
    good="near 0",
    advice="Biased, but has the lowest variance of the three while the two models are close.",
    color="kl",
)
def kl_k2(logprobs: np.ndarray, ref_logprobs: np.ndarray) -> np.ndarray:
    """Half the squared log-ratio: a biased, low-variance estimate of KL(policy || reference).

    The value is never below 0.
    """
    d = logprobs - ref_logprobs
    d *= d
    d *= 0.5
    return d


@metric(
    "KL of RLLoggingBoard",
    level="token",
    unit="nats",
    formula=r"e^{d_t} - 1 - d_t",
    source="exp(d) − 1 − d, |d| ≤ 20 (RLLoggingBoard; estimates chi-square minus KL)",
    reductions=("mean", "sum"),
    advice="Use it only to compare with screenshots of RLLoggingBoard; it does not estimate the KL. A token "
    "that the reference held very unlikely and the policy did not can dominate a step's mean.",
    color="kl",
)
def kl_rllb(logprobs: np.ndarray, ref_logprobs: np.ndarray) -> np.ndarray:
    """The number that RLLoggingBoard calls KL: k3 with the sign of the log-ratio reversed.

    ``exp(d) - 1 - d``. On tokens sampled from the policy this does not estimate KL(policy || reference).
    It is kept for comparisons with screenshots of that tool.
    """
    return exp_beyond_line(logprobs, ref_logprobs)


def exp_beyond_line(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return exp(d) - 1 - d of the clamped differences of two logprobs; NaN where d is infinite."""
    d = finite_difference(one, other)
    np.clip(d, -CLAMP, CLAMP, out=d)
    result = np.expm1(d)
    result -= d
    return result


def finite_difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the difference of two logprobs; NaN where it is infinite, so that the sample does not count."""
    d = one - other
    if not np.isfinite(d.sum()):  # one sum is faster than a test of each value
        d[np.isinf(d)] = np.nan
    return d


@metric(
    "surprisal",
    level="token",
    unit="nats",
    formula=r"-\log \pi(a_t)",
    source="−logprob; its sum is TRL's objective/entropy",
    reductions=("mean", "sum"),
    pooled=True,
    advice="A steady fall towards 0 is entropy collapse; above about 2 nats per token the text is close to "
    "random. Its sum grows with the length.",
    color="entropy",
)
def surprisal(logprobs: np.ndarray) -> np.ndarray:
    """−logprob of the sampled token: a one-sample estimate of the policy's entropy."""
    return -logprobs


@metric(
    "entropy (logged)",
    level="token",
    unit="nats",
    reductions=("mean",),
    pooled=True,
    advice="Exact, while surprisal is a one-sample estimate. A steady fall towards 0 is entropy collapse.",
    color="entropy",
)
def token_entropy(entropy: np.ndarray) -> np.ndarray:
    """Entropy of the policy's full next-token distribution, as logged by the trainer."""
    return entropy


@metric(
    "logprob",
    level="token",
    unit="nats",
    reductions=("mean",),
    advice="Near 0 the policy was certain; a very negative value is a token that it held unlikely.",
    color="entropy",
)
def logprob(logprobs: np.ndarray) -> np.ndarray:
    """Log-probability of the sampled token under the policy."""
    return logprobs


@metric(
    "ref logprob",
    level="token",
    unit="nats",
    reductions=("mean",),
    advice="If it falls while the policy's logprob does not, the policy writes text the reference would not.",
    color="reference",
)
def ref_logprob(ref_logprobs: np.ndarray) -> np.ndarray:
    """Log-probability of the sampled token under the frozen reference."""
    return ref_logprobs


@metric(
    "prob",
    level="token",
    formula=r"\pi(a_t)",
    advice="Easier to read than the logprob, but all small probabilities look like 0.",
    color="entropy",
)
def prob(logprobs: np.ndarray) -> np.ndarray:
    """Probability of the sampled token under the policy.

    The value is between 0 and 1.
    """
    return np.exp(logprobs)


@metric(
    "ref prob",
    level="token",
    formula=r"\pi_\mathrm{ref}(a_t)",
    advice="Compare it with prob: where the two differ, training has changed the policy.",
    color="reference",
)
def ref_prob(ref_logprobs: np.ndarray) -> np.ndarray:
    """Probability of the sampled token under the frozen reference.

    The value is between 0 and 1.
    """
    return np.exp(ref_logprobs)


# -- distillation --------------------------------------------------------------------------------------
# Metrics of on-policy distillation: a teacher scores the tokens that the policy sampled.
#
# ``logprobs`` are the policy's and ``teacher_logprobs`` the teacher's, of the same tokens. Trainers that
# cannot score a token, such as one of the chat template or of another tokenizer, often log 0 for it.


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
