"""Two runs on the same prompts: how many prompts one wins, and by how much, with intervals.

The unit is the prompt. Its number in a run is the mean over the run's samples of it, so that prompts with
many samples weigh no more than others, and samples of one prompt are not taken for independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlpanel.metrics.reward import SAME

#: Half the width of a 95 % interval of a normal distribution, in standard deviations.
Z95 = 1.959963984540054


@dataclass(frozen=True)
class Share:
    """A share of prompts with its 95 % Wilson interval.

    Attributes
    ----------
    count, of : int
    low, high : float
        Between 0 and 1; NaN where there are no prompts.
    """

    count: int
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share itself; NaN where there are no prompts."""
        return self.count / self.of if self.of else math.nan


@dataclass(frozen=True)
class WinRate:
    """What the differences of many prompts come to.

    Attributes
    ----------
    wins, ties, losses : Share
        Prompts whose difference is above 0, 0 (to rounding) and below it.
    mean : float
        Of the differences; NaN where there are none.
    low, high : float
        Its 95 % interval by the normal approximation, mean ± 1.96 · s / √P; NaN below two prompts.
    """

    wins: Share
    ties: Share
    losses: Share
    mean: float
    low: float
    high: float


def wilson(count: int, of: int) -> Share:
    """A share with its 95 % score interval, which stays between 0 and 1 and does not collapse at either end.

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
    """Wins, ties and losses of paired differences, and their mean.

    Parameters
    ----------
    differences : ndarray of float, shape (P,)
        One a prompt, all finite.

    Returns
    -------
    Outcome
    """
    of = len(differences)
    wins, losses = int((differences > SAME).sum()), int((differences < -SAME).sum())
    mean = float(differences.mean()) if of else math.nan
    half = Z95 * float(differences.std(ddof=1)) / math.sqrt(of) if of > 1 else math.nan
    return WinRate(
        wilson(wins, of), wilson(of - wins - losses, of), wilson(losses, of), mean, mean - half, mean + half
    )
