"""Numbers and marks by step: stretches, and each step against those before it."""

from __future__ import annotations

import numpy as np

#: Steps looked back on.
BACK = 15


def stretches(mask: np.ndarray) -> np.ndarray:
    """Where each run of marked steps begins and ends, shape (R, 2); the end is the first step behind it."""
    return np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(int))).reshape(-1, 2)


def lasting(mask: np.ndarray, count: int) -> np.ndarray:
    """Only the stretches of at least ``count`` steps in a row, shape (S,)."""
    found = np.zeros(len(mask), bool)
    for start, end in stretches(mask).tolist():
        found[start:end] = end - start >= count
    return found


def deviations(values: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Robust z of each step against those before it, and their median, shape (S,) each.

    Parameters
    ----------
    values : ndarray of float, shape (S,)
    least : int
        How many steps must be known before one.

    Returns
    -------
    z, usual : ndarray of float, shape (S,)
        0 and NaN before ``least`` steps are known.
    """
    z, usual = np.zeros(len(values)), np.full(len(values), np.nan)
    for at in range(least, len(values)):
        window = slice(max(0, at - BACK), at)
        back = values[window]
        known = np.isfinite(back)
        if known.sum() < least or not np.isfinite(values[at]):
            continue
        usual[at] = np.median(back[known])
        spread = 1.4826 * np.median(np.abs(back[known] - usual[at]))
        floor = max(1e-3 * abs(usual[at]), 1e-12)
        z[at] = (values[at] - usual[at]) / max(spread, floor)
    return z, usual
