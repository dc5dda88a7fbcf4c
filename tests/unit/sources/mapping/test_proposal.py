"""The file of a folder that is proposed, and the files that are passed over."""

from __future__ import annotations

import json
import os
from pathlib import Path

from rlpanel.sources.files.file_access import path_of
from rlpanel.sources.mapping.first_records import known_format, propose, propose_for_folder, read_first
from tests.factories import append, write_run

SAMPLE = {"question": "q", "completion": "a", "passed": True}


def names(folder: Path) -> tuple[list[str], str]:
    files, proposal = propose_for_folder(path_of(folder))
    return [file.name for file in files], proposal.first.file.name if proposal else ""


def test_the_first_file_that_looks_like_rollouts_is_proposed(tmp_path: Path) -> None:
    append(tmp_path / "a.jsonl", b'{"lr": 0.1}\n')
    append(tmp_path / "b.jsonl", json.dumps(SAMPLE).encode() + b"\n")
    append(tmp_path / "c.jsonl", json.dumps(SAMPLE).encode() + b"\n")
    assert names(tmp_path) == (["a.jsonl", "b.jsonl", "c.jsonl"], "b.jsonl")


def test_a_document_is_offered_only_if_it_is_a_sample(tmp_path: Path) -> None:
    append(tmp_path / "config.json", b'{"password": "secret", "model": "m"}\n')
    append(tmp_path / "result.json", json.dumps(SAMPLE).encode())
    assert names(tmp_path) == (["result.json"], "result.json")


def test_documents_that_are_too_large_together_are_not_read(tmp_path: Path) -> None:
    append(tmp_path / "a.json", json.dumps(SAMPLE).encode())
    os.truncate(tmp_path / "a.json", 65 << 20)
    append(tmp_path / "b.json", json.dumps(SAMPLE).encode())
    assert names(tmp_path) == (["b.json"], "b.json")


def test_a_folder_without_records_has_no_proposal(tmp_path: Path) -> None:
    append(tmp_path / "empty.jsonl", b"")
    append(tmp_path / "broken.jsonl", b"{nonsense\n")
    assert names(tmp_path) == (["broken.jsonl", "empty.jsonl"], "")


def test_the_step_is_a_number_only_if_nothing_names_one(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", json.dumps(SAMPLE).encode() + b"\n")
    append(tmp_path / "step_3.jsonl", json.dumps(SAMPLE).encode() + b"\n")
    files, _ = propose_for_folder(path_of(tmp_path))
    assert [propose(read_first(file)).keys.get("step") for file in files] == [0, None]


def test_known_formats_are_named_and_guesses_are_not(tmp_path: Path) -> None:
    write_run(tmp_path / "run", steps=1, samples=1)
    append(tmp_path / "run" / "log.jsonl", json.dumps(SAMPLE).encode() + b"\n")
    files, _ = propose_for_folder(path_of(tmp_path / "run"))
    assert {file.name: known_format(file) for file in files} == {
        "log.jsonl": "",
        "rollout_data_rank_0.jsonl": "native",
    }
