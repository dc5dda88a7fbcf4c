"""The groups of one step: who is in each, what its numbers are, and whether it teaches anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlpanel.errors import SampleNotFound
from rlpanel.metrics.engine.column_info import of_level
from rlpanel.metrics.reward import SAME
from rlpanel.store.query.filter_columns import label_name, prompt_key
from rlpanel.store.query.filter_syntax import quote
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.step_metrics import available, step_rows

#: What a group is to the trainer: its rewards differ, or all are the same and below a pass, or all the same
#: and a pass.
SIGNAL, ALL_LOW, ALL_HIGH = "signal", "all low", "all high"


@dataclass(frozen=True)
class StepGroups:
    """Groups of two samples or more, in order of arrival.

    Attributes
    ----------
    view : RunView
        That the rows are of.
    members : list of ndarray of int, G of them
        Rows of each group, in order of arrival.
    values : mapping of str to ndarray, shape (G,)
        The registry's metrics of level group that the run allows.
    states : ndarray of str, shape (G,)
        `SIGNAL`, `ALL_LOW` or `ALL_HIGH`; all `SIGNAL` where there is no reward to tell.
    """

    view: RunView
    members: list[np.ndarray]
    values: Mapping[str, np.ndarray]
    states: np.ndarray

    @property
    def snapshot(self) -> Snapshot:
        """The run's data."""
        return self.view.snapshot

    def __len__(self) -> int:
        return len(self.members)

    @property
    def sizes(self) -> np.ndarray:
        """Samples of each group, shape (G,)."""
        return np.array([len(rows) for rows in self.members], int)

    @cached_property
    def names(self) -> list[str]:
        """What each group is called: its id where one is logged, else the key of its prompt."""
        return [label if label is not None else key for label, key in self._called]

    @cached_property
    def filters(self) -> list[str]:
        """Of each group, the expression that the step's samples pass when they are in it."""
        column = label_name(self.snapshot, "group")
        return [
            f"prompt_key == {quote(key)}" if label is None else f"{column} == {quote(label)}"
            for label, key in self._called
        ]

    def holding(self, uid: str) -> int | None:
        """Which group a sample is in; None if it is in none."""
        try:
            row = self.snapshot.row(uid)
        except SampleNotFound:  # its file was written anew
            return None
        return next((at for at, rows in enumerate(self.members) if row in rows), None)

    @cached_property
    def _called(self) -> list[tuple[str | None, str]]:
        first = np.array([rows[0] for rows in self.members], int)
        keys = [prompt_key(text) for text in self.snapshot.place("prompt_hash")[first].tolist()]
        logged = "group" in self.snapshot.labels
        labels = self.snapshot.label("group", first) if logged else [None] * len(first)
        return list(zip(labels, keys, strict=True))


def groups_of(view: RunView, step: int | None) -> StepGroups | None:
    """The groups of a step; None where its samples come in none."""
    if step is None or not view.grouped:
        return None
    snapshot = view.snapshot
    rows = snapshot.rows_of(step)
    if not len(rows):
        return None
    table = step_rows(snapshot, rows)
    shared = np.flatnonzero(table.groups.shared)
    if not len(shared):
        return None
    arranged = rows[np.argsort(table.groups.number, kind="stable")]
    parts = np.split(arranged, table.groups.starts[1:])
    order = shared[np.argsort([parts[at][0] for at in shared.tolist()], kind="stable")]
    values = {
        metric.name: table.value(metric.name)[order]
        for metric in of_level("group")
        if available(snapshot, metric, view.grouped)
    }
    members = [parts[at] for at in order.tolist()]
    return StepGroups(view, members, values, _states(snapshot, values, len(members)))


def _states(snapshot: Snapshot, values: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    if "group_zero_variance" not in values:
        return np.full(count, SIGNAL)
    same = values["group_zero_variance"] > 0
    high = values["group_mean"] >= snapshot.constants["pass_reward"] - SAME
    return np.select([same & high, same], [ALL_HIGH, ALL_LOW], SIGNAL)
