"""Moves rows of failed rollouts to a split of their own, so that they do not enter the means of training.

A failure of the environment says nothing about the policy, and a discarded sample was not trained on. A
time-out or a tool's error is the policy's own result unless the trainer left it out, which its adapter knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlpanel.metrics.engine.constants import Constants
from rlpanel.store.columns.splits import DISCARDED, SPLIT_COLUMN, TRAIN, discarded_split

#: Statuses of rollouts that do not count as samples of the policy.
EXCLUDED = frozenset({"environment_error", "discarded"})
_Labels = Mapping[str, Sequence[str | None]]


def separate_failed(labels: _Labels, constants: Constants) -> _Labels:
    """Return the label columns with split ``discarded`` for rows whose status is in `EXCLUDED`.

    The constant ``count_failed`` switches this off. Failed rows of another split, such as eval, go to
    ``discarded eval``.
    """
    status = labels.get("status")
    if status is None or constants.get("count_failed") or EXCLUDED.isdisjoint(status):
        return labels
    splits = labels.get(SPLIT_COLUMN) or [None] * len(status)
    moved = [
        _split_of_failed(split) if state in EXCLUDED else split
        for state, split in zip(status, splits, strict=True)
    ]
    return {**labels, SPLIT_COLUMN: moved}


def _split_of_failed(split: str | None) -> str:
    if split is not None and split.startswith(DISCARDED):
        return split
    return discarded_split(split or TRAIN)
