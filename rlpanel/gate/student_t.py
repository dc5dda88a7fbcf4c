"""Tail and quantiles of Student's t distribution with a whole number of degrees of freedom.

Also those of t whose error is never below a share of the true one, since a part of it is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

#: Points of the integrals over the estimated error, and the deviate beyond which a tail counts as 0.
_POINTS, _FAR = np.polynomial.legendre.leggauss(48), 8.0


def upper_tail(t: float, degrees: int) -> float:
    """Return the probability of a value above ``t``.

    Parameters
    ----------
    t : float
    degrees : int
        Degrees of freedom, at least 1.

    Notes
    -----
    The finite sums of Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.
    """
    if math.isnan(t):
        return math.nan
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    angle = math.atan2(abs(t), math.sqrt(degrees))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = degrees % 2
    term = total = math.cos(angle) if odd else 1.0
    for even in range(2 + odd, degrees - 1, 2):
        term *= square * (even - 1) / even
        total += term
    if odd:
        inside = 2 / math.pi * (angle + (sine * total if degrees > 1 else 0.0))
    else:
        inside = sine * total
    tail = max(0.0, (1 - inside) / 2)
    return tail if t > 0 else 1 - tail


def floored_tail(t: float, degrees: int, least: float) -> float:
    """Return the probability of a value above ``t`` if the error is at least a share of the true one.

    Parameters
    ----------
    t : float
        The difference by the larger one of its estimated error and ``least`` times the true error.
    degrees : int
        Degrees of freedom of the estimated error, at least 1.
    least : float
        From 0, which is Student's t, to 1, which is a normal deviate with at most its usual error.

    Notes
    -----
    The mean of 1 − Φ(t · max(c, least)) over c = √(χ² / degrees). It falls with ``least``, so that a lower
    bound of it gives an upper bound of the probability.
    """
    if not least > 0 or not math.isfinite(t):
        return upper_tail(t, degrees)
    if t < 0:
        return 1 - floored_tail(-t, degrees, least)
    end = max(least, min(_FAR / max(t, 1e-9), 1 + 6 / math.sqrt(degrees)))
    beyond = _integral(degrees, least, end, lambda c: [math.erfc(t * each / math.sqrt(2)) / 2 for each in c])
    below = _integral(degrees, 0.0, least, lambda c: [1.0] * len(c))
    return min(0.5, below * math.erfc(t * least / math.sqrt(2)) / 2 + beyond)


def _integral(degrees: int, low: float, high: float, of: Callable[[np.ndarray], list[float]]) -> float:
    """Return the integral of a function of c = √(χ² / degrees) times the density of c."""
    nodes, weights = _POINTS
    c = low + (high - low) * (nodes + 1) / 2
    half = degrees / 2
    logs = math.log(2) + half * math.log(half) - math.lgamma(half)
    density = np.exp(logs + (degrees - 1) * np.log(np.maximum(c, 1e-300)) - half * c**2)
    return float((weights * density * np.array(of(c))).sum() * (high - low) / 2)


@lru_cache(maxsize=256)
def quantile(probability: float, degrees: int, least: float = 0.0) -> float:
    """Return the value that is exceeded with a probability of 1 - ``probability``, which is above 0.5.

    With ``least`` it is that of `floored_tail`.
    """
    low, high = 0.0, 1.0
    while floored_tail(high, degrees, least) > 1 - probability and high < 1e12:
        high *= 2
    for _ in range(100 if not least else 40):
        middle = (low + high) / 2
        if floored_tail(middle, degrees, least) > 1 - probability:
            low = middle
        else:
            high = middle
    return high
