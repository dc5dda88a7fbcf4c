"""Hard cases of trainers whose files were recorded: files beside each other, and written again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.store.index.run_index import RunIndex
from tests.factories import rewrite

UPSTREAM = Path(__file__).parents[3] / "data" / "upstream"


def counts(run: rlpanel.Run) -> dict[str, dict[int, int]]:
    """Number of samples by split and step of a run without bad lines."""
    assert run.errors.empty
    assert run.unread.empty
    return {name: run.split(name).samples().groupby("step").size().to_dict() for name in run.splits}


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(UPSTREAM / name, folder / "run"))


@pytest.mark.case("NeMo-RL", "evaluation")
def test_a_nemo_validation_at_the_step_of_training_is_eval(tmp_path: Path) -> None:
    folder = copied("nemo-rl-7ea279abf", tmp_path)
    shutil.copy(folder / "train_data_step2.jsonl", folder / "val_data_step2.jsonl")
    with rlpanel.open_run(folder, follow=False) as run:
        found = counts(run)
    assert found["eval"] == {2: found["train"][2]}
    assert found["train"].keys() == {1, 2, 3}


@pytest.mark.case("NeMo-RL", "resume")
@pytest.mark.case("miles", "resume")
@pytest.mark.case("ROLL, agentic", "resume")
@pytest.mark.parametrize(
    ("recorded", "file"),
    [
        ("nemo-rl-7ea279abf", "train_data_step3.jsonl"),
        ("miles-31f1ca961", "trajectory/0.jsonl"),
        ("roll-8eb27cc2/agentic_native", "rollout_dump_data.step_3.jsonl"),
    ],
)
def test_a_step_that_a_resumed_run_writes_again_replaces_the_lost_one(
    tmp_path: Path, recorded: str, file: str
) -> None:
    """The lost step had more samples."""
    folder = copied(recorded, tmp_path)
    expected = read(RunIndex(folder, "run"))
    text = (folder / file).read_bytes()
    (folder / file).write_bytes(text + text.replace(b"4", b"5"))
    index = RunIndex(folder, "run")
    lost = read(index)
    rewrite(folder / file, text)
    assert lost > expected
    assert read(index) == expected


def read(index: RunIndex) -> int:
    """Number of the living rows after another look at the folder."""
    index.rescan()
    while index.read():
        pass
    return len(index.snapshot.alive_rows)


@pytest.mark.case("NeMo Gym", "resume")
def test_a_gym_failure_that_was_tried_again_does_not_enter_the_mean(tmp_path: Path) -> None:
    """The sidecar keeps the failure; the main file has the rollout of the second try."""
    line: dict[str, Any] = {
        "responses_create_params": {"input": "2 + 2?"}, "reward": 1.0,
        "response": {"output": [], "incomplete_details": None},
        "_ng_task_index": 3, "_ng_rollout_index": 1,
    }  # fmt: skip
    failed = {"_ng_task_index": 3, "_ng_rollout_index": 1, "_ng_failure_class": "agent_run_error"}
    (tmp_path / "rollouts.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "rollouts_failures.jsonl").write_text(json.dumps(failed) + "\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.split("train").steps["reward_mean"].tolist() == [1.0]
        assert counts(run) == {"train": {0: 1}, "discarded": {0: 1}}


@pytest.mark.case("ROLL, agentic", "data sets")
def test_environments_of_rolls_agents_are_told_apart(tmp_path: Path) -> None:
    folder = copied("roll-8eb27cc2/agentic_native", tmp_path)
    path = folder / "rollout_dump_data.step_3.jsonl"
    line = json.loads(path.read_text("utf-8"))
    first, *others = map(json.loads, line["trajectory_data"])
    first["env_info"]["tag"] = "other"
    line["trajectory_data"] = list(map(json.dumps, [first, *others]))
    path.write_text(json.dumps(line) + "\n", "utf-8")
    with rlpanel.open_run(folder, follow=False) as run:
        frames = [run.split(name).samples() for name in run.splits]
    tags = [tag for frame in frames for tag in frame["env"]]
    assert tags.count("other") == 1
    assert len(set(tags)) == 2


@pytest.mark.case("ROLL", "data sets")
def test_data_sets_of_roll_are_told_apart() -> None:
    with rlpanel.open_run(UPSTREAM / "roll-8eb27cc2/rlvr", follow=False) as run:
        assert set(run.samples()["domain"]) == {"math_rule", "llm_judge"}


@pytest.mark.case("open-instruct", "ranks")
def test_shards_of_open_instruct_are_one_run() -> None:
    with rlpanel.open_run(UPSTREAM / "open-instruct-e6c3044aa", follow=False) as run:
        assert counts(run) == {"train": {1: 4, 2: 4}}
        assert {run.sample(uid).file for uid in run.samples()["uid"]} == {
            "demo__1_rollouts_000000.jsonl", "demo__1_rollouts_000001.jsonl",
        }  # fmt: skip
