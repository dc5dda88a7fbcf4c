"""How far the policy has moved from the reference, by named estimators.

All take the log-probabilities of tokens *sampled from the policy*. With ``d = logprobs -
ref_logprobs`` the estimators of KL(policy || reference) are k1 = d, k2 = d²/2 and k3 = exp(-d) - 1 + d.

References
----------
Schulman 2020, Approximating KL Divergence (http://joschu.net/blog/kl-approx.html); the GRPO penalty
of TRL and verl is k3.
"""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric

_SCHULMAN = "Schulman 2020, Approximating KL Divergence"

#: |d| beyond which exp would leave the range that means anything (e^20 ≈ 5e8).
CLAMP = 20.0


@metric("clamped", level="token", pooled=True)
def _clamped(logprobs: np.ndarray, ref_logprobs: np.ndarray) -> np.ndarray:
    """Tokens whose log-ratio k3 clamps."""
    d = logprobs - ref_logprobs
    return (np.abs(d, out=d) > CLAMP).astype(float)


@metric(
    "log-ratio",
    level="token",
    unit="nats",
    source=_SCHULMAN,
    reductions=("mean", "sum"),
    pooled=True,
    good="near 0",
    advice="Its expectation is a KL, so a step's mean that stays below 0 says that the logged logprobs "
    "are not "
    "those of the policy that sampled.",
    aliases={"objective/kl": "sum", "objective/kl_dist": "sum"},
    scale="diverging",
    color="kl",
)
def log_ratio(logprobs: np.ndarray, ref_logprobs: np.ndarray) -> np.ndarray:
    """Log of the policy's probability over the reference's; as an estimate of KL this is k1.

    Parameters
    ----------
    logprobs, ref_logprobs : ndarray of float, shape (T,)
        In nats.

    Returns
    -------
    ndarray of float, shape (T,)
        Nats; a step's mean below 0 is a warning, since its expectation is a KL.
    """
    return logprobs - ref_logprobs


@metric(
    "KL k3",
    level="token",
    unit="nats",
    source=_SCHULMAN,
    reductions=("mean", "sum"),
    good="near 0",
    advice="Never below 0; one token that the reference finds impossible can make a whole step's mean, so "
    "look "
    "at the step's samples before the curve.",
    color="kl",
)
def kl_k3(logprobs: np.ndarray, ref_logprobs: np.ndarray) -> np.ndarray:
    """Non-negative, low-variance estimate of KL(policy || reference) at each sampled token.

    ``exp(-d) - 1 + d`` with ``d = logprobs - ref_logprobs``, -d clamped to ±20.

    Parameters
    ----------
    logprobs, ref_logprobs : ndarray of float, shape (T,)
        In nats.

    Returns
    -------
    ndarray of float, shape (T,)
        Nats, never below 0; NaN where either input is NaN.
    """
    return _exp_beyond_line(ref_logprobs - logprobs)


@metric(
    "KL k2",
    level="token",
    unit="nats",
    source=_SCHULMAN,
    reductions=("mean", "sum"),
    good="near 0",
    advice="Biased, but with the smallest spread of the three while the models are close.",
    color="kl",
)
def kl_k2(logprobs: np.ndarray, ref_logprobs: np.ndarray) -> np.ndarray:
    """Half the squared log-ratio: a biased, low-variance estimate of KL(policy || reference).

    Parameters
    ----------
    logprobs, ref_logprobs : ndarray of float, shape (T,)
        In nats.

    Returns
    -------
    ndarray of float, shape (T,)
        Nats, never below 0.
    """
    d = logprobs - ref_logprobs
    d *= d
    d *= 0.5
    return d


@metric(
    "KL rllb",
    level="token",
    unit="nats",
    source="RLLoggingBoard (estimates chi-square minus KL)",
    reductions=("mean", "sum"),
    advice="Only to compare with old screenshots: where the true KL is 0.368 it reads 0.272.",
    color="kl",
)
def kl_rllb(logprobs: np.ndarray, ref_logprobs: np.ndarray) -> np.ndarray:
    """What RLLoggingBoard calls KL: k3 with its sign turned; kept to compare with old screenshots.

    ``exp(d) - 1 - d``. On tokens sampled from the policy this is no estimate of KL(policy || reference).

    Parameters
    ----------
    logprobs, ref_logprobs : ndarray of float, shape (T,)
        In nats.

    Returns
    -------
    ndarray of float, shape (T,)
    """
    return _exp_beyond_line(logprobs - ref_logprobs)


