"""Two windows of steps that are compared: some steps, and as many right before them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from rlpanel.errors import SettingError
from rlpanel.store.snapshot.snapshot import Snapshot

#: First and last step, both included.
StepRange: TypeAlias = tuple[int, int]
#: Most steps of a window that is not given.
WINDOW_STEPS = 5


class StepWindows(NamedTuple):
    """The steps of a change and those that they are compared with.

    Attributes
    ----------
    after, before : (int, int)
    """

    after: StepRange
    before: StepRange


def windows_at(steps: np.ndarray, first: int, last: int) -> StepWindows | None:
    """Return the first of the affected steps, and as many right before them; None if either is missing.

    Parameters
    ----------
    steps : ndarray of int, shape (S,)
        All steps, ascending.
    first, last : int
        The affected steps.
    """
    onset = int(np.searchsorted(steps, first))
    affected = int(np.searchsorted(steps, last, side="right")) - onset
    count = min(WINDOW_STEPS, onset, affected)
    if not count:  # also where the steps are those of another run, or not read yet
        return None
    return StepWindows(range_of(steps[onset : onset + count]), range_of(steps[onset - count : onset]))


def chosen_windows(
    snapshot: Snapshot, steps: int | StepRange, since: int | StepRange | None = None
) -> StepWindows:
    """Return the windows of a choice: by default, up to `WINDOW_STEPS` steps before are compared with.

    Raises
    ------
    SettingError
        If the run does not have the steps, or a window is compared with itself.
    """
    values = snapshot.steps.values
    after = _as_range(steps)
    _check(snapshot, after)
    if since is None:
        earlier = values[values < after[0]][-WINDOW_STEPS:]
        if not len(earlier):
            raise SettingError(
                f"step {after[0]} is the first one of {snapshot.name}: there is none before it"
            )
        return StepWindows(after, range_of(earlier))
    before = _as_range(since)
    _check(snapshot, before)
    if before[0] <= after[1] and after[0] <= before[1]:
        raise SettingError(f"{range_words(after)} is compared with itself: give other steps for {before[0]}")
    return StepWindows(after, before)


def _as_range(steps: int | StepRange) -> StepRange:
    return (int(steps), int(steps)) if isinstance(steps, int | np.integer) else (min(steps), max(steps))


def _check(snapshot: Snapshot, bounds: StepRange) -> None:
    values = snapshot.steps.values
    if not ((values >= bounds[0]) & (values <= bounds[1])).any():
        raise SettingError(f"{snapshot.name} has no {range_words(bounds)}")


def rows_in(snapshot: Snapshot, bounds: StepRange) -> np.ndarray:
    """Return the rows of these steps that count."""
    if bounds[0] == bounds[1]:
        return snapshot.rows_of(bounds[0])
    step = snapshot.metadata("step")
    return np.flatnonzero(snapshot.alive & (step >= bounds[0]) & (step <= bounds[1]))


def range_of(steps: np.ndarray) -> StepRange:
    """Return the first and the last of some steps."""
    return int(steps[0]), int(steps[-1])


def range_words(bounds: StepRange) -> str:
    """Return steps in words: ``step 5`` or ``steps 3–7``."""
    first, last = bounds
    return f"step {first:,}" if first == last else f"steps {first:,}–{last:,}"


def range_filter(bounds: StepRange) -> str:
    """Return the filter for the samples of these steps."""
    return f"step == {bounds[0]}" if bounds[0] == bounds[1] else f"{bounds[0]} <= step <= {bounds[1]}"
