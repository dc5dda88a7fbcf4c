"""A rollout in flight, and the state of all that a run's live files name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Seconds without a sign of life after which a recorder on another host counts as dead: six heartbeats.
STALE = 60.0


@dataclass(slots=True)
class LiveRollout:
    """A rollout that was begun and has not ended.

    Attributes
    ----------
    id : str
    step : int or None
        Step of the batch that waits for it.
    group, agent, env, worker, phase, text : str
        Empty if not logged; ``text`` holds its last words.
    turns : int
    tokens : int or None
        Tokens that the policy wrote so far.
    started, updated : float or None
        Unix seconds.
    lost : str
        Why it will not end; empty while its recorder lives.
    """

    id: str
    step: int | None = None
    group: str = ""
    agent: str = ""
    env: str = ""
    worker: str = ""
    phase: str = ""
    text: str = ""
    turns: int = 0
    tokens: int | None = None
    started: float | None = None
    updated: float | None = None
    lost: str = ""

    def seconds(self, now: float) -> float | None:
        """Return how long it has been in flight at a Unix time, or was when it was lost."""
        if self.started is None:
            return None
        end = (self.updated or self.started) if self.lost else now
        return max(0.0, end - self.started)


@dataclass(frozen=True)
class LiveState:
    """Everything that live files say at one time.

    Attributes
    ----------
    rollouts : list of LiveRollout
    others : int
        Number of further rollouts in flight whose details are not kept.
    ended : mapping of int to int
        Number of ended rollouts by step, where it is logged.
    files : int
    remarks : list of str
        Sentences on what could not be read.
    """

    rollouts: list[LiveRollout] = field(default_factory=list)
    others: int = 0
    ended: Mapping[int, int] = field(default_factory=dict)
    files: int = 0
    remarks: list[str] = field(default_factory=list)
