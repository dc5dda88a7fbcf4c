"""Batches of whole steps: each row of a wanted step is in one of them, whatever the order of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from rlpanel.store.snapshot import step_metric_cache as module
from rlpanel.store.snapshot.step_metric_cache import step_batches

DRAW = np.random.default_rng(0)
STEP = DRAW.choice([1, 2, 5, 6, 9], 200)


@pytest.mark.parametrize("most", [1, 60, 1000])
@pytest.mark.parametrize("rows", [None, np.flatnonzero(DRAW.random(200) < 0.5)])
@pytest.mark.parametrize("steps", [[1, 2, 5, 6, 9], [2, 9], [0, 6, 30]])
def test_each_row_of_a_wanted_step_is_in_the_batch_of_its_step(
    most: int, rows: np.ndarray | None, steps: list[int]
) -> None:
    wanted = np.array(steps)
    batches = step_batches(STEP, rows, wanted, most)
    assert [batch.first for batch in batches[1:]] == [batch.last for batch in batches[:-1]]
    assert (batches[0].first, batches[-1].last) == (0, len(steps))
    every = np.arange(200) if rows is None else rows
    for batch in batches:
        of = wanted[batch.first : batch.last]
        np.testing.assert_array_equal(batch.rows, every[np.isin(STEP[every], of)])
        assert len(batch.rows) <= most or np.isin(of, STEP[every]).sum() == 1


def test_a_batch_is_not_closed_before_it_is_full() -> None:
    step = np.repeat([1, 2, 3], 10)
    assert [len(batch.rows) for batch in step_batches(step, None, np.array([1, 2, 3]), 20)] == [20, 10]


def test_rows_of_several_chunks_stay_in_their_order() -> None:
    step = np.arange(module.CHUNK + 10) % 7
    batches = step_batches(step, None, np.arange(7), len(step))
    np.testing.assert_array_equal(batches[0].rows, np.arange(len(step)))


def test_without_steps_there_is_one_empty_batch() -> None:
    (batch,) = step_batches(STEP, None, np.empty(0, int), 10)
    assert (batch.first, batch.last, len(batch.rows)) == (0, 0, 0)
