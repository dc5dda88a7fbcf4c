"""Columnar lines of ms-swift and ROLL, and the lines of one sample that ms-swift on Ray writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlpanel.store.index.run_index import RunIndex
from tests.factories import append
from tests.unit.sources.adapters.test_adapters import ROLL, SWIFT, lines, read, rewards


def test_swifts_line_is_its_samples_and_the_reward_their_sum(tmp_path: Path) -> None:
    append(tmp_path / "completions.jsonl", lines(SWIFT))
    with read(tmp_path) as run:
        frame = run.samples(text=True)
        last = run.sample(frame["uid"][2])
    wanted = pd.DataFrame({key: SWIFT[key] for key in ("prompt", "completion", "format", "accuracy")})
    assert frame["prompt"].tolist() == wanted["prompt"].tolist()
    assert frame["response"].tolist() == wanted["completion"].tolist()
    np.testing.assert_array_equal(
        frame["reward"], wanted[["format", "accuracy"]].astype(float).sum(axis=1, min_count=1)
    )
    assert frame["rewards/format"].tolist()[:2] == [1.0, 0.0]
    assert frame["logged_entropy"].tolist() == SWIFT["entropy"]
    assert (last.step, last.response, last.advantage) == (3, "c", 0.0)


def test_swift_appends_a_line_a_step(tmp_path: Path) -> None:
    append(tmp_path / "completions.jsonl", lines(SWIFT))
    index = RunIndex(tmp_path, "run")
    before = rewards(index)
    append(tmp_path / "completions.jsonl", lines({**SWIFT, "step": ["4"] * 3, "format": [2, 2, 2]}))
    assert [step for step, _ in before] == [3, 3, 3]
    assert rewards(index)[-3:] == [(4, 2.0), (4, 2.25), (4, 2.5)]


def test_roll_is_read_and_a_step_written_again_replaces_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "rollout_dump_data.step_7.jsonl"
    path.write_bytes(lines(ROLL))
    index = RunIndex(tmp_path, "run")
    before = rewards(index)
    path.write_bytes(lines({**ROLL, "scores": [0.25, 0.75]}))
    assert (before, rewards(index)) == ([(7, 0.0), (7, 1.0)], [(7, 0.25), (7, 0.75)])
    snapshot = index.snapshot
    assert snapshot.label("domain", snapshot.alive_rows) == ["math", "code"]


RAY = {"gen_step": 0, "prompt": "p", "completion": "c"}
MEGATRON = {"gen_step": [0, 0], **{key: values[:2] for key, values in SWIFT.items() if key != "step"}}


def test_swift_on_megatron_counts_generations(tmp_path: Path) -> None:
    append(tmp_path / "completions.jsonl", lines(MEGATRON, {**MEGATRON, "gen_step": [1, 1]}))
    with read(tmp_path) as run:
        frame = run.samples(text=True)
    columns = ["step", "response", "rewards/format", "rewards/accuracy", "reward", "advantage"]
    assert frame[columns].values.tolist() == [
        [step, *row] for step in (0, 1) for row in (["a", 1.0, 0.5, 1.5, 1.0], ["b", 0.0, 0.25, 0.25, -1.0])
    ]


def test_swift_on_ray_writes_a_line_per_sample(tmp_path: Path) -> None:
    rows = [
        {"gen_step": step, "prompt": "p", "completion": f"c{step}{at}", "reward": at / 2}
        for step in (0, 1)
        for at in (0, 1)
    ]
    append(tmp_path / "completions.jsonl", lines(*rows, {"gen_step": 2, "prompt": "p", "completion": ""}))
    with read(tmp_path) as run:
        frame = run.samples(text=True)
        sample = run.sample(frame["uid"][3])
    assert frame["step"].tolist() == [0, 0, 1, 1, 2]
    assert frame["response"].tolist() == ["c00", "c01", "c10", "c11", ""]
    np.testing.assert_array_equal(frame["reward"], [0.0, 0.5, 0.0, 0.5, np.nan])
    assert (sample.prompt, sample.response, sample.line, sample.extra) == ("p", "c11", 4, {})


def test_a_native_line_with_a_generation_step_stays_native(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", lines({"step": 5, "gen_step": 3, "prompt": "p", "completion": "c"}))
    with read(tmp_path) as run:
        assert run.samples()[["step", "gen_step"]].values.tolist() == [[5, 3.0]]


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        (MEGATRON, {**MEGATRON, "gen_step": [0]}, "lists of unequal length: 'gen_step' 1, 'prompt' 2"),
        (MEGATRON, {**MEGATRON, "gen_step": ["x", "y"]}, "'step' is not an integer: 'x'"),
        (RAY, {"gen_step": None, "prompt": "p"}, "'step' is not an integer: None"),
        (RAY, {"gen_step": 0, "reward": 0.5}, "neither 'prompt' nor 'completion'"),
        (RAY, {"prompt": "p", "completion": "c"}, "no 'gen_step'"),
    ],
)
def test_a_bad_line_of_swift_hides_no_good_one(
    tmp_path: Path, good: dict[str, object], bad: dict[str, object], reason: str
) -> None:
    append(tmp_path / "completions.jsonl", lines(good, bad, good))
    with read(tmp_path) as run:
        assert run.errors["line"].tolist() == [2]
        assert run.errors["reason"][0].startswith(reason)
        assert run.stats().rows in (2, 4)
