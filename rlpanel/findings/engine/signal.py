"""Registry of signals: numbers of each sample whose level over the steps the rules test.

A signal is computed once for all rules, for the whole run, for each rank, and for each category.

Series with one value per step: stretches of marked steps, and running medians.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlpanel.findings.engine.row_batch import RowBatch

Kind = Literal["share", "level", "positive"]
Values = Callable[[RowBatch], np.ndarray]


@dataclass(frozen=True)
class Signal:
    """A number of each sample.

    Attributes
    ----------
    name : str
        Unique name.
    kind : str
        ``share``: 0 or 1; ``level``: any number; ``positive``: a positive number that is compared by its
        logarithm, so that a change is a factor.
    needs : tuple of str
        Columns of which the run must have all.
    values : callable
        Returns the numbers of rows, shape (N,); NaN where the signal is not defined.
    by_group : bool
        True if all samples of a group have the same value.
    """

    name: str
    kind: Kind
    needs: tuple[str, ...]
    values: Values
    by_group: bool = False


SIGNALS: dict[str, Signal] = {}


def signal(
    name: str, *needs: str, kind: Kind = "share", by_group: bool = False
) -> Callable[[Values], Signal]:
    """Register the decorated function as a signal; see `Signal` for the parameters.

    Raises
    ------
    ValueError
        If the name is taken.
    """

    def register(values: Values) -> Signal:
        if name in SIGNALS:
            raise ValueError(f"signal {name!r} is declared twice")
        SIGNALS[name] = Signal(name, kind, needs, values, by_group)
        return SIGNALS[name]

    return register


def column_signal(name: str, kind: Kind = "level") -> Signal:
    """Return the signal that is a number column itself; it is registered when it is first used."""
    if name not in SIGNALS:
        SIGNALS[name] = Signal(name, kind, (name,), lambda rows: rows.number(name))
    return SIGNALS[name]


def mark(condition: np.ndarray, defined: np.ndarray) -> np.ndarray:
    """Return 1 where the condition holds, 0 where it does not, and NaN where it is not defined."""
    return np.where(defined, condition.astype(float), np.nan)


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
