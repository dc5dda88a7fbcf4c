"""Files that lack a key of a known format, and files of writers that are newer than those tested."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.settings import Reading
from rlpanel.sources.adapters import ADAPTERS
from rlpanel.sources.discovery.content_format import VERSIONS, lacking_key
from rlpanel.sources.discovery.diagnose import diagnose
from rlpanel.sources.discovery.directory import Directory
from rlpanel.store.index.run_index import RunIndex

UPSTREAM = Path(__file__).parents[3] / "data" / "upstream"
VERL = {"input": "q", "output": "a", "score": 1.0, "step": 1}


def write(path: Path, *lines: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_file_without_a_key_is_named_beside_the_files_that_are_read(tmp_path: Path) -> None:
    write(tmp_path / "1.jsonl", VERL)
    write(tmp_path / "2.jsonl", {key: value for key, value in VERL.items() if key != "score"})
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.snapshot.rows == 1
        assert run.unread[["file", "reason"]].values.tolist() == [
            ["2.jsonl", "is not read: it looks like a log of verl, but has no 'score'"]
        ]


def test_a_folder_with_such_a_file_alone_says_so_too(tmp_path: Path) -> None:
    write(tmp_path / "2.jsonl", {"input": "q", "score": 1.0, "step": 1})
    (seen,) = diagnose(Directory(tmp_path)).seen
    assert seen.what == "looks like a log of verl, but has no 'output'"


@pytest.mark.parametrize(
    "line",
    [
        {"query": "q", "response": "a", "reward": 1.0, "rewards/correct": 1.0},  # NeMo Gym lacks more
        {"task_id": "t", "prompt": "p", "completion": "c", "passed": True},  # AReaL without its version
        {"question": "q", "output": "a", "score": 1.0, "step": 1},  # verl without its input
    ],
)
def test_keys_that_other_programs_write_too_are_inferred(tmp_path: Path, line: dict[str, Any]) -> None:
    write(tmp_path / "log.jsonl", line)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples()["reward"].tolist() == [1.0]


def test_a_file_that_gets_the_key_is_read(tmp_path: Path) -> None:
    write(tmp_path / "1.jsonl", VERL)
    write(tmp_path / "2.jsonl", {"input": "q", "output": "a", "step": 2})
    index = RunIndex(tmp_path, "run", Reading())
    index.rescan()
    index.read()
    assert len(index.snapshot.unread) == 1
    write(tmp_path / "2.jsonl", VERL | {"step": 2})
    index.rescan()
    index.read()
    assert (index.snapshot.rows, index.snapshot.unread) == (2, ())


@pytest.mark.parametrize(
    "document",
    [
        {"instruction": "i", "input": "q", "output": "a"},  # a data set
        {"prompt": "p", "completion": "c"},
        {"prompt": "p", "response": "r"},
        {"step": 1, "loss": 0.5, "reward": 0.1},
        {"responses_create_params": {"input": []}, "agent_ref": {}},  # what NeMo Gym was asked
        {"trajectory_path": "0-0.json", "_ng_task_index": 0},
        {"version": 1, "status": "ok"},
        {},
    ],
)
def test_other_files_beside_a_log_are_not_taken_for_one(document: dict[str, Any]) -> None:
    assert lacking_key(document) == ""


@pytest.mark.parametrize("folder", sorted(path.name for path in UPSTREAM.iterdir()))
def test_no_file_that_a_trainer_writes_beside_its_log_is_named(folder: str) -> None:
    directory = Directory(UPSTREAM / folder)
    for info in directory.runs():
        assert directory.find_files(info.path)[1] == []


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("ATIF-v1.8", []),
        ("ATIF-v1.7", []),
        ("ATIF-v1.9", ["written by ATIF 1.9; the newest tested version is 1.8"]),
        ("ATIF-v1.10", ["written by ATIF 1.10; the newest tested version is 1.8"]),
    ],
)
def test_a_writer_that_is_newer_than_tested_is_said(tmp_path: Path, version: str, said: list[str]) -> None:
    shutil.copytree(UPSTREAM / "atif-gym-0.7.0", tmp_path / "run")
    path = tmp_path / "run" / "0-0.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": version}))
    with rlpanel.open_run(tmp_path / "run", follow=False) as run:
        assert [*run.snapshot.newer_writers] == said
        assert not len(run.unread)


@pytest.mark.parametrize("adapter", sorted(VERSIONS))
def test_the_files_of_the_tested_versions_tell_theirs(adapter: str) -> None:
    """Otherwise the place of the version has changed, and a newer one would not be noticed."""
    known = VERSIONS[adapter]
    folders = {
        "ATIF": "atif-gym-0.7.0/0-0.json",
        "prime-rl": "verifiers-0.4.0/evaluation/traces.jsonl",
        "tinker-cookbook": "tinker-cookbook-9dfcc3a2/iteration_000000/train_rollout_summaries.jsonl",
        "Inspect": "inspect-0.3.285/json/2026-11-27T02-52-25-00-00_sums_8c7jD2oMrTUDLMn5kA6gaH.json",
    }
    path = UPSTREAM / folders[adapter]
    text = path.read_text()
    document = json.loads(text if path.suffix == ".json" else text.splitlines()[0])
    assert known.version_of(document)
    assert adapter in {each.name for each in ADAPTERS}
