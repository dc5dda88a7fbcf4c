"""Samples in blocks of consecutive steps: what a rule computes needs memory for one block at a time."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.step_batches import step_batches

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
