"""Exponential moving average that is not biased towards zero at its beginning.

This is TensorBoard's smoothing: each value weighs ``weight`` times as much as the value after it, and the
weights are divided by their sum, so that the first values are not drawn towards zero.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

#: Largest weight. With a larger one, the line would not reach the values within a run.
MAX_WEIGHT = 0.99


def smooth(values: np.ndarray, weight: float, steps: int = 1) -> np.ndarray:
    """Return the moving average of values; missing values stay missing and do not affect the others.

    Parameters
    ----------
    values : ndarray of float, shape (P,)
    weight : float
        Weight of a step relative to the next one; 0 returns the values unchanged.
    steps : int
        Number of steps that a value stands for.
    """
    if not weight or not len(values):
        return values
    average = pd.Series(values).ewm(alpha=1 - weight**steps, adjust=True, ignore_na=True).mean().to_numpy()
    return np.where(np.isnan(values), np.nan, average)
