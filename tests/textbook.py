"""Formulas as papers and trainers write them, in loops over plain numbers, to test the package's numbers.

Nothing here imports the package. Each function names its source. A sample is a list of tokens; a step is a
list of samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Tokens = Sequence[float]


# -- KL divergence, of tokens that the policy sampled --------------------------------------------------


def k1(policy: float, reference: float) -> float:
    """Schulman 2020: −log r with r = p_reference / p_policy."""
    return policy - reference


def k2(policy: float, reference: float) -> float:
    """Schulman 2020: (log r)² / 2."""
    return (reference - policy) ** 2 / 2


def k3(policy: float, reference: float) -> float:
    """Schulman 2020: (r − 1) − log r."""
    log_r = reference - policy
    return math.exp(log_r) - 1 - log_r


# -- policy update -------------------------------------------------------------------------------------


def ratios(new: Sequence[Tokens], old: Sequence[Tokens]) -> list[float]:
    """Schulman 2017: p_new / p_old of every token of a step."""
    return [math.exp(n - o) for a, b in zip(new, old, strict=True) for n, o in zip(a, b, strict=True)]


def clip_fraction(
    new: Sequence[Tokens], old: Sequence[Tokens], advantage: Tokens, low: float, high: float
) -> float:
    """TRL 1.16 GRPO, ``clip_ratio/region_mean``: share of tokens outside the range, by advantage."""
    clipped = []
    for a, b, weight in zip(new, old, advantage, strict=True):
        for ratio in ratios([a], [b]):
            clipped.append((ratio < 1 - low and weight < 0) or (ratio > 1 + high and weight > 0))
    return mean(clipped)


# -- advantages ----------------------------------------------------------------------------------------


def grpo_advantages(rewards: Tokens) -> list[float]:
    """TRL 1.16 GRPO, ``scale_rewards="group"``: (R − mean) / (std + 1e-4), std with ddof 1."""
    scale = math.sqrt(variance(rewards, ddof=1)) + 1e-4
    return [(reward - mean(rewards)) / scale for reward in rewards]


def rloo_advantages(rewards: Tokens) -> list[float]:
    """Ahmadian 2024: reward minus the mean reward of the group's other samples."""
    others = [[*rewards[:i], *rewards[i + 1 :]] for i in range(len(rewards))]
    return [reward - mean(rest) for reward, rest in zip(rewards, others, strict=True)]


def gae(rewards: Tokens, values: Tokens, gamma: float, lam: float) -> list[float]:
    """Schulman 2016: A_t = Σ_l (γλ)^l δ_{t+l} with δ_t = r_t + γ V_{t+1} − V_t, and V = 0 after the end."""
    after = [*values[1:], 0.0]
    delta = [r + gamma * v_next - v for r, v, v_next in zip(rewards, values, after, strict=True)]
    return [
        math.fsum((gamma * lam) ** ahead * delta[t + ahead] for ahead in range(len(delta) - t))
        for t in range(len(delta))
    ]


def gae_of_written_tokens(
    rewards: Tokens, values: Tokens, mask: Sequence[int], gamma: float, lam: float
) -> list[float]:
    """verl 0.9, ``compute_gae_advantage_return``: skips tokens outside the mask."""
    next_value = last = 0.0
    advantages = []
    for reward, value, written in zip(rewards[::-1], values[::-1], mask[::-1], strict=True):
        advantage = reward + gamma * next_value - value + gamma * lam * last
        next_value = value * written + (1 - written) * next_value
        last = advantage * written + (1 - written) * last
        advantages.append(last)
    return advantages[::-1]


# -- groups --------------------------------------------------------------------------------------------


def pass_at(k: int, samples: int, passed: int) -> float:
    """Chen 2021: 1 − C(n − c, k) / C(n, k)."""
    return 1 - math.comb(samples - passed, k) / math.comb(samples, k)


# -- critic --------------------------------------------------------------------------------------------


def explained_variance(values: Tokens, returns: Tokens) -> float:
    """1 − Var(G − V) / Var(G), as Stable-Baselines3 and others define it."""
    errors = [g - v for g, v in zip(returns, values, strict=True)]
    return 1 - variance(errors, ddof=0) / variance(returns, ddof=0)


# -- statistics ----------------------------------------------------------------------------------------


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return math.fsum(values) / len(values)


def variance(values: Sequence[float], *, ddof: int) -> float:
    """Mean squared deviation from the mean, by two passes."""
    middle = mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - ddof)


def effective_sample_size(weights: Sequence[float]) -> float:
    """Kish 1965: (Σw)² / Σw²."""
    return math.fsum(weights) ** 2 / math.fsum(weight * weight for weight in weights)
