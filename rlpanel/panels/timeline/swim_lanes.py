"""Puts rollouts into lanes: the slowest first, or by rank or worker at the time when they ran."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from rlpanel.panels.timeline.rollout_spans import RolloutTimes
from rlpanel.panels.timeline.span_colors import ENGLISH_LABELS, TimelineLabels

SLOWEST, BY_RANK, BY_WORKER = "slowest first", "by rank", "by worker"


@dataclass(frozen=True)
class SwimLanes:
    """Lanes of R rollouts.

    Attributes
    ----------
    lane : ndarray of int, shape (R,)
        Lane of each rollout, from 0 at the top.
    offset : ndarray of float, shape (R,)
        Seconds at which the rollout starts on the axis.
    count : int
        Number of lanes.
    names : list of (int, str)
        First lane of each named group of lanes, and its name.
    seconds : float
        Length of the axis.
    """

    lane: np.ndarray
    offset: np.ndarray
    count: int
    names: list[tuple[int, str]]
    seconds: float


def orders_of(times: RolloutTimes) -> list[str]:
    """Return the orders that the times allow: lanes by rank or worker require times of day."""
    if not len(times) or not np.isfinite(times.start).all():
        return [SLOWEST]
    return [SLOWEST, BY_RANK, BY_WORKER] if times.worker else [SLOWEST, BY_RANK]


def lanes_of(times: RolloutTimes, order: str, labels: TimelineLabels = ENGLISH_LABELS) -> SwimLanes:
    """Return the lanes of a step's rollouts in an order of `orders_of`."""
    if order == BY_RANK:
        ranks, place = np.unique(times.rank, return_inverse=True)
        names = [labels.rank.format(rank=rank) if rank >= 0 else labels.no_rank for rank in ranks.tolist()]
        return _by_place(times, place, names)
    if order == BY_WORKER:
        workers, place = np.unique(times.worker, return_inverse=True)
        return _by_place(times, place, [name or labels.no_worker for name in workers.tolist()])
    return _slowest_first(times)


def _slowest_first(times: RolloutTimes) -> SwimLanes:
    """Return one lane per rollout; all of them start at zero."""
    lane = np.empty(len(times), np.int64)
    lane[np.argsort(-times.seconds, kind="stable")] = np.arange(len(times))
    longest = float(times.seconds.max(initial=0.0))
    return SwimLanes(lane, np.zeros(len(times)), len(times), [], longest)


def _by_place(times: RolloutTimes, place: np.ndarray, labels: list[str]) -> SwimLanes:
    """Return lanes by rank or worker: as few as hold rollouts that overlap."""
    offset = times.start - times.start.min()
    lane = np.empty(len(times), np.int64)
    names: list[tuple[int, str]] = []
    first = 0
    for number, label in enumerate(labels):
        members = np.flatnonzero(place == number)
        members = members[np.argsort(offset[members], kind="stable")]
        names.append((first, label))
        first += _fill_lanes(lane, members, offset, times.seconds, first)
    return SwimLanes(lane, offset, first, names, float((offset + times.seconds).max()))


def _fill_lanes(
    lane: np.ndarray, members: np.ndarray, offset: np.ndarray, seconds: np.ndarray, first: int
) -> int:
    """Give each member, in the order of their starts, a free lane from ``first`` on; return their number."""
    free: list[tuple[float, int]] = []  # end of the last rollout of each lane
    used = 0
    for member in members.tolist():
        end = float(offset[member] + seconds[member])
        if free and free[0][0] <= offset[member]:
            at = heapq.heapreplace(free, (end, free[0][1]))[1]
        else:
            at, used = used, used + 1
            heapq.heappush(free, (end, at))
        lane[member] = first + at
    return used
