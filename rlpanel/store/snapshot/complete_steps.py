"""Finds the newest complete step, since the last one may still be being written."""

from __future__ import annotations

from statistics import median

from rlpanel.store.snapshot.snapshot import Snapshot

#: Seconds without a new line after which the newest step counts as complete.
IDLE_SECONDS = 1.0


def newest_complete_step(snapshot: Snapshot, now: float) -> int | None:
    """Return the newest step that is not still being written; None if there is no step.

    The last step counts as complete once it has the median number of samples of the five steps before it, or
    if no line has arrived for a second. Until then the step before it is returned.
    """
    steps, samples = snapshot.steps.values, snapshot.steps.samples
    if not len(steps):
        return None
    usual = median(samples[-6:-1].tolist()) if len(samples) > 1 else 0
    settled = now - snapshot.newest_line > IDLE_SECONDS
    return int(steps[-1] if settled or samples[-1] >= usual else steps[-2])
