"""Rows of some steps, with the columns and groups that signals read.

Runs have batches for all their rows at the same time, so that a batch keeps little of each row.

Samples in blocks of consecutive steps: what a rule computes needs memory for one block at a time.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.step_batches import step_batches
from rlpanel.store.snapshot.step_metric_cache import group_keys


class RowBatch:
    """Samples of some complete steps.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int, shape (N,)
        Rows that count, ascending.
    steps : ndarray of int, shape (S,)
        Their steps, ascending.
    earlier : ndarray of int, optional
        All rows of the step before, if no step of the run lies between any two of these. By default they
        are looked for in the whole run.
    """

    def __init__(
        self, view: RunView, rows: np.ndarray, steps: np.ndarray, earlier: np.ndarray | None = None
    ) -> None:
        self.view = view
        self.rows = rows
        self.steps = steps
        self._earlier = earlier
        #: Rows without a gap need no copy.
        is_range = len(rows) > 0 and int(rows[-1]) - int(rows[0]) == len(rows) - 1
        self._selected = slice(int(rows[0]), int(rows[-1]) + 1) if is_range else rows

    def __len__(self) -> int:
        return len(self.rows)

    def has(self, column: str) -> bool:
        """Return True if the run has stored the number column."""
        return self.view.snapshot.is_stored(column)

    def number(self, column: str) -> np.ndarray:
        """Return a number column as statistics count it, shape (N,); all NaN if the run does not have it."""
        if not self.has(column):
            return np.full(len(self.rows), np.nan)
        return self.view.snapshot.counted(column, self._selected)

    def logged(self, column: str) -> np.ndarray:
        """Return a number column as it was logged in each row, shape (N,); all NaN if there is none."""
        if not self.has(column):
            return np.full(len(self.rows), np.nan)
        return self.view.snapshot.number(column)[self._selected]

    @property
    def has_outcome(self) -> np.ndarray:
        """Mask of the rows whose outcome counts, shape (N,): the last of each episode."""
        further = self.view.snapshot.further
        return np.ones(len(self.rows), bool) if further is None else ~further[self._selected]

    def metadata(self, column: str) -> np.ndarray:
        """Return a metadata column such as ``rank``, shape (N,)."""
        return self.view.snapshot.metadata(column)[self._selected]

    def label_codes(self, column: str) -> tuple[np.ndarray, list[str]]:
        """Return a label column as codes, shape (N,), and the text of each code; -1 means "not logged"."""
        codes, names = self.view.snapshot.label_codes(column)
        return codes[self._selected], names

    def with_step_before(self) -> np.ndarray:
        """Return these rows and all rows of the step before each of their steps, in any order."""
        if self._earlier is not None:
            return np.concatenate([self._earlier, self.rows])
        snapshot = self.view.snapshot
        every, around = snapshot.steps.values, snapshot.alive_rows
        at = np.searchsorted(every, self.steps)
        near = np.unique(np.concatenate([at, np.maximum(at - 1, 0)]))
        return around[np.isin(snapshot.metadata("step")[around], every[near])]

    @cached_property
    def position(self) -> np.ndarray:
        """Position in ``steps`` of each row's step, shape (N,)."""
        return np.searchsorted(self.steps, self.metadata("step")).astype(np.int32)

    @property
    def group(self) -> np.ndarray:
        """Index of each row's group within its step, counted over all steps from 0; shape (N,).

        Without groups, each row is a group of its own.
        """
        if not self.view.grouped:
            return np.arange(len(self.rows), dtype=np.int32)
        return self._groups

    @cached_property
    def _groups(self) -> np.ndarray:
        keys = group_keys(self.view.snapshot, self.rows)
        order = np.lexsort((keys, self.position))
        step, key = self.position[order], keys[order]
        # Rows without a group have the key -1 and stay alone.
        starts = (np.diff(step, prepend=-1) != 0) | (np.diff(key, prepend=key[:1]) != 0) | (key == -1)
        group = np.empty(len(self.rows), np.int32)
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


#: Usual number of rows of a block.
BLOCK_ROWS = 64 << 10


class StepBlocks:
    """Rows of some steps, in blocks of steps.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int, shape (N,)
        Ascending; rows of other steps are left out.
    steps : ndarray of int, shape (S,)
        Ascending.
    is_complete : bool
        True if no step of the run lies between two of them, or before the first.
    block_rows : int
        Largest number of rows of a block, unless a single step has more.
    """

    def __init__(
        self,
        view: RunView,
        rows: np.ndarray,
        steps: np.ndarray,
        *,
        is_complete: bool = False,
        block_rows: int = BLOCK_ROWS,
    ) -> None:
        self.view, self.rows, self.steps = view, rows, steps
        self._is_complete, self._block_rows = is_complete, block_rows

    @cached_property
    def batches(self) -> list[RowBatch]:
        """The rows of each block, one block at least. All steps are in one of them, in their order."""
        step = self.view.snapshot.metadata("step")
        found: list[RowBatch] = []
        earlier: np.ndarray | None = np.empty(0, np.uint32) if self._is_complete else None
        for block in step_batches(step, self.rows, self.steps, self._block_rows):
            batch = RowBatch(self.view, block.rows, self.steps[block.first : block.last], earlier)
            if earlier is not None:
                earlier = block.rows[batch.position == len(batch.steps) - 1]
            found.append(batch)
        return found
