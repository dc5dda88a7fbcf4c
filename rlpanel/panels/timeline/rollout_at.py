"""Finds the rollout at a place of the timeline."""

from __future__ import annotations

import numpy as np

from rlpanel.panels.timeline.timeline_plot import Timeline


def rollout_at(timeline: Timeline, x: float, y: float) -> int:
    """Return the position of the rollout nearest to a time in a lane; -1 if the lane has none.

    Parameters
    ----------
    timeline : Timeline
    x, y : float
        Seconds, and a lane; neither needs to be on the plot.
    """
    if not np.isfinite([x, y]).all():
        return -1
    members = np.flatnonzero(timeline.lanes.lane == int(np.floor(y)))
    if not len(members):
        return -1
    start = timeline.lanes.offset[members]
    stop = start + timeline.times.seconds[members]
    return int(members[np.maximum(start - x, x - stop).argmin()])
