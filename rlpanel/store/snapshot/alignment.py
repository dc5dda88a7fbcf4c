"""The x axis on which runs are aligned: steps, samples seen, or wall time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.board_url import SAMPLES, STEP, TIME
from rlpanel.store.columns.step_stats import MAX, MIN
from rlpanel.store.snapshot.snapshot import Snapshot

#: Label on screen → name in the URL.
ALIGNMENTS = {"step": STEP, "samples seen": SAMPLES, "wall time": TIME}
#: Quantity on the axis, for tooltips and exported tables.
AXIS_LABELS = {STEP: "step", SAMPLES: "samples seen", TIME: "hours"}
#: Sample columns with the time of writing, in seconds since the epoch; the first that the run has is used.
CLOCKS = ("time", "timestamp")
_HOUR = 3600.0


@dataclass(frozen=True)
class RunAxis:
    """Positions of a run's steps on the x axis.

    Attributes
    ----------
    steps : ndarray of int, shape (S,)
        Ascending.
    positions : ndarray of float, shape (S,)
        Position of each step, never falling: the step itself, the number of samples up to its end, or the
        hours up to its last sample.
    """

    steps: np.ndarray
    positions: np.ndarray

    def positions_of(self, steps: np.ndarray) -> np.ndarray:
        """Return the positions of any steps; one that the run lacks has the position of the step before."""
        if self.steps is self.positions:
            return np.asarray(steps, float)
        index = np.searchsorted(self.steps, steps, side="right") - 1
        return self.positions[index.clip(min=0)] if len(self.positions) else np.full(np.shape(steps), np.nan)

    def nearest(self, x: float) -> int | None:
        """Return the step nearest to a position on the axis; None while there are no steps."""
        return int(self.steps[np.abs(self.positions - x).argmin()]) if len(self.steps) else None


def axis_of(snapshot: Snapshot, alignment: str) -> RunAxis | None:
    """Return the axis of a run; None if the run does not log the time that the alignment needs."""
    steps = snapshot.steps.values
    if alignment == SAMPLES:
        return RunAxis(steps, np.cumsum(snapshot.steps.samples).astype(float))
    if alignment == TIME:
        clock = next((name for name in CLOCKS if snapshot.has_number(name)), None)
        return None if clock is None else RunAxis(steps, _hours(snapshot, clock))
    return RunAxis(steps, steps)


def chosen_axis(snapshot: Snapshot, alignment: str) -> RunAxis:
    """Return the axis of the selected run for the chosen alignment, or its step axis if it lacks that one."""
    steps = snapshot.steps.values
    return axis_of(snapshot, alignment) or RunAxis(steps, steps)


def alignment_of(snapshot: Snapshot, alignment: str) -> str:
    """Return the alignment in use for the selected run: the chosen one, or the step if the run lacks it."""
    return alignment if axis_of(snapshot, alignment) is not None else STEP


def _hours(snapshot: Snapshot, clock: str) -> np.ndarray:
    """Return the hours from the run's first sample to each step's last one.

    A step without times has the hours of the step before it.
    """
    first, last = snapshot.steps.stat(clock, MIN), snapshot.steps.stat(clock, MAX)
    if not len(last):
        return last
    start = np.nanmin(first)
    return (np.fmax.accumulate(np.fmax(last, start)) - start) / _HOUR
