"""Passes of prompt × step against plain Python: groups, episodes, missing rewards, thresholds, growth."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.store.snapshot.prompt_grid import GridBuilder, PromptGrid, pass_rule, prompt_grid
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line

LOG = "rollout_data_rank_0.jsonl"


def logged(prompt: str, step: int, reward: Any, **fields: Any) -> dict[str, Any]:
    return {"prompt": prompt, "step": step, "reward": reward, "group": f"{step} {prompt}", **fields}


def write(folder: Path, rows: Iterable[dict[str, Any]], **config: Any) -> Path:
    folder.mkdir(exist_ok=True)
    if config:
        (folder / "run.json").write_text(json.dumps(config))
    lines = []
    for at, row in enumerate(rows):
        fields = {"response": f"answer {at}", **row}
        drop = [name for name in ("ref_reward", "group") if name not in row]
        lines.append(line(fields.pop("step"), tokens=False, index=at, drop=drop, **fields))
    append(folder / LOG, *lines)
    return folder


def grid_of(folder: Path, *, by_rows: bool = False) -> tuple[PromptGrid, Snapshot]:
    with rlpanel.open_run(folder, follow=False) as run:
        snapshot = (run.by_rows if by_rows else run).snapshot
        return prompt_grid(snapshot), snapshot


def cells(grid: PromptGrid) -> dict[tuple[int, int], tuple[int, int]]:
    """Prompt, in the order of the log, and step → samples and passes."""
    at = zip(grid.prompt.tolist(), grid.steps[grid.step].tolist(), strict=True)
    values = zip(grid.samples.tolist(), grid.passed.tolist(), strict=True)
    return dict(zip(at, values, strict=True))


def test_passes_and_samples_are_those_of_plain_python(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    rows = [
        logged(f"prompt {prompt}", step, float(chance.random() < 0.5))
        for step in (1, 4, 5)
        for prompt in chance.choice(9, 4, replace=False).tolist()
        for _ in range(3)
    ]
    expected: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    names = list(dict.fromkeys(row["prompt"] for row in rows))
    for row in rows:
        found = expected[names.index(row["prompt"]), row["step"]]
        found[0] += 1
        found[1] += row["reward"] >= 1
    grid, snapshot = grid_of(write(tmp_path / "run", rows))
    assert cells(grid) == {key: tuple(value) for key, value in expected.items()}
    assert grid.steps.tolist() == [1, 4, 5]
    assert grid.firsts.tolist() == [int(np.flatnonzero(grid.prompt == at)[0]) for at in range(len(grid))]
    newest = {row["prompt"]: at for at, row in enumerate(rows)}
    assert grid.newest.tolist() == [newest[name] for name in names]
    assert snapshot.rows == len(rows)


def test_episodes_in_several_rows_count_once_and_cost_every_row(tmp_path: Path) -> None:
    rows = [
        logged(text, 1, reward, episode=episode, group="1", response_tokens=["a"] * 3)
        for episode, reward in (("e1", 1.0), ("e2", 0.0))
        for text in ("task", "task and what a tool said", "task and more")
    ]
    folder = write(tmp_path / "run", rows)
    grid, _ = grid_of(folder)
    assert cells(grid) == {(0, 1): (2, 1)}
    assert (grid.rows.tolist(), grid.cost.tolist()) == ([6], [18.0])
    by_rows, _ = grid_of(folder, by_rows=True)
    assert by_rows.samples.sum() == 6


def test_prompts_without_a_group_are_told_apart_by_their_text(tmp_path: Path) -> None:
    rows = [
        {"prompt": name, "step": 1, "reward": reward} for name, reward in (("a", 1.0), ("b", 0.0), ("a", 0.0))
    ]
    grid, _ = grid_of(write(tmp_path / "run", rows))
    assert cells(grid) == {(0, 1): (2, 1), (1, 1): (1, 0)}


def test_groups_of_one_have_passes_but_no_signal_and_are_not_dead(tmp_path: Path) -> None:
    rows = [logged("a", step, 0.0) for step in (1, 2)] + [logged("b", 2, 1.0)]
    grid, _ = grid_of(write(tmp_path / "run", rows))
    assert cells(grid) == {(0, 1): (1, 0), (0, 2): (1, 0), (1, 2): (1, 1)}
    assert (grid.signal.tolist(), grid.advantages) == ([0.0, 0.0], "")
    assert grid.wasted_rows[0].tolist() == [0.0, 0.0]


def test_rewards_that_are_not_finite_are_counted_apart(tmp_path: Path) -> None:
    rows = [logged("a", 1, reward) for reward in (1.0, None, float("nan"), 0.0)] + [logged("b", 1, None)]
    grid, _ = grid_of(write(tmp_path / "run", rows))
    assert cells(grid) == {(0, 1): (2, 1), (1, 1): (0, 0)}
    assert grid.unrewarded.tolist() == [2, 1]
    assert grid.visits.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("rewards", "config", "threshold", "origin"),
    [
        ((0.0, 1.0, 1.1), {}, 1.0, "usual"),
        ((0.0, 0.0), {}, 1.0, "usual"),
        ((0.0, 10.0, 4.0), {}, 9.0, "range"),
        ((-1.0, 0.0, -0.5), {}, -0.1, "range"),
        ((0.0, 10.0), {"pass_reward": 4}, 4.0, "run.json"),
    ],
)
def test_a_threshold_is_the_runs_or_a_share_of_the_best_reward(
    tmp_path: Path, rewards: tuple[float, ...], config: dict[str, float], threshold: float, origin: str
) -> None:
    folder = write(tmp_path / "run", [logged("a", 1, reward) for reward in rewards], **config)
    grid, snapshot = grid_of(folder)
    rule = pass_rule(snapshot)
    assert (rule.reward, rule.origin) == (pytest.approx(threshold), origin)
    assert grid.passed.tolist() == [sum(reward >= threshold for reward in rewards)]


def test_the_signal_is_logged_or_computed_by_group(tmp_path: Path) -> None:
    rewards = {"a": (1.0, 0.0, 0.0, 0.0), "b": (1.0, 1.0), "c": (0.2, 0.4, 0.9)}
    rows = [logged(name, 1, reward) for name, of_group in rewards.items() for reward in of_group]
    grid, _ = grid_of(write(tmp_path / "computed", rows))
    expected = []
    for of_group in rewards.values():
        array = np.array(of_group)
        expected.append(np.abs((array - array.mean()) / (array.std(ddof=1) + 1e-4)).sum())
    assert grid.signal.tolist() == pytest.approx(expected)
    assert grid.wasted_rows[0].tolist() == [2.0]
    rows = [{**row, "advantage": at - 4.0} for at, row in enumerate(rows)]
    grid, _ = grid_of(write(tmp_path / "logged", rows))
    assert grid.signal.tolist() == [4 + 3 + 2 + 1, 1.0, 2 + 3 + 4]
    assert grid.advantages == "advantage"
    assert grid.wasted_rows[0].tolist() == [0.0]  # equal rewards, but a critic's advantages


def test_a_logged_group_of_several_prompts_is_one_group(tmp_path: Path) -> None:
    rows = [logged(name, 1, reward, group="g") for name, reward in (("a", 1.0), ("b", 0.0))]
    grid, _ = grid_of(write(tmp_path / "run", rows))
    assert grid.wasted_rows[0].tolist() == [0.0]
    assert grid.signal.tolist() == pytest.approx([0.5 / (0.5**0.5 + 1e-4)] * 2, rel=1e-3)


def test_discarded_failed_and_truncated_rows_are_waste_once(tmp_path: Path) -> None:
    rows = [
        logged("a", 1, 1.0, status="ok", response_tokens=["t"]),
        logged("a", 1, 0.0, status="timeout", truncated=True, response_tokens=["t"] * 2),
        logged("a", 1, 1.0, status="discarded", response_tokens=["t"] * 4),
        logged("b", 1, 0.0, status="truncated", response_tokens=["t"] * 8),
        logged("b", 1, 0.0, status="ok", response_tokens=["t"] * 16),
    ]
    grid, _ = grid_of(write(tmp_path / "run", rows))
    assert grid.wasted_rows[:, 0].tolist() == [2, 1, 1, 2, 4]
    assert grid.wasted_cost[:, 0].tolist() == [24, 4, 2, 10, 30]
    assert (grid.samples.tolist(), grid.rows.tolist()) == ([2, 2], [3, 2])


def test_waste_that_is_not_logged_is_not_zero(tmp_path: Path) -> None:
    grid, _ = grid_of(write(tmp_path / "run", [logged("a", 1, 0.0), logged("a", 1, 0.0)]))
    assert np.isnan(grid.wasted_rows[1:4]).all()
    assert grid.wasted_rows[[0, 4], 0].tolist() == [2, 2]


def same(a: PromptGrid, b: PromptGrid) -> bool:
    names = ("newest", "steps", "prompt", "step", "samples", "passed", "cost", "signal", "unrewarded", "rows")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def test_blocks_and_a_run_that_grows_give_the_grid_of_one_reading(tmp_path: Path) -> None:
    chance, builder = np.random.default_rng(1), GridBuilder(block=7)
    for step in (1, 2, 3):
        rows = [
            logged(f"prompt {prompt}", step, float(chance.random() < 0.5))
            for prompt in chance.choice(8, 5, replace=False).tolist()
            for _ in range(4)
        ]
        write(tmp_path / "run", rows)
        with rlpanel.open_run(tmp_path / "run", follow=False) as run:
            *parts, last = builder.update(run.snapshot)
            first = 20 * (step - 1)
            assert [part.read for part in parts] == [first + 7, first + 14]
            whole = prompt_grid(run.snapshot)
        assert last.grid is not None
        assert same(last.grid, whole)
        assert last.read == 20 * step


def test_pages_that_read_at_the_same_time_read_each_row_once_and_share_the_grid(tmp_path: Path) -> None:
    write(tmp_path / "run", [logged(f"prompt {at % 5}", 1 + at // 10, float(at % 2)) for at in range(30)])
    builder = GridBuilder(block=7)
    with rlpanel.open_run(tmp_path / "run", follow=False) as run:
        one, other = builder.update(run.snapshot), builder.update(run.snapshot)
        assert [next(each).read for each in (one, other, one, other)] == [7, 14, 21, 28]
        (last,), (same_last,) = list(one), list(other)
        assert last.grid is not None
        assert last.grid is same_last.grid
        assert same(last.grid, prompt_grid(run.snapshot))


def test_an_older_snapshot_has_its_own_grid_and_leaves_what_was_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", [logged("a", 1, 1.0), logged("b", 1, 0.0)])
    builder = GridBuilder(block=1)
    with rlpanel.open_run(folder, follow=False) as run:
        older = run.snapshot
        waiting = builder.update(older)
        next(waiting)
        append(folder / LOG, *(json.dumps(row).encode() + b"\n" for row in (logged("a", 2, 0.0),) * 3))
        run.index.read({str(folder / LOG)})
        *_, newest = builder.update(run.index.snapshot)
        *_, alone = waiting
        [again] = builder.update(run.index.snapshot)
    assert alone.grid is not None
    assert alone.grid.samples.sum() == 2
    assert newest.grid is not None
    assert newest.grid.samples.sum() == 5
    assert again.grid is newest.grid


@pytest.mark.parametrize("grouped", [True, False])
def test_steps_that_arrive_late_have_their_place(tmp_path: Path, *, grouped: bool) -> None:
    expected = {}
    for rank, steps in ((1, (1, 2, 7)), (0, (5, 9))):  # the file of rank 0 is read first
        rows = []
        for step in steps:
            for prompt in range(3):
                rewards = [float((step + prompt + at) % 3 == 0) for at in range(2)]
                expected[prompt, step] = (2, int(sum(rewards)))
                rows += [logged(f"prompt {prompt}", step, reward) for reward in rewards]
        kept = [{name: row[name] for name in row if grouped or name != "group"} for row in rows]
        write(tmp_path / "run", kept)
        if rank:
            (tmp_path / "run" / LOG).rename(tmp_path / "run" / f"rollout_data_rank_{rank}.jsonl")
    with rlpanel.open_run(tmp_path / "run", follow=False) as run:
        assert (run.snapshot.group_codes is not None) == grouped
        assert run.snapshot.metadata("step")[0] == 5
        *_, last = GridBuilder(block=5).update(run.snapshot)
    assert last.grid is not None
    assert cells(last.grid) == expected
    places = list(zip(last.grid.prompt.tolist(), last.grid.step.tolist(), strict=True))
    assert places == sorted(places)


def test_a_changed_threshold_is_read_anew(tmp_path: Path) -> None:
    builder = GridBuilder()
    for reward, passed in ((2.0, 1), (10.0, 1)):
        write(tmp_path / "run", [logged("a", 1, reward), logged("a", 1, 0.0)])
        with rlpanel.open_run(tmp_path / "run", follow=False) as run:
            *_, last = builder.update(run.snapshot)
        assert last.grid is not None
        assert last.grid.passed.sum() == passed


def test_a_run_without_rewards_has_rows_and_no_visits(tmp_path: Path) -> None:
    grid, _ = grid_of(write(tmp_path / "run", [logged("a", 1, None)]))
    assert (grid.visits.tolist(), grid.rows.tolist()) == ([0], [1])
    assert np.isnan(grid.wasted_rows[0]).all()
