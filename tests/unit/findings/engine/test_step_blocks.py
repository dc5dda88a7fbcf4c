"""Blocks of steps: each row is in one of them, and small blocks give the same tables as a single one."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.findings import check  # noqa: F401  (importing the rules registers their signals)
from rlpanel.findings.engine.places import BlockTables
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import SIGNALS, StepBlocks, column_signal
from rlpanel.settings import FindingSettings
from tests.factories import append, line, write_run

STEPS, RANKS = 9, 3


def mixed_run(folder: Path, *, grouped: bool = True) -> Path:
    """Write a run with repeated and missing values, in which the rows of a step do not follow each other."""
    write_run(folder, steps=0)
    for rank in range(RANKS):
        lines = [
            line(
                step,
                rank=rank,
                index=index,
                lang=("en", "zh")[index % 2],
                advantage=(-1.0) ** index * step,
                # Rank 2 repeats rank 1, and all ranks repeat their third response at each step.
                response=f"a long response {min(rank, 1)} {step if index != 3 else 0} {index}",
                prompt=f"prompt {index // 4} of {min(rank, 1)}" if grouped else f"prompt {rank} {index}",
                drop=[*["reward"] * (index == rank), *["group"] * (not grouped)],
            )
            for step in range(1, STEPS + 1)
            for index in range(4 + step % 3)
        ]
        append(folder / f"rollout_data_rank_{rank}.jsonl", *lines)
    return folder


def context_of(folder: Path) -> RuleContext:
    with open_run(folder, follow=False) as run:
        return RuleContext(run.view, FindingSettings(), time.time() + 3600)


@pytest.mark.parametrize("block_rows", [1, 40, 1 << 20])
def test_each_row_is_in_the_block_of_its_step(tmp_path: Path, block_rows: int) -> None:
    context = context_of(mixed_run(tmp_path / "run"))
    batches = StepBlocks(context.view, context.rows, context.steps, block_rows=block_rows).batches
    assert len(batches) == {1: STEPS, 40: STEPS // 2 + 1, 1 << 20: 1}[block_rows]
    np.testing.assert_array_equal(np.concatenate([rows.steps for rows in batches]), context.steps)
    step = context.snapshot.metadata("step")
    for rows in batches:
        expected = context.rows[np.isin(step[context.rows], rows.steps)]
        np.testing.assert_array_equal(rows.rows, expected)
        np.testing.assert_array_equal(rows.steps[rows.position], step[expected])


def test_rows_of_other_steps_are_left_out(tmp_path: Path) -> None:
    context = context_of(mixed_run(tmp_path / "run"))
    (rows,) = StepBlocks(context.view, context.rows, np.array([2, 5])).batches
    assert set(context.snapshot.metadata("step")[rows.rows].tolist()) == {2, 5}
    (none,) = StepBlocks(context.view, context.rows, np.empty(0, np.int64)).batches
    assert len(none) == 0


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_block_knows_the_rows_of_the_step_before(tmp_path: Path, is_complete: bool) -> None:
    context = context_of(mixed_run(tmp_path / "run"))
    blocks = StepBlocks(context.view, context.rows, context.steps, is_complete=is_complete, block_rows=40)
    step = context.snapshot.metadata("step")
    for rows in blocks.batches:
        wanted = range(max(1, int(rows.steps[0]) - 1), int(rows.steps[-1]) + 1)
        expected = context.rows[np.isin(step[context.rows], wanted)]
        np.testing.assert_array_equal(np.sort(rows.with_step_before()), expected)


@pytest.mark.parametrize("grouped", [True, False])
def test_small_blocks_give_the_same_tables(tmp_path: Path, grouped: bool) -> None:
    context = context_of(mixed_run(tmp_path / "run", grouped=grouped))
    assert context.view.grouped == grouped
    places = context.place_series.places
    assert len(places) == 1 + RANKS + 2
    column_signal("response_chars", "positive")
    defined = 0
    for signal in SIGNALS.values():
        if not context.available(signal) or signal.name == "discarded":
            continue
        single, small = (
            BlockTables(
                StepBlocks(context.view, context.rows, context.steps, is_complete=True, block_rows=rows),
                places,
            ).table(signal)
            for rows in (1 << 20, 40)
        )
        np.testing.assert_array_equal(small, single, signal.name)
        defined += bool(np.nansum(single[0]))
    assert defined > 5
    assert np.nansum(context.table(SIGNALS["equals_step_before"])[0]) > 0
    assert bool(np.nansum(context.table(SIGNALS["equals_lower_rank"])[0]) > 0) is grouped
