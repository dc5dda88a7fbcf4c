"""A number of a run by step, with clustered errors, and the windows that all runs of a gate share."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlpanel.analysis.run_comparison import ComparedRun
from rlpanel.board_url import SAMPLES, STEP
from rlpanel.findings.engine.signal import RowBatch
from rlpanel.gate.gate_numbers import GateNumber
from rlpanel.store.snapshot.snapshot import newest_complete_step

# -- run series ----------------------------------------------------------------------------------------
# A number of a run by step: means, and errors that are clustered by group.


#: Alignment by the tokens of the responses, besides those of `alignment`.
TOKENS = "tokens"


@dataclass(frozen=True)
class NumberSeries:
    """A number of a run at its complete steps.

    Attributes
    ----------
    mean : ndarray of float, shape (S,)
        In the number's own unit; NaN where a step has no value.
    variance : ndarray of float, shape (S,)
        Sampling variance of the mean, clustered by group; NaN for a step with one group.
    spread : float
        Standard deviation of the samples within their steps.
    """

    mean: np.ndarray
    variance: np.ndarray
    spread: float


class GateRun:
    """A run in a gate, with its complete steps.

    Parameters
    ----------
    run : ComparedRun
    align : str
        ``step``, ``samples`` or ``tokens``.
    """

    def __init__(self, run: ComparedRun, align: str = STEP) -> None:
        self.run, self.align = run, align
        self.name = run.snapshot.name
        self._only: np.ndarray | None = None

    @cached_property
    def steps(self) -> np.ndarray:
        """Complete steps, ascending, shape (S,)."""
        newest = newest_complete_step(self.run.snapshot, time.time())
        values = self.run.snapshot.steps.values
        return values[values <= newest] if newest is not None else values[:0]

    @cached_property
    def rows(self) -> RowBatch:
        """The rows of the complete steps."""
        snapshot = self.run.snapshot
        rows = snapshot.alive_rows
        if len(self.steps) < len(snapshot.steps.values):
            last = self.steps[-1] if len(self.steps) else -np.inf
            rows = rows[snapshot.metadata("step")[rows] <= last]
        return RowBatch(self.run.view, rows, self.steps)

    @cached_property
    def positions(self) -> np.ndarray | None:
        """Position of each step on the axis, never falling, shape (S,); None if it logs no tokens."""
        if self.align == STEP:
            return self.steps.astype(float)
        if self.align == SAMPLES:
            return np.cumsum(self.run.snapshot.steps.samples[: len(self.steps)]).astype(float)
        if not self.run.snapshot.has_number("response_tokens"):
            return None
        tokens = np.nan_to_num(self.rows.number("response_tokens"))
        return np.cumsum(np.bincount(self.rows.position, tokens, len(self.steps)))

    @cached_property
    def prompts(self) -> tuple[np.ndarray, np.ndarray]:
        """Hashes of the prompts, ascending, and the number of samples of each; shape (P,)."""
        return np.unique(self.run.snapshot.prompts(self.rows.rows), return_counts=True)

    def only_prompts(self, hashes: np.ndarray) -> None:
        """Compare only the samples of these prompts."""
        self._only = np.isin(self.run.snapshot.prompts(self.rows.rows), hashes)

    def parts(self, number: GateNumber) -> tuple[np.ndarray, np.ndarray]:
        """Return sum and weight of each row, 0 where the number is not defined; each of shape (N,)."""
        sums, weights = number.parts(self.rows)
        known = np.isfinite(sums) & np.isfinite(weights)
        if self._only is not None:
            known &= self._only
        return np.where(known, sums, 0.0), np.where(known, weights, 0.0)

    def series(self, number: GateNumber) -> NumberSeries:
        """Return the number by step.

        The variance of a step's mean is that of a ratio of sums over independent groups (Cochran 1977,
        Sampling Techniques, 6.4): G / (G − 1) · Σ (group's residual)² / (Σ weights)².
        """
        sums, weights = self.parts(number)
        step, size = self.rows.position, len(self.steps)
        total = np.bincount(step, weights, size)
        with np.errstate(all="ignore"):
            mean = np.bincount(step, sums, size) / total
            rest = sums - np.where(weights > 0, mean[step], 0.0) * weights
            group = self.rows.group
            groups = int(group.max()) + 1 if len(group) else 0
            place = np.zeros(groups, int)
            place[group] = step
            counted = np.bincount(group, weights, groups) > 0
            count = np.bincount(place[counted], minlength=size)
            squares = np.bincount(place, np.bincount(group, rest, groups) ** 2, size)
            variance = count / (count - 1) * squares / total**2
            values = np.where(weights > 0, rest**2 / weights, 0.0)
        spread = float(np.sqrt(values.sum() / max(np.count_nonzero(weights), 1)))
        return NumberSeries(mean, np.where(count > 1, variance, np.nan), spread)


# -- aligned windows -----------------------------------------------------------------------------------
# Windows over the range of steps, samples or tokens that all runs of a gate have in common.


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
