"""A line through the noise: an exponential moving average that does not lag at its beginning.

The average of TensorBoard's smoothing: weights fall by ``weight`` from one value to the one before, and they
are divided by their sum, so that the first values are not drawn towards zero.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

#: More would never arrive at what the values are.
MOST = 0.99


def smooth(values: np.ndarray, weight: float, steps: int = 1) -> np.ndarray:
    """The moving average of values; one that is missing stays missing and moves nothing.

    Parameters
    ----------
    values : ndarray of float, shape (P,)
    weight : float
        From one step to the next; 0 changes nothing.
    steps : int
        Steps that a value stands for.
    """
    if not weight or not len(values):
        return values
    found = pd.Series(values).ewm(alpha=1 - weight**steps, adjust=True, ignore_na=True).mean().to_numpy()
    return np.where(np.isnan(values), np.nan, found)
