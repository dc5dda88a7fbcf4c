"""Series with one value per step: stretches of marked steps, and robust z-scores against a running median."""

from __future__ import annotations

import numpy as np

#: Window of the running median, in steps.
WINDOW = 15


def stretches(mask: np.ndarray) -> np.ndarray:
    """Return start and exclusive end of each stretch of consecutive marked steps, shape (R, 2)."""
    return np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(int))).reshape(-1, 2)


def long_stretches(mask: np.ndarray, count: int) -> np.ndarray:
    """Return the mask without stretches shorter than ``count`` steps, shape (S,)."""
    result = np.zeros(len(mask), bool)
    for start, end in stretches(mask).tolist():
        result[start:end] = end - start >= count
    return result


def deviations(values: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the robust z-score of each step against the `WINDOW` steps before it, and their median.

    The spread is 1.4826 times the median absolute deviation.

    Parameters
    ----------
    values : ndarray of float, shape (S,)
    least : int
        Minimum number of finite values in the window before a step.

    Returns
    -------
    z, median : ndarray of float, shape (S,)
        0 and NaN for steps with fewer values before them.
    """
    z, median = np.zeros(len(values)), np.full(len(values), np.nan)
    for position in range(least, len(values)):
        window = values[max(0, position - WINDOW) : position]
        finite = window[np.isfinite(window)]
        if len(finite) < least or not np.isfinite(values[position]):
            continue
        median[position] = np.median(finite)
        spread = 1.4826 * np.median(np.abs(finite - median[position]))
        floor = max(1e-3 * abs(median[position]), 1e-12)
        z[position] = (values[position] - median[position]) / max(spread, floor)
    return z, median
