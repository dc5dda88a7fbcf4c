"""Quantile of Student's t distribution for 95 % confidence intervals of means.

References
----------
Abramowitz and Stegun 1964, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

#: More degrees of freedom count as this many, whose quantile is less than 0.0003 above the normal one.
_MOST = 10_000
#: Bisections of the angle: after 60, its error is smaller than the rounding of a float.
_BISECTIONS = 60


@lru_cache(maxsize=512)
def t95(df: int) -> float:
    """Return t such that a value of Student's t distribution is within ±t with a probability of 95 %.

    Parameters
    ----------
    df : int
        Degrees of freedom, at least 1: for a mean, the number of observations minus 1.

    Returns
    -------
    float
        12.706 for 1, 2.045 for 29, and 1.960 in the limit, which is the normal distribution's.
    """
    df = min(df, _MOST)
    low, high = 0.0, math.pi / 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _probability(middle, df) < 0.95 else (low, middle)
    return math.sqrt(df) * math.tan(low)


def _probability(angle: float, df: int) -> float:
    """Return the probability of a value within ±t, where t = √df · tan(angle); the sum is finite."""
    odd = df % 2
    if df == 1:
        return 2 * angle / math.pi
    top = 2 * np.arange(1, df // 2) - 1 + odd
    series = 1 + float(np.cumprod(top / (top + 1) * math.cos(angle) ** 2).sum())
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * math.cos(angle) * series)
    return math.sin(angle) * series