def _exp_beyond_line(d: np.ndarray) -> np.ndarray:
    """exp(d) - 1 - d of clamped values, which are written over: new arrays cost more than the formula."""
    np.clip(d, -CLAMP, CLAMP, out=d)
    found = np.expm1(d)
    found -= d
    return found


@metric(
    "surprisal",
    level="token",
    unit="nats",
    source="TRL objective/entropy is its sum",
    reductions=("mean", "sum"),
    pooled=True,
    advice="A steady fall towards 0 is collapse, above about 2 nats a token the policy rambles; its sum "
    "moves "
    "with the length.",
    aliases={"objective/entropy": "sum"},
    color="entropy",
)
def surprisal(logprobs: np.ndarray) -> np.ndarray:
    """−logprob of the sampled token: an estimate of the policy's entropy from one draw.

    Parameters
    ----------
    logprobs : ndarray of float, shape (T,)
        In nats.

    Returns
    -------
    ndarray of float, shape (T,)
        Nats per token.
    """
    return -logprobs


@metric(
    "entropy (logged)",
    level="token",
    unit="nats",
    reductions=("mean",),
    pooled=True,
    advice="Exact where surprisal is an estimate from one draw; a steady fall towards 0 is collapse.",
    color="entropy",
)
def token_entropy(entropy: np.ndarray) -> np.ndarray:
    """Entropy of the policy's full distribution, as the trainer logged it.

    Parameters
    ----------
    entropy : ndarray of float, shape (T,)
        In nats.

    Returns
    -------
    ndarray of float, shape (T,)
    """
    return entropy


@metric(
    "logprob",
    level="token",
    unit="nats",
    reductions=("mean",),
    advice="Near 0 the policy was sure; one very negative token is one it hardly believed itself.",
    aliases={"objective/logprobs": "mean"},
    color="entropy",
)
def logprob(logprobs: np.ndarray) -> np.ndarray:
    """Log-probability of the sampled token under the policy.

    Parameters
    ----------
    logprobs : ndarray of float, shape (T,)
        In nats.

    Returns
    -------
    ndarray of float, shape (T,)
    """
    return logprobs


@metric(
    "ref logprob",
    level="token",
    unit="nats",
    reductions=("mean",),
    advice="Falling while the policy's stays: the policy says what the reference would not.",
    aliases={"objective/ref_logprobs": "mean"},
    color="reference",
)
def ref_logprob(ref_logprobs: np.ndarray) -> np.ndarray:
    """Log-probability of the sampled token under the frozen reference.

    Parameters
    ----------
    ref_logprobs : ndarray of float, shape (T,)
        In nats.

    Returns
    -------
    ndarray of float, shape (T,)
    """
    return ref_logprobs


@metric(
    "prob",
    level="token",
    advice="The logprob on a scale people read; small ones all look like 0.",
    color="policy",
)
def prob(logprobs: np.ndarray) -> np.ndarray:
    """Probability of the sampled token under the policy.

    Parameters
    ----------
    logprobs : ndarray of float, shape (T,)
        In nats.

    Returns
    -------
    ndarray of float, shape (T,)
        Between 0 and 1.
    """
    return np.exp(logprobs)


@metric(
    "ref prob",
    level="token",
    advice="Beside prob: where the two part, the policy has learnt something.",
    color="reference",
)
def ref_prob(ref_logprobs: np.ndarray) -> np.ndarray:
    """Probability of the sampled token under the frozen reference.

    Parameters
    ----------
    ref_logprobs : ndarray of float, shape (T,)
        In nats.

    Returns
    -------
    ndarray of float, shape (T,)
        Between 0 and 1.
    """
    return np.exp(ref_logprobs)
