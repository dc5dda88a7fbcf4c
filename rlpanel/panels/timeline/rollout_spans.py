"""Times of a step's rollouts as arrays: from the columns, and exactly from the spans in their lines.

The columns hold the seconds of each phase, but not their order. Until the lines were read, the phases of a
rollout follow one another in the order of `PHASES`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

#: Phases in the order in which they are drawn if it was not logged.
PHASES = ("queue", "generation", "tool", "environment", "score")
#: Name of time without a known phase.
OTHER = "other"
#: Bytes of the lines from which the spans of a step are read, and seconds between two results.
MAX_BYTES, _PULSE = 128 << 20, 0.5


@dataclass(frozen=True)
class RolloutTimes:
    """Times of R rollouts with S segments.

    Attributes
    ----------
    rows : ndarray of int, shape (R,)
        Rows of the snapshot.
    uids : list of str, length R
    seconds, start : ndarray of float, shape (R,)
        Duration, and start in Unix seconds; NaN if not logged.
    rank : ndarray of int, shape (R,)
    lag : ndarray of float, shape (R,)
        Versions between the policy that sampled and the one that trains; NaN if not known.
    version : ndarray of float, shape (R,)
        The oldest policy version that wrote the rollout; NaN if not logged.
    failed : ndarray of bool, shape (R,)
        Whether the status is another one than ``ok``.
    status : list of str, length R
    owner : ndarray of int, shape (S,)
        Position of each segment's rollout.
    begin, end : ndarray of float, shape (S,)
        Seconds since the rollout's start.
    phase : ndarray of int, shape (S,)
        Position in ``phases``.
    phases : tuple of str
    exact : int
        Number of rollouts whose segments are logged spans.
    worker : list of str, length R
        Names of the workers that made the rollouts; empty if the run has no label ``worker``.
    """

    rows: np.ndarray
    uids: list[str]
    seconds: np.ndarray
    start: np.ndarray
    rank: np.ndarray
    lag: np.ndarray
    version: np.ndarray
    failed: np.ndarray
    status: list[str]
    owner: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    phase: np.ndarray
    phases: tuple[str, ...] = (*PHASES, OTHER)
    exact: int = 0
    worker: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)


def has_times(snapshot: Snapshot) -> bool:
    """Return True if the run logs how long rollouts take."""
    return snapshot.has_number("seconds")


def times_of(view: RunView, step: int) -> RolloutTimes:
    """Return the times of a step's rollouts from the columns; those without times are left out."""
    snapshot = view.snapshot
    rows = snapshot.rows_of(step)
    rows = rows[np.isfinite(_number(snapshot, "seconds", rows))]
    parts = np.array([_number(snapshot, f"{phase}_seconds", rows) for phase in PHASES])
    parts = np.nan_to_num(parts.reshape(len(PHASES), len(rows)))
    seconds = np.maximum(_number(snapshot, "seconds", rows), 0.0)
    parts = np.vstack([parts, np.maximum(seconds - parts.sum(axis=0), 0.0)])
    ends = np.cumsum(parts, axis=0)
    phase, owner = np.nonzero(parts > 0)
    status = _label(snapshot, "status", rows) or [""] * len(rows)
    return RolloutTimes(
        rows=rows,
        uids=snapshot.uids(rows),
        seconds=seconds,
        start=_number(snapshot, "start_time", rows),
        rank=snapshot.metadata("rank")[rows].astype(np.int64),
        lag=_number(snapshot, "lag", rows),
        version=_number(snapshot, "policy_version_min", rows),
        failed=np.array([text not in ("", "ok") for text in status], bool),
        status=status,
        owner=owner,
        begin=(ends - parts)[phase, owner],
        end=ends[phase, owner],
        phase=phase,
        worker=_label(snapshot, "worker", rows),
    )


def read_spans(index: RunIndex, snapshot: Snapshot, times: RolloutTimes) -> Iterator[RolloutTimes]:
    """Yield the times with the logged spans of more and more rollouts; nothing if no rollout has spans.

    The first rollouts of the step are read, up to `MAX_BYTES` of their lines.
    """
    sizes = np.cumsum(snapshot.metadata("length")[times.rows])
    found: dict[int, tuple[tuple[str, float, float], ...]] = {}
    last = time.monotonic()
    for position in np.flatnonzero(sizes <= MAX_BYTES).tolist():
        try:
            record = fetch_record(index, snapshot, int(times.rows[position]))
        except (RLPanelError, IndexError):  # the file was rewritten; the columns stay
            continue
        if record.agent is not None and record.agent.spans:
            found[position] = record.agent.spans
        if found and time.monotonic() - last > _PULSE:
            last = time.monotonic()
            yield _with_spans(times, found)
    if found:
        yield _with_spans(times, found)


def _with_spans(times: RolloutTimes, found: dict[int, tuple[tuple[str, float, float], ...]]) -> RolloutTimes:
    """Replace the segments of some rollouts by their spans."""
    names = list(times.phases)
    names += sorted({name for spans in found.values() for name, _, _ in spans} - set(names))
    code = {name: position for position, name in enumerate(names)}
    kept = ~np.isin(times.owner, list(found))
    new = [(at, begin, end, code[name]) for at, spans in found.items() for name, begin, end in spans]
    owner, begin, end, phase = (np.array(part) for part in zip(*new, strict=True))
    return replace(
        times,
        owner=np.concatenate([times.owner[kept], owner]),
        begin=np.concatenate([times.begin[kept], begin]),
        end=np.concatenate([times.end[kept], end]),
        phase=np.concatenate([times.phase[kept], phase]),
        phases=tuple(names),
        exact=len(found),
    )


def _number(snapshot: Snapshot, column: str, rows: np.ndarray) -> np.ndarray[Any, Any]:
    if not snapshot.has_number(column):
        return np.full(len(rows), np.nan)
    return np.asarray(snapshot.number(column)[rows], np.float64)


def _label(snapshot: Snapshot, name: str, rows: np.ndarray) -> list[str]:
    """Return the label of each row; nothing if the run does not have it."""
    if name not in snapshot.labels:
        return []
    return [label or "" for label in snapshot.label(name, rows)]
