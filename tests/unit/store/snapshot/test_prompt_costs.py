"""Tokens, seconds and GPU-hours of each prompt against sums by hand, and null where they are not logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.store.snapshot.prompt_classes import PromptCosts, costs_of_prompts
from rlpanel.store.snapshot.prompt_grid import prompt_grid
from tests.unit.store.snapshot.test_prompt_grid import logged, write

#: Step, prompt, tokens.
ROWS = [(1, "a", 10), (1, "b", 30), (2, "a", 5), (2, "a", 15), (3, "b", 8)]


def costs(
    folder: Path, rows: list[dict[str, Any]], seconds: dict[int, float] | None = None, **config: Any
) -> PromptCosts:
    write(folder, rows, **config)
    if seconds:
        lines = [json.dumps({"step": step, "step_time": value}) for step, value in seconds.items()]
        (folder / "scalars.jsonl").write_text("\n".join(lines) + "\n")
    with rlpanel.open_run(folder, follow=False) as run:
        return costs_of_prompts(run.snapshot, prompt_grid(run.snapshot), 3)


def rows(**fields: Any) -> list[dict[str, Any]]:
    return [logged(name, step, 1.0, response_tokens=["t"] * count, **fields) for step, name, count in ROWS]


def test_seconds_are_shared_by_tokens_and_gpus_multiply_them(tmp_path: Path) -> None:
    found = costs(tmp_path / "run", rows(), {1: 100.0, 2: 60.0, 3: 7.0}, gpus=8)
    assert found.tokens.tolist() == [30, 38]
    assert found.seconds.tolist() == pytest.approx([25 + 60, 75 + 7])
    assert found.gpu_hours.tolist() == pytest.approx([85 * 8 / 3600, 82 * 8 / 3600])
    assert found.missing() == []
    dead = found.waste[0]  # only the group of step 2 has two samples, with the same reward
    assert (dead.rows, dead.tokens, dead.seconds) == (2, 20.0, pytest.approx(60.0))
    assert (dead.gpu_hours, dead.share) == (pytest.approx(60 * 8 / 3600), pytest.approx(20 / 68))
    assert [each.rows for each in found.waste[1:4]] == [None, None, None]


def test_what_is_not_logged_is_null_and_said(tmp_path: Path) -> None:
    found = costs(tmp_path / "run", [logged("a", 1, 1.0), logged("a", 1, 0.0)])
    assert np.isnan(found.tokens).all()
    assert np.isnan(found.seconds).all()
    assert np.isnan(found.gpu_hours).all()
    assert [each.partition(":")[0] for each in found.missing()] == ["tokens", "seconds", "GPU-hours"]
    assert (found.waste[0].tokens, found.waste[0].gpu_hours, found.waste[0].share) == (None, None, 0.0)


def test_the_clock_of_samples_replaces_step_times_and_a_pause_counts_as_a_usual_step(tmp_path: Path) -> None:
    ends = {1: 100.0, 2: 110.0, 3: 120.0, 4: 9120.0, 5: 9130.0}
    timed = [logged("a", step, 1.0, response_tokens=["t"], time=1.7e9 + end) for step, end in ends.items()]
    found = costs(tmp_path / "run", timed)
    assert (found.times.source, found.times.interrupted) == ("time", 1)
    assert found.times.seconds.tolist()[1:] == [10, 10, 10, 10]
    assert np.isnan(found.times.seconds[0])
    assert found.seconds.tolist() == [40.0]


def test_steps_without_a_time_cost_nothing_known(tmp_path: Path) -> None:
    found = costs(tmp_path / "run", rows(), {1: 100.0})
    assert found.seconds.tolist() == pytest.approx([25.0, 75.0])
    assert np.isnan(found.times.seconds[1:]).all()


def test_without_tokens_the_seconds_are_shared_by_rows(tmp_path: Path) -> None:
    found = costs(tmp_path / "run", [logged(name, 1, 1.0) for name in "aab"], {1: 30.0})
    assert found.seconds.tolist() == pytest.approx([20.0, 10.0])


def test_first_and_last_pass_rates_and_the_order(tmp_path: Path) -> None:
    made = [logged("up", step, float(step > 2)) for step in range(1, 6) for _ in range(8)]
    made += [logged("never", step, 0.0) for step in range(1, 5) for _ in range(8)]
    made += [logged("never, twice the cost", step, 0.0) for step in range(1, 5) for _ in range(16)]
    found = costs(tmp_path / "run", sorted(made, key=lambda row: row["step"]))
    first, last = found.first_and_last
    assert (first.tolist(), last.tolist()) == ([0, 0, 0], [1, 0, 0])
    assert found.order.tolist() == [0, 2, 1]
    assert found.of(["never"]).tolist() == [2, 1]


@pytest.mark.parametrize("gpus", ["8", True, 0, None, -1])
def test_gpus_that_are_no_count_are_unknown(tmp_path: Path, gpus: Any) -> None:
    assert np.isnan(costs(tmp_path / "run", rows(), gpus=gpus).gpus)
