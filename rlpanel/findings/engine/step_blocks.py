"""Samples in blocks of consecutive steps: what a rule computes needs memory for one block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.store.snapshot.run_view import RunView

#: Usual number of rows of a block.
BLOCK_ROWS = 128 << 10
#: Number of rows that are assigned to blocks at once.
_CHUNK = 1 << 20


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
        A block ends with the step that reaches this number of rows.
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
        counts = np.zeros(len(self.steps), np.int64)
        for _, position in self._chunks():
            counts += np.bincount(position, minlength=len(self.steps))
        block = _block_of_step(counts, self._block_rows)
        found: list[RowBatch] = []
        earlier: np.ndarray | None = np.empty(0, np.uint32) if self._is_complete else None
        for number, rows in enumerate(self._rows_by_block(block)):
            batch = RowBatch(self.view, rows, self.steps[block == number], earlier)
            if earlier is not None:
                earlier = rows[batch.position == len(batch.steps) - 1]
            found.append(batch)
        return found

    def _chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield some of the rows after others, and the position of their steps."""
        step = self.view.snapshot.metadata("step")
        for start in range(0, len(self.rows), _CHUNK):
            rows = self.rows[start : start + _CHUNK]
            position = np.searchsorted(self.steps, step[rows])
            position[position == len(self.steps)] = 0
            known = self.steps[position] == step[rows] if len(self.steps) else np.zeros(len(rows), bool)
            yield rows[known], position[known]

    def _rows_by_block(self, block: np.ndarray) -> list[np.ndarray]:
        """Return the rows of each block, ascending; row numbers take half of numpy's usual size."""
        count = int(block[-1]) + 1 if len(block) else 1
        parts: list[list[np.ndarray]] = [[] for _ in range(count)]
        for rows, position in self._chunks():
            where = block[position]
            order = np.argsort(where, kind="stable")
            bounds = np.searchsorted(where[order], np.arange(count + 1))
            for number in np.flatnonzero(np.diff(bounds)).tolist():
                parts[number].append(rows[order[bounds[number] : bounds[number + 1]]].astype(np.uint32))
        return [np.concatenate(part) if part else np.empty(0, np.uint32) for part in parts]


def _block_of_step(counts: np.ndarray, block_rows: int) -> np.ndarray:
    """Return the number of the block of each step, from the number of rows of each step, shape (S,)."""
    block = np.zeros(len(counts), np.uint16 if len(counts) < 1 << 16 else np.int64)
    number = size = 0
    for step, count in enumerate(counts.tolist()):
        if size >= block_rows:
            number, size = number + 1, 0
        block[step] = number
        size += count
    return block
