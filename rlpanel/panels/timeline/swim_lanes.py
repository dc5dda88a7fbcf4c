"""Puts rollouts into lanes: the slowest first, or by rank at the time when they ran."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from rlpanel.panels.timeline.rollout_spans import RolloutTimes

SLOWEST, BY_RANK = "slowest first", "by rank"


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
    """Return the orders that the times allow: lanes by rank require times of day and several rollouts."""
    known = np.isfinite(times.start).all() and len(times) > 0
    return [SLOWEST, BY_RANK] if known else [SLOWEST]


def lanes_of(times: RolloutTimes, order: str) -> SwimLanes:
    """Return the lanes of a step's rollouts in an order of `orders_of`."""
    return _by_rank(times) if order == BY_RANK else _slowest_first(times)


def _slowest_first(times: RolloutTimes) -> SwimLanes:
    """One lane per rollout; all of them start at zero."""
    lane = np.empty(len(times), np.int64)
    lane[np.argsort(-times.seconds, kind="stable")] = np.arange(len(times))
    longest = float(times.seconds.max(initial=0.0))
    return SwimLanes(lane, np.zeros(len(times)), len(times), [], longest)


def _by_rank(times: RolloutTimes) -> SwimLanes:
    """As few lanes per rank as have room for rollouts that overlap."""
    offset = times.start - times.start.min()
    lane = np.empty(len(times), np.int64)
    names: list[tuple[int, str]] = []
    first = 0
    for rank in np.unique(times.rank).tolist():
        members = np.flatnonzero(times.rank == rank)
        members = members[np.argsort(offset[members], kind="stable")]
        names.append((first, f"rank {rank}" if rank >= 0 else "no rank"))
        free: list[tuple[float, int]] = []  # end of the last rollout of each lane
        used = 0
        for member in members.tolist():
            end = float(offset[member] + times.seconds[member])
            if free and free[0][0] <= offset[member]:
                at = heapq.heapreplace(free, (end, free[0][1]))[1]
            else:
                at, used = used, used + 1
                heapq.heappush(free, (end, at))
            lane[member] = first + at
        first += used
    return SwimLanes(lane, offset, first, names, float((offset + times.seconds).max()))
