"""Rollouts in flight, the slowest first: counts by phase, missing rollouts of batches, logged idle times."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rlpanel.sources.live.live_rollout import LiveRollout, LiveState
from rlpanel.store.snapshot.snapshot import Snapshot

#: Names of the trainer's scalars that measure waiting, such as ``timing_s/wait_for_rollouts``.
IDLE = re.compile(r"(^|[/_.])(idle|wait|waiting|bubble|stall)($|[/_.])", re.IGNORECASE)
#: Most batches and idle times that are listed.
_BATCHES, _TIMES = 8, 8


@dataclass(frozen=True)
class WaitingBatch:
    """A batch of which rollouts are missing.

    Attributes
    ----------
    step : int
    waits : int
        Rollouts of the step in flight, without lost ones.
    done : int or None
        Rollouts of the step that have ended, by the live files or as samples of the log; None if unknown.
    slowest : float or None
        Seconds of the slowest one.
    """

    step: int
    waits: int
    done: int | None
    slowest: float | None


@dataclass(frozen=True)
class Flight:
    """Everything in flight at one time.

    Attributes
    ----------
    total : int
        Number of rollouts in flight, without lost ones and with those whose details are not kept.
    lost : int
    rollouts : list of LiveRollout
        The slowest first, lost ones last.
    phases : mapping of str to int
        Number of rollouts by phase, the most frequent first.
    batches : list of WaitingBatch
        The lowest step first.
    idle : mapping of str to float
        The newest value of scalars of the trainer that measure waiting; as logged, mostly seconds.
    remarks : list of str
    """

    total: int = 0
    lost: int = 0
    rollouts: list[LiveRollout] = field(default_factory=list)
    phases: dict[str, int] = field(default_factory=dict)
    batches: list[WaitingBatch] = field(default_factory=list)
    idle: dict[str, float] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def in_flight_of(snapshot: Snapshot, state: LiveState, now: float) -> Flight:
    """Return what is in flight at a Unix time.

    Parameters
    ----------
    snapshot : Snapshot
        For the samples that a step has already, and the trainer's scalars.
    state : LiveState
    now : float
    """

    def seconds(rollout: LiveRollout) -> float:
        found = rollout.seconds(now)
        return -1.0 if found is None else found

    ordered = sorted(state.rollouts, key=lambda each: (bool(each.lost), -seconds(each), each.id))
    lost = sum(bool(each.lost) for each in ordered)
    alive = ordered[: len(ordered) - lost]
    phases = Counter(each.phase or "unknown" for each in alive)
    remarks = list(state.remarks)
    if state.others:
        remarks.append(
            f"{state.others:,} further rollouts in flight are only counted; "
            "the oldest that were kept are shown."
        )
    if unknown := sum(each.started is None for each in alive):
        words = (
            "1 rollout has no start time and stands"
            if unknown == 1
            else f"{unknown:,} rollouts have no start time and stand"
        )
        remarks.append(f"{words} last.")
    batches = _batches(snapshot, state, alive, now)
    total = len(alive) + state.others
    return Flight(total, lost, ordered, dict(phases.most_common()), batches, _idle(snapshot), remarks)


def _batches(
    snapshot: Snapshot, state: LiveState, alive: Sequence[LiveRollout], now: float
) -> list[WaitingBatch]:
    by_step: dict[int, list[LiveRollout]] = {}
    for each in alive:
        if each.step is not None:
            by_step.setdefault(each.step, []).append(each)
    found = []
    for step in sorted(by_step)[:_BATCHES]:
        ended = state.ended.get(step, 0)
        logged = _logged(snapshot, step)
        done = max(ended, logged)
        times = [time for each in by_step[step] if (time := each.seconds(now)) is not None]
        found.append(WaitingBatch(step, len(by_step[step]), done or None, max(times, default=None)))
    return found


def _logged(snapshot: Snapshot, step: int) -> int:
    """Return the number of episodes that the log has of a step."""
    at = int(np.searchsorted(snapshot.steps.values, step))
    is_there = at < len(snapshot.steps.values) and snapshot.steps.values[at] == step
    return int(snapshot.steps.episodes[at]) if is_there else 0


def _idle(snapshot: Snapshot) -> dict[str, float]:
    names = [name for name in snapshot.scalars.names if IDLE.search(name)][:_TIMES]
    series = {name: snapshot.scalars.series(name) for name in names}
    return {name: float(each.values[-1]) for name, each in series.items() if len(each.values)}
