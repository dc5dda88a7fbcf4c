"""JSON documents beside a run: which of them are opened, and what a mapping of the user changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.settings import Reading
from rlpanel.sources.discovery.diagnose import diagnose
from rlpanel.sources.discovery.directory import Directory
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from tests.factories import write_run
from tests.waiting import wait_until

NATIVE = {"step": 1, "prompt": "p", "response": "r", "reward": 0.5}
ODD = {"question": "2 + 2?", "answer": "4", "mark": 0.5, "iteration": 3}
MAP = "prompt=question,response=answer,reward=mark,step=iteration"
MAPPED = Reading(map=MAP)


def put(path: Path, document: dict[str, Any] | list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2))


def names(root: Path, reading: Reading | None = None) -> list[tuple[str, int]]:
    return sorted((info.name, info.files) for info in Directory(root, reading or Reading()).runs())


def test_a_document_of_any_name_is_read_if_a_format_accepts_it(tmp_path: Path) -> None:
    put(tmp_path / "a" / "sample.json", NATIVE)
    put(tmp_path / "b" / "config.json", {"lr": 1e-6, "prompt": "p"})
    assert names(tmp_path) == [("a", 1)]


def test_documents_beside_a_log_are_left_alone(tmp_path: Path) -> None:
    """They may be a summary of the log or a copy of it."""
    write_run(tmp_path)
    put(tmp_path / "best.json", NATIVE)
    assert names(tmp_path) == [(".", 1)]


def test_a_checkpoints_documents_are_not_read(tmp_path: Path) -> None:
    put(tmp_path / "checkpoint-1" / "sample.json", NATIVE)
    (tmp_path / "checkpoint-1" / "model.safetensors").write_bytes(b"")
    assert names(tmp_path) == []


def test_of_many_documents_that_hold_no_rollouts_only_the_first_are_looked_at(tmp_path: Path) -> None:
    for number in range(299):
        put(tmp_path / f"{number:03}.json", {"image": number})
    put(tmp_path / "299.json", NATIVE)
    directory = Directory(tmp_path, Reading())
    assert directory.runs() == []
    _, unread = directory.find_files(tmp_path)
    assert [each.reason for each in unread] == [
        "44 more documents and tables: the first 256 hold no rollouts"
    ]
    (tmp_path / "000.json").unlink()
    put(tmp_path / "255.json", NATIVE)
    assert names(tmp_path) == [(".", 2)]


def test_a_run_is_listed_while_its_first_document_is_written(tmp_path: Path) -> None:
    (tmp_path / "episode_hash0_id0.json").write_text('{"training_step": 1, "task"')
    assert names(tmp_path) == [(".", 1)]


def test_a_document_with_a_formats_name_and_other_content_is_no_rollout(tmp_path: Path) -> None:
    write_run(tmp_path)
    put(tmp_path / "episode_000001_x.json", {"frames": [1, 2], "task": "pick"})
    index = RunIndex(tmp_path, "run")
    index.rescan()
    index.read()
    assert (names(tmp_path), index.snapshot.problems, index.snapshot.bad_lines) == ([(".", 1)], (), ())


def test_a_mapping_reads_documents_of_any_name(tmp_path: Path) -> None:
    put(tmp_path / "out" / "sample_1.json", ODD)
    put(tmp_path / "out" / "sample_2.json", ODD | {"iteration": 4})
    put(tmp_path / "out" / "config.json", {"lr": 1e-6})
    assert names(tmp_path, MAPPED) == [("out", 2)]
    index = RunIndex(tmp_path / "out", "out", MAPPED)
    index.rescan()
    index.read()
    frame = index.view.frame(index.snapshot.alive_rows)
    assert frame[["step", "reward"]].values.tolist() == [[3, 0.5], [4, 0.5]]
    assert index.snapshot.problems == ()


def test_a_mapping_in_the_folder_reads_documents_there_only(tmp_path: Path) -> None:
    for folder in ("mine", "other"):
        put(tmp_path / folder / "sample.json", ODD)
    mapping = 'prompt = "question"\nresponse = "answer"\nstep = "iteration"\n'
    (tmp_path / "mine" / "rlpanel.toml").write_text(f"[map]\n{mapping}")
    assert names(tmp_path) == [("mine", 1)]


@pytest.mark.parametrize("part", ["model.safetensors", "pytorch_model.bin", "0.pt", "tokenizer.json"])
def test_a_mapping_opens_no_document_of_a_checkpoint(tmp_path: Path, part: str) -> None:
    put(tmp_path / "checkpoint-1" / "sample.json", ODD)
    before = names(tmp_path, MAPPED)
    (tmp_path / "checkpoint-1" / part).write_bytes(b"{}")
    assert (before, names(tmp_path, MAPPED)) == ([(".", 1)], [])


def test_a_rewritten_document_of_a_mapped_run_is_read_live(tmp_path: Path) -> None:
    reader = Reader(Reading(map=MAP, rescan_interval=600.0))
    index = reader.open(tmp_path)
    rewards: list[float] = []

    def shown() -> bool:
        frame = index.view.frame(index.snapshot.alive_rows)
        return "reward" in frame and frame["reward"].tolist() == rewards

    for mark in (0.25, 0.75, 1.0):
        rewards[:] = [mark]
        put(tmp_path / "sample.json", ODD | {"mark": mark})
        wait_until(shown)
    reader.close(index)
    reader.stop()


def test_a_folder_of_documents_says_how_they_are_read(tmp_path: Path) -> None:
    put(tmp_path / "sample.json", ODD)
    put(tmp_path / "episode_hash0_id0.json", ODD)
    seen = {file.name: file.what for file in diagnose(Directory(tmp_path, Reading())).seen}
    assert seen == {
        "sample.json": "a document with 'question', 'answer', 'mark', 'iteration'",
        "episode_hash0_id0.json": "a document with 'question', 'answer', 'mark', 'iteration'",
    }


def test_rllms_folders_may_be_opened_one_by_one(tmp_path: Path) -> None:
    episode = {
        "training_step": 2, "task": "q", "task_hash": "h", "termination_reason": None, "is_correct": True,
        "trajectories": [{"name": "a", "reward": 1.0, "steps": []}],
    }  # fmt: skip
    folder = tmp_path / "exp" / "episodes" / "train_step_2_epoch_0"
    put(folder / "episode_hashh_idq_0.json", episode)
    put(folder / "batch_summary.json", {"training_step": 2})
    opened = [tmp_path, tmp_path / "exp", tmp_path / "exp" / "episodes", folder]
    found = [[info.name for info in rlpanel.discover(each)] for each in opened]
    assert found == [["exp"], ["."], ["."], ["."]]


def test_a_packed_log_beside_readable_ones_is_named_with_the_command_that_unpacks_it(tmp_path: Path) -> None:
    line = '{"step": 1, "prompt": "p", "response": "r", "reward": 1.0}\n'
    (tmp_path / "rollout_data_rank_0.jsonl").write_text(line)
    (tmp_path / "rollout_data_rank_0.jsonl.xz").write_bytes(b"\xfd7zXZ")  # a copy of what is read
    (tmp_path / "rollout_data_rank_1.jsonl.xz").write_bytes(b"\xfd7zXZ")
    (tmp_path / "model.xz").write_bytes(b"\xfd7zXZ")
    files, unread = Directory(tmp_path).find_files(tmp_path)
    assert len(files) == 1
    said = "packed, which is not read: xz -dk rollout_data_rank_1.jsonl.xz"
    assert [(each.file, each.reason) for each in unread] == [("rollout_data_rank_1.jsonl.xz", said)]
