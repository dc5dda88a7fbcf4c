"""Tail and quantiles of Student's t distribution with a whole number of degrees of freedom."""

from __future__ import annotations

import math
from functools import lru_cache


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


@lru_cache(maxsize=256)
def quantile(probability: float, degrees: int) -> float:
    """Return the value that is exceeded with a probability of 1 - ``probability``, which is above 0.5."""
    low, high = 0.0, 1.0
    while upper_tail(high, degrees) > 1 - probability and high < 1e12:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if upper_tail(middle, degrees) > 1 - probability:
            low = middle
        else:
            high = middle
    return high
