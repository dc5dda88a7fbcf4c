"""The clock of a replay: when each event of a rollout is shown, from the times that its log holds.

Times that go back are shown at the latest time before them, and missing ones at the time before them; both
are counted. Where less than half of the times are in order, they are not believed. Pauses are shortened: a
rollout that waits an hour for a sandbox is shown without the hour. Without times, events follow each other in
equal distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Seconds of a pause that are shown; the rest is left out.
MAX_PAUSE = 5.0
#: Seconds between events without times.
BEAT = 1.0


@dataclass(frozen=True)
class ReplayClock:
    """When events are shown.

    Attributes
    ----------
    is_timed : bool
        False if events follow each other in equal distances.
    recorded : ndarray of float, shape (M,)
        Time of each event in seconds after the first; with equal distances, as ``shown``.
    shown : ndarray of float, shape (M,)
        The same with shortened pauses, from 0 on, ascending.
    start : float or None
        Recorded time of the first event, as it was given.
    missing, backwards : int
        Events without a time, and with one before that of an earlier event.
    pauses : int
        Pauses that were shortened.
    left_out : float
        Seconds of these that are not shown.
    """

    is_timed: bool
    recorded: np.ndarray
    shown: np.ndarray
    start: float | None
    missing: int
    backwards: int
    pauses: int
    left_out: float


def replay_clock(moments: Sequence[float | None]) -> ReplayClock:
    """Return the clock of events in their order.

    Parameters
    ----------
    moments : sequence of float or None, length M
        Recorded time of each event in seconds.
    """
    given = np.array([np.nan if moment is None else moment for moment in moments], float)
    known = np.isfinite(given)
    times = given[known]
    highest = np.maximum.accumulate(times) if len(times) else times
    backwards = int((times < highest).sum())
    missing = int((~known).sum())
    # One time alone places nothing.
    if len(times) < 2 or highest[0] == highest[-1] or 2 * backwards >= len(times):
        beats = BEAT * np.arange(len(given))
        return ReplayClock(False, beats, beats, None, missing, backwards, 0, 0.0)
    place = np.maximum(np.cumsum(known) - 1, 0)  # of the last known time up to each event
    recorded = highest[place] - highest[0]
    steps = np.diff(recorded, prepend=0.0)
    shortened = np.minimum(steps, MAX_PAUSE)
    return ReplayClock(
        True,
        recorded,
        np.cumsum(shortened),
        float(highest[0]),
        missing,
        backwards,
        int((steps > MAX_PAUSE).sum()),
        float((steps - shortened).sum()),
    )
