"""On which axis runs lie over one another: steps, samples seen, or wall time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.store.columns.step_stats import MAX, MIN
from rlpanel.store.snapshot.snapshot import Snapshot

STEP, SAMPLES, TIME = "step", "samples", "time"
#: What a person reads → its name in the address.
ALIGNMENTS = {"step": STEP, "samples seen": SAMPLES, "wall time": TIME}
#: What stands on the axis, for tooltips.
WORDS = {STEP: "step", SAMPLES: "samples seen", TIME: "hours"}
#: Sample columns that hold when a sample was written, in seconds since the epoch; the first there counts.
CLOCKS = ("time", "timestamp")
_HOUR = 3600.0


@dataclass(frozen=True)
class RunAxis:
    """Where a run's steps stand.

    Attributes
    ----------
    steps : ndarray of int, shape (S,)
        Ascending.
    places : ndarray of float, shape (S,)
        Never falling: the step itself, samples up to its end, or hours up to its last sample.
    """

    steps: np.ndarray
    places: np.ndarray

    def place(self, steps: np.ndarray) -> np.ndarray:
        """Where steps stand, those of another log too: a step in between stands where the one before does."""
        if self.steps is self.places:
            return np.asarray(steps, float)
        at = np.searchsorted(self.steps, steps, side="right") - 1
        return self.places[at.clip(min=0)] if len(self.places) else np.full(np.shape(steps), np.nan)

    def nearest(self, place: float) -> int | None:
        """The step nearest to a place; None where there are no steps."""
        return int(self.steps[np.abs(self.places - place).argmin()]) if len(self.steps) else None


def axis_of(snapshot: Snapshot, alignment: str) -> RunAxis | None:
    """The axis of a run; None where nothing is logged that tells it."""
    steps = snapshot.steps.values
    if alignment == SAMPLES:
        return RunAxis(steps, np.cumsum(snapshot.steps.samples).astype(float))
    if alignment == TIME:
        clock = next((name for name in CLOCKS if snapshot.has_number(name)), None)
        return None if clock is None else RunAxis(steps, _hours(snapshot, clock))
    return RunAxis(steps, steps)


def chosen_axis(snapshot: Snapshot, alignment: str) -> RunAxis:
    """The axis of the selected run: the one asked for, or the steps where the run does not tell that."""
    steps = snapshot.steps.values
    return axis_of(snapshot, alignment) or RunAxis(steps, steps)


def alignment_of(snapshot: Snapshot, alignment: str) -> str:
    """What the curves of a selected run are aligned by, where this is asked for."""
    return alignment if axis_of(snapshot, alignment) is not None else STEP


def _hours(snapshot: Snapshot, clock: str) -> np.ndarray:
    """Hours from the run's first sample to each step's last; without a time, to that of the steps before."""
    first, last = snapshot.steps.stat(clock, MIN), snapshot.steps.stat(clock, MAX)
    if not len(last):
        return last
    begun = np.nanmin(first)
    return (np.fmax.accumulate(np.fmax(last, begun)) - begun) / _HOUR
