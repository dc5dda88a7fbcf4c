"""Windows over the range of steps, samples or tokens that all runs of a gate have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class AlignedWindows:
    """Windows of equal width on the axis.

    Attributes
    ----------
    low, high : float
        Ends of the common range on the axis.
    place : tuple of ndarray of int
        Window of each step of each run, shape (S,); -1 outside of the common range.
    count : int
        Number of windows; each has at least one step of each run.
    """

    low: float
    high: float
    place: tuple[np.ndarray, ...]
    count: int

    def steps(self, run: int) -> int:
        """Return the number of steps of a run in the common range."""
        return int(np.count_nonzero(self.place[run] >= 0))

    def means(self, run: int, values: np.ndarray) -> np.ndarray:
        """Return the mean over the steps of each window that have a value, shape (W,); NaN if none has."""
        place = self.place[run]
        known = (place >= 0) & np.isfinite(values)
        with np.errstate(all="ignore"):
            return np.bincount(place[known], values[known], self.count) / np.bincount(
                place[known], minlength=self.count
            )


def align(positions: Sequence[np.ndarray], windows: int) -> AlignedWindows | None:
    """Return windows over the common range; None if the runs have no step in common.

    Parameters
    ----------
    positions : sequence of ndarray of float, shape (S,)
        Positions of the steps of each run, never falling.
    windows : int
        Most windows. There are fewer if a run would have no step in one of them.
    """
    if not all(len(each) for each in positions):
        return None
    low = max(float(each[0]) for each in positions)
    high = min(float(each[-1]) for each in positions)
    if low > high:
        return None
    for count in range(windows, 0, -1):
        edges = np.linspace(low, high, count + 1)[1:-1]
        place = tuple(
            np.where((each >= low) & (each <= high), np.searchsorted(edges, each, side="right"), -1)
            for each in positions
        )
        if all(len(np.unique(each[each >= 0])) == count for each in place):
            return AlignedWindows(low, high, place, count)
    return None
