"""Episodes of agents in the table of samples: the traces of one rollout, which fold into one row."""

from __future__ import annotations

import numpy as np

from rlpanel.errors import SampleNotFound
from rlpanel.store.columns.related_rows import PLACES, TURN, counters
from rlpanel.store.snapshot.snapshot import Snapshot


def fold_episodes(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return the rows without further traces of an episode of which a row came before; order is kept."""
    keys = _episode_keys(snapshot, rows)
    if keys is None:
        return rows
    first = np.zeros(len(rows), bool)
    first[np.unique(keys, return_index=True)[1]] = True
    return rows[first | (keys < 0)]


def trace_column(snapshot: Snapshot, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return the grid column with the number of traces of each row's episode; empty without episodes."""
    keys = _episode_keys(snapshot, rows)
    every = _episode_keys(snapshot, snapshot.alive_rows)
    if keys is None or every is None or not len(every):
        return {}
    known, counts = np.unique(every, return_counts=True)
    position = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found = (known[position] == keys) & (keys >= 0)
    return {"traces": np.where(found, counts[position], 1)}


def traces_of(snapshot: Snapshot, uid: str) -> list[tuple[str, str]]:
    """Return uid and name of each trace of a sample's episode, in the order of the log.

    The name is the agent's, or the trace's number. A sample that the snapshot does not have, because another
    run was opened or its file was rewritten, has no traces.
    """
    try:
        row = snapshot.row(uid)
    except SampleNotFound:
        return []
    rows = snapshot.rows_of(int(snapshot.metadata("step")[row]))
    keys, own = _episode_keys(snapshot, rows), _episode_keys(snapshot, np.array([row]))
    if keys is None or own is None or own[0] < 0:
        return []
    traces = rows[keys == own[0]]
    agents = snapshot.label("agent", traces) if "agent" in snapshot.labels else [None] * len(traces)
    names = [agent or f"trace {number}" for number, agent in enumerate(agents, 1)]
    return list(zip(snapshot.uids(traces), names, strict=True))


def _episode_keys(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray | None:
    """Return the number of each row's episode and step, shape (N,).

    It is negative and different for each row without an episode; None if the run has no episodes.
    """
    if "episode" not in snapshot.labels:
        return None
    every, names = snapshot.label_codes("episode")
    codes = every[rows]
    labels = [snapshot.label_codes(name)[0][rows] for name in PLACES if name in snapshot.labels]
    turns = snapshot.number(TURN)[rows] if snapshot.has_number(TURN) else None
    codes = np.where(counters(codes, names, labels, turns), -1, codes)
    step = snapshot.metadata("step")[rows].astype(np.int64)
    keys: np.ndarray = step * len(names) + codes
    return np.where(codes < 0, -1 - np.arange(len(rows)), keys)
