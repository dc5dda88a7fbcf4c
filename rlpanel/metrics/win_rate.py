"""Win rate and mean reward difference of two runs on the same prompts, with confidence intervals.

The unit is the prompt: each run's reward for it is the mean over its samples of the prompt. So all prompts
weigh the same, and the samples of one prompt, which are correlated, count as one observation.

Quantile of Student's t distribution for 95 % confidence intervals of means.

References
----------
Abramowitz and Stegun 1964, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rlpanel.metrics.reward import EQUAL_WITHIN

#: More degrees of freedom count as this many, whose quantile is less than 0.0003 above the normal one.
_MAX_FREEDOM = 10_000
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
    df = min(df, _MAX_FREEDOM)
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


#: Half the width of a 95 % interval of a normal distribution, in standard deviations.
Z95 = 1.959963984540054


@dataclass(frozen=True)
class Share:
    """A share of prompts with its 95 % Wilson score interval.

    Attributes
    ----------
    count, of : int
        Numerator and denominator.
    low, high : float
        Ends of the interval, between 0 and 1; NaN if there are no prompts.
    """

    count: int
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share, count / of; NaN if there are no prompts."""
        return self.count / self.of if self.of else math.nan


@dataclass(frozen=True)
class WinRate:
    """Wins, ties, losses and mean difference over many prompts.

    Attributes
    ----------
    wins, ties, losses : Share
        Prompts whose difference is above 0, equal to 0 (within `EQUAL_WITHIN`) and below 0.
    mean : float
        Mean difference; NaN if there are no prompts.
    half : float
        Half the width of the mean's 95 % interval by Student's t: t(P − 1) · s / √P. NaN if it has none.
    """

    wins: Share
    ties: Share
    losses: Share
    mean: float
    half: float

    @property
    def prompts(self) -> int:
        """Number of compared prompts."""
        return self.wins.of

    @property
    def no_interval(self) -> str:
        """Why the mean has no interval; empty if it has one."""
        if not math.isnan(self.half):
            return ""
        return "fewer than 2 prompts" if self.prompts < 2 else "all differences are equal"


def wilson(count: int, of: int) -> Share:
    """Return a share with its 95 % Wilson interval, which stays within [0, 1] and keeps a width at both ends.

    Parameters
    ----------
    count, of : int

    Returns
    -------
    Share

    References
    ----------
    Wilson 1927, Probable Inference, the Law of Succession, and Statistical Inference.
    """
    if not of:
        return Share(count, of, math.nan, math.nan)
    share, square = count / of, Z95**2
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = Z95 / (1 + square / of) * math.sqrt(share * (1 - share) / of + square / (4 * of**2))
    return Share(count, of, max(0.0, middle - half), min(1.0, middle + half))


def win_rate_of(differences: np.ndarray) -> WinRate:
    """Return wins, ties, losses, and the mean with its interval, of paired differences.

    Parameters
    ----------
    differences : ndarray of float, shape (P,)
        One per prompt, all finite.

    Returns
    -------
    WinRate
    """
    of = len(differences)
    wins, losses = int((differences > EQUAL_WITHIN).sum()), int((differences < -EQUAL_WITHIN).sum())
    mean = float(differences.mean()) if of else math.nan
    shares = wilson(wins, of), wilson(of - wins - losses, of), wilson(losses, of)
    return WinRate(*shares, mean, _half_width(differences))


def _half_width(differences: np.ndarray) -> float:
    """Return half the width of the mean's 95 % interval; NaN if nothing is known about the spread."""
    of = len(differences)
    if of < 2 or float(np.ptp(differences)) <= EQUAL_WITHIN:
        return math.nan
    return t95(of - 1) * float(differences.std(ddof=1)) / math.sqrt(of)
