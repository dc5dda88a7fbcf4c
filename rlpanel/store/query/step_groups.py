"""The groups of one or more steps: their samples, metrics, and whether they have a learning signal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlpanel.errors import SampleNotFound
from rlpanel.metrics.engine.column_info import of_level
from rlpanel.metrics.reward import EQUAL_WITHIN
from rlpanel.store.query.filter_columns import label_name, prompt_key
from rlpanel.store.query.filter_syntax import quote
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.step_metric_cache import available, step_rows

#: States of a group: rewards that differ, equal rewards below ``pass_reward``, or equal rewards that pass.
SIGNAL, ALL_LOW, ALL_HIGH = "signal", "all low", "all high"


@dataclass(frozen=True)
class StepGroups:
    """The groups with at least two samples of a step or of several, in order of step and arrival.

    Attributes
    ----------
    snapshot : Snapshot
        Snapshot that the rows belong to.
    members : list of ndarray of int, G of them
        Rows of each group, in order of arrival.
    values : mapping of str to ndarray, shape (G,)
        Group metrics whose inputs the run has.
    states : ndarray of str, shape (G,)
        `SIGNAL`, `ALL_LOW` or `ALL_HIGH`; all `SIGNAL` if rewards are not logged.
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
        """Number of samples of each group, shape (G,)."""
        return np.array([len(rows) for rows in self.members], int)

    @cached_property
    def names(self) -> list[str]:
        """Name of each group: its id if logged, else its prompt's key."""
        return [label if label is not None else key for label, key in self._ids]

    @cached_property
    def filters(self) -> list[str]:
        """For each group, the filter expression that selects its samples within the step."""
        column = label_name(self.snapshot, "group")
        return [
            f"prompt_key == {quote(key)}" if label is None else f"{column} == {quote(label)}"
            for label, key in self._ids
        ]

    def index_of(self, uid: str) -> int | None:
        """Return the index of the group that contains a sample; None if no group does."""
        try:
            row = self.snapshot.row(uid)
        except SampleNotFound:  # its file was rewritten
            return None
        return next((number for number, rows in enumerate(self.members) if row in rows), None)

    @cached_property
    def _ids(self) -> list[tuple[str | None, str]]:
        first = np.array([rows[0] for rows in self.members], int)
        hashes = self.snapshot.prompts(first).tolist()
        keys = [prompt_key(prompt_hash) for prompt_hash in hashes]
        logged = "group" in self.snapshot.labels
        labels = self.snapshot.label("group", first) if logged else [None] * len(first)
        return list(zip(labels, keys, strict=True))


def groups_of(view: RunView, step: int | None) -> StepGroups | None:
    """Return the groups of a step; None if it has no group of several samples."""
    if step is None or not view.grouped:
        return None
    return groups_in(view, view.snapshot.rows_of(step))


def groups_in(view: RunView, rows: np.ndarray) -> StepGroups | None:
    """Return the groups among rows of whole steps, step by step; None if no group has several samples.

    Parameters
    ----------
    view : RunView
        Of a run whose samples come in groups.
    rows : ndarray of int, shape (N,)
        Sorted by step.
    """
    snapshot = view.snapshot
    if not len(rows):
        return None
    table = step_rows(snapshot, rows)
    shared = np.flatnonzero(table.groups.has_several)
    if not len(shared):
        return None
    rows_by_group = rows[np.argsort(table.groups.number, kind="stable")]
    parts = np.split(rows_by_group, table.groups.starts[1:])
    first = np.array([parts[number][0] for number in shared.tolist()])
    order = shared[np.lexsort((first, snapshot.metadata("step")[first]))]
    values = {
        metric.name: table.value(metric.name)[order]
        for metric in of_level("group")
        if available(snapshot, metric, view.grouped)
    }
    members = [parts[number] for number in order.tolist()]
    return StepGroups(view, members, values, _states(snapshot, values, len(members)))


def _states(snapshot: Snapshot, values: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    if "group_zero_variance" not in values:
        return np.full(count, SIGNAL)
    equal = values["group_zero_variance"] > 0
    passing = values["group_mean"] >= snapshot.constants["pass_reward"] - EQUAL_WITHIN
    return np.select([equal & passing, equal], [ALL_HIGH, ALL_LOW], SIGNAL)
