"""Statistics count each episode once, whatever the order in which its rows are written and read."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlpanel.queries.groups import groups
from rlpanel.queries.run_data import RunData
from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.episode_oracle import Expected, Line, Place, expected
from tests.factories import append, rewrite
from tests.limits import SAVED, store_limits

Row = dict[str, Any]
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]


def look(index: RunIndex) -> Snapshot:
    index.rescan()
    while index.read():
        pass
    return index.snapshot


def episodes(chance: random.Random, step: int, split: str | None) -> list[Row]:
    """The rows of a step: some episodes with several agents, trajectories and turns, some rows without."""
    rows: list[Row] = []
    for group in range(chance.randint(1, 4)):
        for rollout in range(chance.randint(1, 4)):
            base: Row = {"step": step, "group": f"g{group}", "prompt": f"prompt {group}"}
            base |= {"split": split} if split else {}
            if chance.random() < 0.2:
                rows.append(base | outcome(chance, rollout))
                continue
            base["episode"] = f"{group}-{rollout}"
            for agent in chance.choice(
                [[{}], [{"agent": "a"}, {"agent": "b"}, {}], [{"trajectory": "0"}, {}]]
            ):
                count = chance.randint(1, 4)
                has_turns = chance.random() < 0.7
                for turn in range(count):
                    row = base | agent | outcome(chance, rollout)
                    row |= {"turn": turn} if has_turns and chance.random() < 0.9 else {}
                    rows.append(row)
    chance.shuffle(rows)
    return rows


def outcome(chance: random.Random, rollout: int) -> Row:
    """A reward that may be missing, an own column, a part of the reward, and a text that differs."""
    reward = chance.choice([0.0, 1.0, 1.0, round(chance.random(), 3), None, math.nan])
    row: Row = {
        "response": f"answer {chance.random()}",
        "reward": reward,
        "logprobs": [-0.5, -chance.random()],
    }
    row |= {"acc": float(chance.random() < 0.5)} if chance.random() < 0.8 else {}
    return row | ({"rewards": {"format": round(chance.random(), 3)}} if chance.random() < 0.5 else {})


def encoded(rows: Iterable[Row]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def lines_of(run: Path) -> list[Line]:
    """All lines of a run; a part of the reward has the name of its column."""
    found: list[Line] = []
    for path in sorted(run.rglob("*.jsonl")):
        offset = 0
        for raw in path.read_bytes().splitlines(keepends=True):
            row = json.loads(raw)
            row |= {f"rewards/{name}": value for name, value in row.pop("rewards", {}).items()}
            row["response_tokens"] = float(len(row["logprobs"]))
            found.append((str(path.relative_to(run)), offset, row))
            offset += len(raw)
    return found


def written(run: Path, chance: random.Random, steps: Iterable[int] = range(1, 6), files: int = 3) -> None:
    """Write the rows of some steps to several files; an episode may be in several of them."""
    names = [f"rank_{number}.jsonl" for number in chance.sample(range(20), files)]
    for step in steps:
        rows = [row for split in (None, "eval") for row in episodes(chance, step, split)]
        for row in rows:
            append(run / chance.choice(names), encoded([row]))


def assert_counts(snapshot: Snapshot, truth: dict[Place, Expected]) -> None:
    """Assert that all statistics of a snapshot are those of the oracle, by episodes and by rows."""
    assert {
        (name, int(step)) for name in snapshot.splits for step in snapshot.in_split(name).steps.values
    } == (truth.keys())
    whole = RunView(snapshot)
    for split in snapshot.splits:
        for by_rows in (False, True):
            view = whole.in_split(split).by_rows if by_rows else whole.in_split(split)
            assert_split(view, {step: part for (name, step), part in truth.items() if name == split}, by_rows)


def assert_split(view: RunView, truth: dict[int, Expected], by_rows: bool) -> None:
    steps = view.snapshot.steps
    parts = [truth[step] for step in steps.values.tolist()]
    assert steps.samples.tolist() == [part.samples for part in parts]
    assert steps.episodes.tolist() == [len(part.outcomes) for part in parts]
    for column in ("reward", "acc", "rewards/format"):
        if column not in steps.columns:
            continue
        same(steps.mean(column), [part.mean(column, by_rows=by_rows) for part in parts])
        same(steps.std(column), [part.std(column, by_rows=by_rows) for part in parts])
        quartiles = (0.25, 0.5, 1.0)
        truths = [[part.quantile(column, q, by_rows=by_rows) for part in parts] for q in quartiles]
        same(view.quantiles(column, quartiles), truths)
        counts = view.histogram(column).counts.sum(axis=1)
        assert counts.tolist() == [len(part.values(column, by_rows=by_rows)) for part in parts]
    same(steps.mean("response_tokens"), [part.mean("response_tokens", by_rows=True) for part in parts])
    if "reward" in steps.columns and view.snapshot.has_number("reward"):
        same(
            view.step_values("zero_variance_groups"), [part.zero_variance(by_rows=by_rows) for part in parts]
        )
        assert_groups(view, truth, by_rows)


def groups_of_run(view: RunView) -> pd.DataFrame:
    return groups(RunData(SimpleNamespace(name="run"), view), all_steps=True).frame()  # type: ignore[arg-type]


def assert_groups(view: RunView, truth: dict[int, Expected], by_rows: bool) -> None:
    frame = groups_of_run(view).reindex(
        columns=["step", "group", "samples", "reward_mean", "reward_std", "pass_rate"]
    )
    found = {(step, group): numbers for step, group, *numbers in frame.itertuples(index=False)}
    wanted = {
        (step, name): numbers
        for step, part in truth.items()
        for name, numbers in part.group_numbers(by_rows=by_rows).items()
    }
    assert found.keys() == wanted.keys()
    for key, numbers in wanted.items():
        same(np.array(found[key], float), np.array(numbers, float))


def same(found: Any, truth: Any) -> None:
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(truth, float), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_numbers_are_those_of_the_oracle(seed: int, tmp_path: Path) -> None:
    written(tmp_path, random.Random(seed))
    assert_counts(look(RunIndex(tmp_path, "run")), expected(lines_of(tmp_path)))


@pytest.mark.parametrize("seed", SEEDS)
def test_they_are_right_after_each_line_that_arrives(seed: int, tmp_path: Path) -> None:
    """Later rows supersede earlier ones, also those of other files and of steps that were complete."""
    chance = random.Random(seed)
    index = RunIndex(tmp_path, "run")
    rows = [row for step in (1, 2) for split in (None, "eval") for row in episodes(chance, step, split)]
    for number in range(0, len(rows), 4):
        for row in rows[number : number + 4]:
            append(tmp_path / f"rank_{chance.randint(0, 2)}.jsonl", encoded([row]))
        assert_counts(look(index), expected(lines_of(tmp_path)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rewritten_file_and_a_deleted_one_give_way(seed: int, tmp_path: Path) -> None:
    """The outcome of an episode is that of an earlier row again, if the last one is gone."""
    chance = random.Random(seed)
    written(tmp_path, chance)
    index = RunIndex(tmp_path, "run")
    look(index)
    first, second, _ = sorted(tmp_path.glob("*.jsonl"))
    kept = first.read_bytes().splitlines(keepends=True)
    rewrite(first, *kept[: len(kept) // 2])
    assert_counts(look(index), expected(lines_of(tmp_path)))
    second.unlink()
    assert_counts(look(index), expected(lines_of(tmp_path)))


@pytest.mark.parametrize("seed", SEEDS)
def test_dropping_dead_rows_changes_nothing(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    written(tmp_path, chance)
    index = RunIndex(tmp_path, "run", limits=store_limits(dead_rows=0))
    look(index)
    for path in sorted(tmp_path.glob("*.jsonl"))[:2]:
        rewrite(path, *path.read_bytes().splitlines(keepends=True)[1:])
        look(index)
    written(tmp_path, chance, steps=[6, 7])
    assert_counts(look(index), expected(lines_of(tmp_path)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_backlog_that_is_read_from_both_ends_gives_the_same(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    written(tmp_path, chance)
    index = RunIndex(
        tmp_path, "run", Reading(backlog_bytes=1, turn_bytes=1 << 10), limits=store_limits(range_bytes=700)
    )
    index.rescan()
    index.read()
    written(tmp_path, chance, steps=[6, 7])
    assert_counts(look(index), expected(lines_of(tmp_path)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_from_the_cache_has_the_same_numbers(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    written(tmp_path, chance)
    index = RunIndex(tmp_path, "run", Reading(cache=True), limits=SAVED)
    look(index)
    index.close()
    again = RunIndex(tmp_path, "run", Reading(cache=True), limits=SAVED)
    assert_counts(look(again), expected(lines_of(tmp_path)))
    written(tmp_path, chance, steps=[6, 7])
    assert_counts(look(again), expected(lines_of(tmp_path)))


@pytest.mark.parametrize("seed", SEEDS)
def test_of_a_resumed_run_only_the_newest_attempt_counts(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    steps = {step: [row for _ in range(2) for row in episodes(chance, step, None)] for step in (1, 2, 3, 4)}
    append(tmp_path / "rank_0.jsonl", b"".join(encoded(rows) for rows in steps.values()))
    index = RunIndex(tmp_path, "run")
    look(index)
    again = [row for _ in range(8) for row in episodes(chance, 2, None)]
    append(tmp_path / "rank_0.jsonl", encoded(again))
    lines = lines_of(tmp_path)
    counted = lines[: len(steps[1])] + lines[-len(again) :]
    assert_counts(look(index), expected(counted))


def test_copies_of_lines_do_not_take_part(tmp_path: Path) -> None:
    """Of two equal lines that cannot be a coincidence one counts, so an episode does not end with a copy."""
    row = {"step": 1, "prompt": "p", "episode": "e", "logprobs": [-40.0, -40.0]}
    lines = [row | {"response": "a", "reward": 0.0}, row | {"response": "b", "reward": 1.0}]
    append(tmp_path / "rank_0.jsonl", encoded(lines))
    append(tmp_path / "rank_1.jsonl", encoded(lines[:1]))
    snapshot = look(RunIndex(tmp_path, "run"))
    assert (snapshot.samples, snapshot.episodes, snapshot.duplicates) == (2, 1, 1)
    assert RunView(snapshot).step_values("reward").tolist() == [1.0]


def test_an_older_snapshot_keeps_its_numbers(tmp_path: Path) -> None:
    index = RunIndex(tmp_path, "run")
    row = {"step": 1, "prompt": "p", "response": "r", "episode": "e"}
    append(tmp_path / "rank_0.jsonl", encoded([row | {"reward": 0.0}, row | {"reward": 1.0}]))
    before = look(index)
    append(tmp_path / "rank_0.jsonl", encoded([row | {"reward": 3.0}]))
    after = look(index)
    assert [RunView(each).step_values("reward").tolist() for each in (before, after)] == [[1.0], [3.0]]
    assert before.counted("reward").tolist() == pytest.approx([math.nan, 1.0], nan_ok=True)


def test_a_run_without_episodes_has_nothing_to_switch(tmp_path: Path) -> None:
    append(tmp_path / "rank_0.jsonl", encoded([{"step": 1, "prompt": "p", "response": "r", "reward": 1.0}]))
    snapshot = look(RunIndex(tmp_path, "run"))
    assert snapshot.by_rows is snapshot
    assert (snapshot.has_episodes, snapshot.further, snapshot.steps.further) == (False, None, None)


def test_a_number_that_all_samples_of_a_step_share_is_a_counter_and_no_episode(tmp_path: Path) -> None:
    """TRL's PPO logs how many episodes there were so far."""
    rows = [
        {"step": 1, "episode": 64, "prompt": "p", "response": f"{i}", "reward": float(i)} for i in range(4)
    ]
    append(tmp_path / "rank_0.jsonl", encoded(rows))
    snapshot = look(RunIndex(tmp_path, "run"))
    assert (snapshot.episodes, RunView(snapshot).step_values("reward").tolist()) == (4, [1.5])


