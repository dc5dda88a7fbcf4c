"""Times the grid of pass rates, the classes and costs of prompts, and the picture of a view.

python -m tests.bench.prompts [--against PATH] [--rounds N] [--size SIZE] [--record]

The full size is 10 million samples in groups of eight of 20,000 prompts over 1,000 steps. They are written
into the columns of a run: reading lines takes minutes, and `tests.bench.store` measures it. A second grid has
20,000 × 1,000 cells.
"""

from __future__ import annotations

import time
import tracemalloc

import numpy as np

from rlpanel.panels.prompts.grid_figure import GridWindow, grid_image, lanes_of
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.row_builder import Rows
from rlpanel.store.columns.row_table import RowTable
from rlpanel.store.snapshot.prompt_classes import costs_of_prompts, prompt_classes
from rlpanel.store.snapshot.prompt_grid import GridBuilder, PassRule, PromptGrid
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.bench.harness import Figures, Task, run

GROUP, SIZE = 8, (400, 1000)


def run_of(samples: int, prompts: int, steps: int, *, advantages: bool) -> RowTable:
    """Return the columns of a run in which the groups of each step are of random prompts."""
    table, rng = RowTable(), np.random.default_rng(0)
    table.files.append("rollout_data_rank_0.jsonl")
    groups = samples // GROUP // steps
    for step in range(steps):
        add_step(table, step, groups, prompts, rng, advantages)
    return table


def add_step(
    table: RowTable, step: int, groups: int, prompts: int, rng: np.random.Generator, advantages: bool
) -> None:
    """Append the groups of a step; each prompt has its own pass rate."""
    rows = groups * GROUP
    prompt = np.repeat(rng.integers(0, prompts, groups), GROUP)
    reward = (rng.random(rows) < prompt % 11 / 10).astype(float)
    metadata = {name: np.zeros(rows, dtype) for name, dtype in Columns.METADATA.items()}
    metadata["step"][:] = step
    metadata["prompt_hash"] = (prompt.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    metadata["offset"] = np.arange(step * rows, (step + 1) * rows) * 100
    metadata["hash"] = metadata["response_hash"] = rng.integers(0, 1 << 62, rows).astype(np.uint64)
    numbers = {"reward": reward, "response_tokens": rng.integers(100, 4000, rows).astype(float)}
    numbers |= {"advantage": reward - 0.5} if advantages else {}
    table.add(Rows(metadata, numbers, {}), step + 1)


def built(builder: GridBuilder, snapshot: Snapshot) -> tuple[PromptGrid, float, float]:
    """Return the grid, its CPU seconds, and the seconds of its longest part."""
    began, last = time.process_time(), time.perf_counter()
    longest, grid = 0.0, None
    for progress in builder.update(snapshot):
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
        grid = progress.grid
    assert grid is not None
    return grid, time.process_time() - began, longest


def snapshot_of(table: RowTable) -> Snapshot:
    """Return the snapshot of a table."""
    columns, rows = table.columns, table.columns.rows
    by_split = table.steps.freeze()
    [split] = by_split
    return Snapshot(
        name="run", rows=rows, split=split, steps=by_split[split], state=table.state[:rows].copy(),
        _by_split=by_split,
        _metadata={name: column.view(rows) for name, column in columns.metadata.items()},
        _numbers={name: column.view(rows) for name, column in columns.numbers.items()},
    )  # fmt: skip


def dense_grid(prompts: int, steps: int) -> PromptGrid:
    """Return a grid in which each prompt is visited at each step."""
    cells, rng = prompts * steps, np.random.default_rng(1)
    samples = np.full(cells, GROUP, np.int32)
    return PromptGrid(
        np.arange(prompts), np.arange(steps), np.arange(prompts) * steps,
        np.repeat(np.arange(prompts, dtype=np.int32), steps),
        np.tile(np.arange(steps, dtype=np.int32), prompts),
        samples, rng.binomial(GROUP, 0.5, cells).astype(np.int32), samples.astype(np.float32),
        np.zeros(prompts, int), np.zeros(prompts, int), np.zeros(prompts),
        np.zeros((5, steps)), np.zeros((5, steps)), PassRule(1.0, "usual"), True, "advantage", 0,
    )  # fmt: skip


def prepare(task: Task) -> None:
    """Write nothing: the columns are made in memory."""


def measure(task: Task) -> Figures:
    """Measure runs with and without advantages, one more step of them, and the pictures of a dense grid."""
    samples = task.pick(100_000, 1_000_000, 10_000_000)
    prompts, steps = task.pick(200, 2_000, 20_000), task.pick(20, 100, 1_000)
    figures: Figures = {"samples": float(samples), "prompts": float(prompts), "steps": float(steps)}
    for name, advantages in (("with advantages", True), ("without advantages", False)):
        table = run_of(samples, prompts, steps, advantages=advantages)
        snapshot, builder = snapshot_of(table), GridBuilder()
        grid, seconds, longest = built(builder, snapshot)
        figures |= {f"grid {name}, CPU s": seconds, f"grid {name}, longest part, s": longest}
        began = time.process_time()
        costs_of_prompts(snapshot, grid, 3)
        figures[f"classes and costs {name}, CPU s"] = time.process_time() - began
        add_step(table, steps, samples // steps // GROUP, prompts, np.random.default_rng(9), advantages)
        figures[f"one more step {name}, CPU s"] = built(builder, snapshot_of(table))[1]
        del builder, grid
        tracemalloc.start()  # numpy reports its arrays to it
        builder = GridBuilder()
        built(builder, snapshot)
        kept, highest = (size / 2**20 for size in tracemalloc.get_traced_memory())
        tracemalloc.stop()
        figures |= {f"grid {name}, kept, MB": kept, f"grid {name}, at most, MB": highest}
        del table, snapshot, builder
    dense = dense_grid(prompts, steps)
    lanes = lanes_of(dense, np.random.default_rng(3).permutation(prompts))
    for name, window in (
        ("whole", GridWindow(0, steps, 0, prompts)),
        ("a hundredth", GridWindow(0, steps // 10, 0, prompts // 10)),
    ):
        began = time.process_time()
        grid_image(dense, lanes, window, SIZE[1], SIZE[0])
        figures[f"picture of a dense grid, {name}, CPU s"] = time.process_time() - began
    began = time.process_time()
    prompt_classes(dense, 3)
    figures["classes of a dense grid, CPU s"] = time.process_time() - began
    figures["dense grid, MB"] = dense.memory / 2**20
    return figures


if __name__ == "__main__":
    run(measure, prepare)
