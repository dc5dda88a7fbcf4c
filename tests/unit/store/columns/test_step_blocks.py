"""The rows of some steps are found in the blocks that may hold them."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.settings import TableLimits
from rlpanel.store.columns.columns import BLOCK_ROWS, Columns, StepsOfBlocks
from rlpanel.store.columns.row_builder import Rows
from rlpanel.store.columns.row_table import RowTable

RNG = np.random.default_rng(3)
#: Steps of rows in the order of the steps, with some that arrived late, and in any order.
ORDERS = {
    "ascending": np.repeat(np.arange(70), 1000),
    "two files": np.tile(np.repeat(np.arange(35), 1000), 2),
    "some late": np.concatenate([np.repeat(np.arange(70), 900), RNG.integers(0, 70, 5000)]),
    "any": RNG.integers(-3, 70, 3 * BLOCK_ROWS),
    "few rows": np.arange(10),
    "no row": np.empty(0, np.int64),
}


@pytest.mark.parametrize("step", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("wanted", [[], [4], [4, 5, 6], [0, 30, 69], [-3, 200]], ids=str)
def test_the_rows_are_those_of_a_search_through_all_rows(step: np.ndarray, wanted: list[int]) -> None:
    mask = np.arange(len(step)) % 3 > 0
    found = StepsOfBlocks().rows(step, np.array(wanted, int), mask)
    assert found.tolist() == np.flatnonzero(np.isin(step, wanted) & mask).tolist()


def test_a_step_of_a_long_run_takes_a_look_at_few_rows() -> None:
    step = np.repeat(np.arange(1000), 1000)
    parts = StepsOfBlocks().parts(step, np.array([500]))
    assert sum(part.stop - part.start for part in parts) <= 2 * BLOCK_ROWS
    assert len(StepsOfBlocks().parts(step, np.array([10, 990]))) == 2


def test_of_rows_that_were_added_only_the_new_blocks_are_read() -> None:
    step, blocks = np.repeat(np.arange(10), BLOCK_ROWS), StepsOfBlocks()
    blocks.parts(step[: 5 * BLOCK_ROWS], np.array([0]))
    step[: 5 * BLOCK_ROWS] = 99  # what is known of them stays
    assert blocks.parts(step, np.array([2])) == [slice(2 * BLOCK_ROWS, 3 * BLOCK_ROWS)]
    assert blocks.parts(step, np.array([7])) == [slice(7 * BLOCK_ROWS, 8 * BLOCK_ROWS)]


def test_a_table_that_drops_dead_rows_forgets_their_blocks() -> None:
    table = RowTable(TableLimits(dead_rows=BLOCK_ROWS))
    table.files += ["a", "b"]
    for file, steps in enumerate([[1, 1, 1, 2], [3, 4]]):
        size = len(steps) * BLOCK_ROWS
        metadata = {name: np.zeros(size, kind) for name, kind in Columns.METADATA.items()}
        metadata["step"] += np.repeat(steps, BLOCK_ROWS)
        metadata["file"] += file
        metadata["offset"] += np.arange(size)
        metadata["hash"] += RNG.integers(0, 1 << 62, size).astype(np.uint64)
        table.add(Rows(metadata, {}, {}), 1)

    def rows_of(step: int) -> tuple[int, ...]:
        columns = table.columns
        steps = columns.metadata["step"].view(columns.rows)
        rows = columns.blocks.rows(steps, np.array([step]), np.ones(columns.rows, bool))
        return (int(rows[0]), len(rows)) if len(rows) else ()

    assert rows_of(4) == (5 * BLOCK_ROWS, BLOCK_ROWS)
    table.mark_dead([0], 2)
    assert table.columns.rows == 2 * BLOCK_ROWS
    assert rows_of(1) == ()
    assert rows_of(4) == (BLOCK_ROWS, BLOCK_ROWS)
