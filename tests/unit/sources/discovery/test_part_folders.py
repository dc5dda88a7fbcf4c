"""Folders that are named after a step or a rank are parts of one run, whatever trainer wrote their lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.settings import Reading
from rlpanel.sources.discovery.directory import Directory, discover
from rlpanel.sources.records.path_numbers import epoch_from_path, named_step, rank_of, step_from_path
from rlpanel.store.index.reader import Reader
from tests.plain_reader import FOLDER
from tests.waiting import wait_until

NATIVE: dict[str, Any] = {"prompt": "2+2?", "response": "4", "reward": 1.0}
#: Lines of an unknown format.
ODD: dict[str, Any] = {"q": "2+2?", "a": "4", "mark": 1.0}
MAP = "prompt=q,response=a,reward=mark"
VERL: dict[str, Any] = {"input": "2+2?", "output": "4", "score": 1.0}


def put(path: Path, *documents: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))


def names(root: Path) -> list[tuple[str, int]]:
    return sorted((info.name, info.files) for info in discover(root))


def rows(folder: Path) -> list[tuple[int, int]]:
    with rlpanel.open_run(folder, follow=False) as run:
        frame = run.samples()
        return sorted(zip(frame["step"].tolist(), frame["rank"].tolist(), strict=True))


@pytest.mark.parametrize(
    ("path", "step"),
    [
        ("step_12/log.jsonl", 12),
        ("global_step_7/x.jsonl", 7),
        ("step=30/part-0.parquet", 30),
        ("checkpoint-12/log.jsonl", 12),
        ("ckpt_4.jsonl", 4),
        ("epoch_3/log.jsonl", 3),
        ("iter_5/log.jsonl", 5),
        ("Iteration-6/log.jsonl", 6),
        ("rollout_3/log.jsonl", 3),
        ("rollouts_0009.jsonl.gz", 9),
        ("0001.jsonl", 1),
        ("epoch_2/step_5/rank_0/3.jsonl", 5),
        ("epoch_2/3.jsonl", 3),
        ("checkpoint-12/0.jsonl", 12),
        ("rank_3/log.jsonl", None),
        ("rollouts_20260501.jsonl", None),
        ("rollouts_2026-05-01.jsonl", None),
        ("rollout_data_rank_0.jsonl", None),
        ("exp2/log.jsonl", None),
    ],
)
def test_one_table_says_which_step_a_path_names(path: str, step: int | None) -> None:
    assert step_from_path(path) == step


@pytest.mark.parametrize(
    ("path", "of_many", "of_one"),
    [
        ("step_12/log.jsonl", 12, 12),
        ("eval_global_step_12_rank_0/log.jsonl", 12, 12),
        ("iter_000010/log.jsonl", 10, 10),
        ("checkpoint-12/log.jsonl", 12, 12),
        ("run_step_12.jsonl", 12, None),
        ("12.jsonl.gz", 12, None),
        ("12.json", None, None),
        ("step_3/12.json", 3, 3),
        ("tool-calling-step-2-16k.json", None, None),
        ("rollout_3/log.jsonl", None, None),
        ("run-0.json", None, None),
        ("trial_0/log.jsonl", None, None),
        ("trial/steps/step_2/agent/trajectory.json", None, None),
        ("step_4/step_3__abc/steps/step_2/agent/trajectory.json", 4, 4),
        ("step_4/trial/metadata/result.json", 4, 4),
    ],
)
def test_lines_without_a_step_take_that_of_sure_names_only(
    path: str, of_many: int | None, of_one: int | None
) -> None:
    found = named_step(path, is_one=False), named_step(path, is_one=True)
    assert found == (of_many, of_one)


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("rollout_data_rank_3.jsonl", 3),
        ("rank_2/log.jsonl", 2),
        ("step_9/worker-4/log.jsonl", 4),
        ("node_1/dp_0/gpu7/log.jsonl", 7),
        ("gpu1/log_rank0.jsonl", 0),
        ("step_9/log.jsonl", -1),
        ("gpus_8/log.jsonl", -1),
    ],
)
def test_a_rank_comes_from_the_file_and_else_from_the_innermost_folder(path: str, rank: int) -> None:
    assert rank_of(path) == rank


def test_an_epoch_comes_from_a_folder_or_the_file() -> None:
    found = [epoch_from_path(path) for path in ("epoch_2/step_5.jsonl", "log-epoch3.jsonl", "log.jsonl")]
    assert found == [2, 3, None]


@pytest.mark.parametrize(
    "folder", ["step_{}", "global_step_{}", "checkpoint-{}", "epoch_{}", "iter_{}", "rollout_{}"]
)
@pytest.mark.parametrize("document", [NATIVE, VERL], ids=["native", "verl"])
def test_folders_of_steps_are_one_run(tmp_path: Path, folder: str, document: dict[str, Any]) -> None:
    for step in (10, 20, 30):
        put(tmp_path / "exp" / folder.format(step) / "samples.jsonl", document, document)
    assert names(tmp_path) == [("exp", 3)]
    assert rows(tmp_path / "exp") == [(10, -1)] * 2 + [(20, -1)] * 2 + [(30, -1)] * 2


def documents_of(source: str) -> list[dict[str, Any]]:
    """Return the first documents of a public file, as lines."""
    [path, *_] = [path for path in sorted((FOLDER / source).rglob("*.json*")) if path.name != "metadata.json"]
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()][:2]
    found = json.loads(text)
    return (found["simulations"] if isinstance(found, dict) else found)[:2]


@pytest.mark.parametrize(
    "name",
    ["step_{}/log.jsonl", "checkpoint-{}/log.jsonl", "iter_{:06}/log.jsonl", "log_step_{}.jsonl", "{}.jsonl"],
)
@pytest.mark.parametrize(
    "source", ["atropos-rubiks", "nemo-gym-gpqa", "tau-bench", "tau2-bench", "verifiers-math-python"]
)
def test_formats_without_steps_take_those_of_names(tmp_path: Path, source: str, name: str) -> None:
    for step in (10, 20):
        put(tmp_path / "exp" / name.format(step), *documents_of(source))
    assert names(tmp_path) == [("exp", 2)]
    assert {step for step, _ in rows(tmp_path / "exp")} == {10, 20}


def test_groups_of_two_ranks_differ_although_their_files_have_one_name(tmp_path: Path) -> None:
    for rank in (0, 1):
        put(tmp_path / f"rank_{rank}" / "groups.jsonl", *documents_of("atropos-rubiks"))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples()["group"].nunique() == 4


def test_sessions_in_folders_of_steps_are_one_run(tmp_path: Path) -> None:
    session = (FOLDER / "codex-vault" / "rollout.jsonl").read_bytes()
    for step in (10, 20):
        path = tmp_path / "exp" / f"checkpoint-{step}" / "12.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(session)
    assert names(tmp_path) == [("exp", 2)]
    assert [step for step, _ in rows(tmp_path / "exp")] == [10, 20]


def test_mapped_lines_take_the_step_of_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPANEL_MAP", MAP)
    for step in (1, 2):
        put(tmp_path / f"step_{step}" / "samples.jsonl", ODD)
    assert rows(tmp_path) == [(1, -1), (2, -1)]


@pytest.mark.parametrize("folder", ["rank_{}", "worker_{}", "dp_{}", "gpu{}"])
def test_folders_of_ranks_are_one_run_with_their_ranks(tmp_path: Path, folder: str) -> None:
    for rank in (0, 1):
        put(tmp_path / folder.format(rank) / "log.jsonl", NATIVE | {"step": 4}, NATIVE | {"step": 5})
    assert names(tmp_path) == [(".", 2)]
    assert rows(tmp_path) == [(4, 0), (4, 1), (5, 0), (5, 1)]


def test_a_rank_in_the_line_comes_before_that_of_the_folder(tmp_path: Path) -> None:
    put(tmp_path / "worker_0" / "log.jsonl", NATIVE | {"step": 4, "rank": 6})
    assert rows(tmp_path) == [(4, 6)]


def test_ranks_in_steps_are_one_run(tmp_path: Path) -> None:
    for step in (1, 2):
        for rank in (0, 1):
            put(tmp_path / f"step_{step}" / f"rank_{rank}" / "log.jsonl", NATIVE)
    assert rows(tmp_path) == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_folders_of_two_experiments_are_two_runs(tmp_path: Path) -> None:
    for name in ("lr_1", "lr_2"):
        put(tmp_path / name / "step_1" / "log.jsonl", NATIVE)
        put(tmp_path / name / "step_2" / "log.jsonl", NATIVE)
    assert names(tmp_path) == [("lr_1", 2), ("lr_2", 2)]
    for name in ("seed_0", "run_2"):
        put(tmp_path / "plain" / name / "log.jsonl", NATIVE | {"step": 1})
    assert names(tmp_path / "plain") == [("run_2", 1), ("seed_0", 1)]


def test_a_folder_that_is_opened_itself_is_the_run(tmp_path: Path) -> None:
    for step in (1, 2):
        put(tmp_path / f"step_{step}" / "log.jsonl", NATIVE | {"step": step})
    assert rows(tmp_path / "step_2") == [(2, -1)]


def test_evaluations_in_folders_of_steps_are_a_split(tmp_path: Path) -> None:
    put(tmp_path / "step_5" / "train" / "log.jsonl", NATIVE)
    put(tmp_path / "step_5" / "eval" / "log.jsonl", NATIVE, NATIVE)
    put(tmp_path / "step_6" / "eval_samples.jsonl", NATIVE)
    put(tmp_path / "step_6" / "train_samples.jsonl", NATIVE)
    assert names(tmp_path) == [(".", 4)]
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.snapshot.splits == {"train": 2, "eval": 3}


def test_texts_beside_a_step_in_the_path_need_a_reward(tmp_path: Path) -> None:
    put(tmp_path / "step_1" / "pairs.jsonl", {"prompt": "a", "response": "b"})
    assert Directory(tmp_path, Reading()).runs() == []


def test_a_new_folder_of_a_step_is_followed(tmp_path: Path) -> None:
    put(tmp_path / "step_1" / "log.jsonl", NATIVE)
    reader = Reader(Reading(rescan_interval=600.0))
    index = reader.open(tmp_path)
    for step in (2, 3):
        wait_until(lambda step=step: index.snapshot.rows == step - 1)
        put(tmp_path / f"step_{step}" / "log.jsonl", NATIVE)
    wait_until(lambda: index.snapshot.steps.values.tolist() == [1, 2, 3])
    reader.close(index)
    reader.stop()
