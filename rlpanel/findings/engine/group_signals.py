"""Prompts of groups and of evaluations, for rules and comparisons of runs."""

from __future__ import annotations

import numpy as np

from rlpanel.findings.engine.signal import RowBatch, mark, signal
from rlpanel.store.columns.splits import is_evaluation_split
from rlpanel.store.snapshot.snapshot import Snapshot


@signal("mixed_prompts", by_group=True)
def mixed_prompts(rows: RowBatch) -> np.ndarray:
    """Mark the samples of groups with several prompts; a group of agents or of turns may have several."""
    snapshot, unknown = rows.view.snapshot, np.full(len(rows), np.nan)
    codes = snapshot.group_codes
    if codes is None or snapshot.has_episodes or {"agent", "trajectory"} & set(snapshot.labels):
        return unknown
    grouped, hashes = codes[rows.rows] >= 0, rows.metadata("prompt_hash")
    order = np.lexsort((hashes, rows.group))
    first = np.ones(len(order), bool)
    same_group = np.diff(rows.group[order]) == 0
    first[1:] = ~(same_group & (np.diff(hashes[order]) == 0))
    distinct = np.bincount(rows.group[order], first)
    return mark(distinct[rows.group] > 1, grouped)


def evaluation_splits(snapshot: Snapshot) -> list[str]:
    """Return the splits that hold evaluations of the policy."""
    return [name for name in snapshot.splits if is_evaluation_split(name)]


def evaluation_prompts(snapshot: Snapshot) -> np.ndarray:
    """Return the hashes of the prompts of all evaluations, not unique; empty without one."""
    held = [snapshot.in_split(name) for name in evaluation_splits(snapshot)]
    hashes = [each.metadata("prompt_hash")[each.alive_rows] for each in held]
    return np.concatenate(hashes) if hashes else np.empty(0, np.uint64)
