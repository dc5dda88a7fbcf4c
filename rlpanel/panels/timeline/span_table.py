"""The spans of a timeline as one table: where each of them is drawn, and in which colour."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.panels.timeline.rollout_spans import RolloutTimes
from rlpanel.panels.timeline.span_colors import ENGLISH_LABELS, Coloring, TimelineLabels
from rlpanel.panels.timeline.swim_lanes import SwimLanes
from rlpanel.panels.ui import theme

#: Length of the mark of a failed rollout as a share of the axis.
_MARK = 0.006


@dataclass(frozen=True)
class Window:
    """The part of a timeline that is in view: seconds, and whole lanes from the top."""

    start: float
    stop: float
    first: int
    last: int

    @property
    def lanes(self) -> int:
        """Number of lanes in view."""
        return self.last - self.first


@dataclass(frozen=True)
class SpanTable:
    """S spans.

    Attributes
    ----------
    lane : ndarray of int, shape (S,)
    start, stop : ndarray of float, shape (S,)
        Seconds on the axis.
    code : ndarray of int, shape (S,)
        Position in ``names``; -1 if not known.
    rollout : ndarray of int, shape (S,)
        Position of the span's rollout.
    names, colors : tuple of str
    lanes : int
    seconds : float
        Length of the axis.
    """

    lane: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    code: np.ndarray
    rollout: np.ndarray
    names: tuple[str, ...]
    colors: tuple[str, ...]
    lanes: int
    seconds: float

    def __len__(self) -> int:
        return len(self.lane)

    @property
    def window(self) -> Window:
        """The window that shows everything."""
        return Window(0.0, self.seconds, 0, self.lanes)

    def inside(self, window: Window) -> np.ndarray:
        """Return the positions of the spans that a window shows at least a part of."""
        lanes = (self.lane >= window.first) & (self.lane < window.last)
        return np.flatnonzero(lanes & (self.stop >= window.start) & (self.start <= window.stop))


def span_table(
    times: RolloutTimes,
    lanes: SwimLanes,
    coloring: Coloring,
    dark: bool,
    labels: TimelineLabels = ENGLISH_LABELS,
) -> SpanTable:
    """Return the table of a step's rollouts; failed ones have a mark at their end."""
    if coloring.of_spans:
        rollout, begin, end = times.owner, times.begin, times.end
    else:
        rollout, begin, end = np.arange(len(times)), np.zeros(len(times)), times.seconds
    failed = np.flatnonzero(times.failed)
    length = lanes.seconds * (1 + _MARK if len(failed) else 1) or 1.0
    names, colors = coloring.names, coloring.colors
    if len(failed):
        names, colors = (*names, labels.failed), (*colors, theme.palette(dark)["bad"])
    ends = times.seconds[failed]
    rollout = np.concatenate([rollout, failed])
    offset = lanes.offset[rollout]
    return SpanTable(
        lane=lanes.lane[rollout],
        start=offset + np.concatenate([begin, ends]),
        stop=offset + np.concatenate([end, ends + _MARK * length]),
        code=np.concatenate([coloring.code, np.full(len(failed), len(names) - 1)]),
        rollout=rollout,
        names=names,
        colors=colors,
        lanes=lanes.count,
        seconds=length,
    )
