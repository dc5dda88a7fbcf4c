"""Rows of some steps, with the columns and groups that signals read."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.step_metric_cache import group_keys


class RowBatch:
    """Samples of some complete steps.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int, shape (N,)
        Rows that count.
    steps : ndarray of int, shape (S,)
        Their steps, ascending.
    """

    def __init__(self, view: RunView, rows: np.ndarray, steps: np.ndarray) -> None:
        self.view = view
        self.rows = rows
        self.steps = steps
        #: Position in ``steps`` of each row's step, shape (N,).
        self.position = np.searchsorted(steps, view.snapshot.metadata("step")[rows])
        self._numbers: dict[str, np.ndarray] = {}
        #: All rows of the run need no copy: `rows` are ascending, and each occurs once.
        self._selected = slice(None) if len(rows) == view.snapshot.rows else rows

    def __len__(self) -> int:
        return len(self.rows)

    def has(self, column: str) -> bool:
        """Return True if the run has stored the number column."""
        return self.view.snapshot.is_stored(column)

    def number(self, column: str) -> np.ndarray:
        """Return a number column, shape (N,); all NaN if the run does not have it."""
        if column not in self._numbers:
            known = self.has(column)
            self._numbers[column] = (
                self.view.snapshot.number(column)[self._selected]
                if known
                else np.full(len(self.rows), np.nan)
            )
        return self._numbers[column]

    def metadata(self, column: str) -> np.ndarray:
        """Return a metadata column such as ``rank``, shape (N,)."""
        return self.view.snapshot.metadata(column)[self._selected]

    @cached_property
    def group(self) -> np.ndarray:
        """Index of each row's group within its step, counted over all steps from 0; shape (N,).

        Without groups, each row is a group of its own.
        """
        if not self.view.grouped:
            return np.arange(len(self.rows))
        keys = group_keys(self.view.snapshot, self.rows)
        order = np.lexsort((keys, self.position))
        step, key = self.position[order], keys[order]
        # Rows without a group have the key -1 and stay alone.
        starts = (np.diff(step, prepend=-1) != 0) | (np.diff(key, prepend=key[:1]) != 0) | (key == -1)
        group = np.empty(len(self.rows), np.int64)
        group[order] = np.cumsum(starts) - 1
        return group

    def group_sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sum over each group's finite values, shape (G,)."""
        return np.bincount(self.group, np.where(np.isfinite(values), values, 0.0))

    def group_counts(self, values: np.ndarray) -> np.ndarray:
        """Return the number of finite values of each group, shape (G,)."""
        return np.bincount(self.group, np.isfinite(values).astype(float))

    def less_group_mean(self, values: np.ndarray) -> np.ndarray:
        """Return each value minus the mean of its group's finite values, shape (N,)."""
        with np.errstate(all="ignore"):
            return values - (self.group_sums(values) / self.group_counts(values))[self.group]