def test_the_prompt_of_an_episode_is_that_of_its_first_row(tmp_path: Path) -> None:
    """Steps of a trajectory have ever longer prompts; without a group label, the first one groups them."""
    rows = []
    for episode, rewards in (("a", (0.0, 0.0, 1.0)), ("b", (0.0, 0.0)), ("c", (0.0, 1.0))):
        for turn, reward in enumerate(rewards):
            prompt = "find the key" + "".join(f" {episode}{done}" for done in range(turn))
            rows.append({"step": 1, "episode": episode, "prompt": prompt, "response": f"{episode}{turn}",
                         "reward": reward})  # fmt: skip
    append(tmp_path / "rank_0.jsonl", encoded(rows))
    view = RunView(look(RunIndex(tmp_path, "run")))
    found = groups_of_run(view)
    assert found["samples"].tolist() == [3]
    assert found["reward_mean"].tolist() == pytest.approx([2 / 3])
    assert view.by_rows.step_values("reward").tolist() == pytest.approx([2 / 7])


def test_an_empty_episode_is_none(tmp_path: Path) -> None:
    """rLLM writes documents without an id, too."""
    rows = [
        {"step": 1, "episode": "", "group": "g", "prompt": "p", "response": f"{i}", "reward": float(i)}
        for i in range(4)
    ]
    append(tmp_path / "rank_0.jsonl", encoded(rows))
    snapshot = look(RunIndex(tmp_path, "run"))
    assert (snapshot.episodes, RunView(snapshot).step_values("reward").tolist()) == (4, [1.5])
