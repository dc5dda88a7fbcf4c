"""Finds samples related to a sample: of the same group, and of the same prompt at other steps."""

from __future__ import annotations

import numpy as np

from rlpanel.errors import SampleNotFound
from rlpanel.schema import Sample
from rlpanel.store.snapshot.snapshot import Snapshot


def same_group(snapshot: Snapshot, sample: Sample) -> np.ndarray:
    """Return the other rows of the sample's group: by group label, else by prompt within the step."""
    rows = snapshot.rows_of(sample.step)
    if sample.group is not None and "group" in snapshot.labels:
        same = np.array([label == sample.group for label in snapshot.label("group", rows)], bool)
        rows = rows[same]
    elif sample.prompt is not None:
        rows = rows[snapshot.prompts(rows) == _prompt_hash(snapshot, sample)]
    else:
        return np.empty(0, int)
    return rows[rows != _row(snapshot, sample)]


def same_prompt(snapshot: Snapshot, sample: Sample) -> dict[int, np.ndarray]:
    """Return the rows with the sample's prompt at other steps, by step in ascending order."""
    if sample.prompt is None:
        return {}
    same = snapshot.alive & (snapshot.prompts() == _prompt_hash(snapshot, sample))
    rows = np.flatnonzero(same & (snapshot.metadata("step") != sample.step))
    rows = rows[np.argsort(snapshot.metadata("step")[rows], kind="stable")]
    steps, starts = np.unique(snapshot.metadata("step")[rows], return_index=True)
    return dict(zip(steps.tolist(), np.split(rows, starts[1:]), strict=True)) if len(steps) else {}


def _row(snapshot: Snapshot, sample: Sample) -> int:
    try:
        return snapshot.row(sample.uid)
    except SampleNotFound:  # the file was rewritten since
        return -1


def _prompt_hash(snapshot: Snapshot, sample: Sample) -> np.uint64:
    row = _row(snapshot, sample)
    return snapshot.prompts()[row] if row >= 0 else np.uint64(0)
