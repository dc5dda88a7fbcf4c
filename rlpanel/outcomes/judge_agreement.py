"""Agreement of judges that score the same samples.

Scores are numbers, so a disagreement counts by the square of its size. For verdicts of 0 and 1 both
coefficients are the usual, unweighted ones.
"""

from __future__ import annotations

import numpy as np


def weighted_kappa(one: np.ndarray, other: np.ndarray) -> float:
    r"""Return Cohen's kappa with quadratic weights of two judges' scores.

    .. math:: \kappa = 1 - \frac{\sum_i (a_i - b_i)^2 / n}{\sum_{i,j} (a_i - b_j)^2 / n^2}

    1 is perfect agreement, 0 that of judges who score independently with the same shares.

    Parameters
    ----------
    one, other : ndarray of float64, shape (N,)
        Scores of the same samples; those that either judge lacks (NaN) are left out.

    Returns
    -------
    float
        NaN without a common sample, or if both judges always give the same score.

    References
    ----------
    Cohen, "Weighted kappa", Psychological Bulletin 70 (1968). For numbers it equals the concordance
    coefficient of Lin, Biometrics 45 (1989), with variances divided by n.
    """
    both = np.isfinite(one) & np.isfinite(other)
    a, b = one[both], other[both]
    if not len(a):
        return float("nan")
    chance = a.var() + b.var() + (a.mean() - b.mean()) ** 2
    return round(float(1 - np.mean((a - b) ** 2) / chance), 12) if chance > 0 else float("nan")


def krippendorff_alpha(scores: np.ndarray) -> float:
    r"""Return Krippendorff's alpha with the interval metric, for any number of judges and missing scores.

    .. math:: \alpha = 1 - \frac{D_o}{D_e}, \quad
        D_o = \frac{1}{n} \sum_u \frac{\sum_{i \ne j} (x_{ui} - x_{uj})^2}{m_u - 1}, \quad
        D_e = \frac{\sum_{k \ne l} (x_k - x_l)^2}{n (n - 1)}

    Parameters
    ----------
    scores : ndarray of float64, shape (N, J)
        One row per sample, one column per judge, NaN without a score. Rows with fewer than two scores are
        left out; n is the number of the other scores.

    Returns
    -------
    float
        NaN if no sample has two scores, or if all scores are equal.

    References
    ----------
    Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section E.
    """
    found = np.isfinite(scores)
    rows = found.sum(axis=1) >= 2
    values, known = scores[rows], found[rows]
    count = int(known.sum())
    if not count:
        return float("nan")
    filled = np.where(known, values - np.nanmean(values), 0.0)
    size = known.sum(axis=1)
    # Σ_{i≠j} (x_i - x_j)² = 2 (m Σ x² - (Σ x)²)
    inside = 2 * (size * (filled**2).sum(axis=1) - filled.sum(axis=1) ** 2)
    observed = (inside / (size - 1)).sum() / count
    expected = 2 * (count * (filled**2).sum() - filled.sum() ** 2) / (count * (count - 1))
    return float(1 - observed / expected) if expected > 1e-12 else float("nan")


def equal_share(one: np.ndarray, other: np.ndarray) -> float:
    """Return the share of the common samples at which two judges give the same score; NaN without any."""
    both = np.isfinite(one) & np.isfinite(other)
    return float(np.isclose(one[both], other[both], rtol=0, atol=1e-9).mean()) if both.any() else float("nan")
