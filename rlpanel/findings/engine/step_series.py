"""Series with one value per step: stretches of marked steps, and running medians."""

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


def running_median(values: np.ndarray, least: int) -> np.ndarray:
    """Return the median of the finite values among the `WINDOW` steps before each step.

    Parameters
    ----------
    values : ndarray of float, shape (S,)
    least : int
        Minimum number of finite values.

    Returns
    -------
    ndarray of float, shape (S,)
        NaN for steps with fewer values before them.
    """
    padded = np.concatenate([np.full(WINDOW, np.nan), values])[:-1] if len(values) else values
    if not len(padded):
        return values
    windows = np.sort(np.lib.stride_tricks.sliding_window_view(padded, WINDOW), axis=1)  # NaN last
    count = np.isfinite(windows).sum(axis=1)
    rows = np.arange(len(windows))
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, WINDOW - 1)
    return np.where(count >= max(least, 1), (windows[rows, low] + windows[rows, high]) / 2, np.nan)
