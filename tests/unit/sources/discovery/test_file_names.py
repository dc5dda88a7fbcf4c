"""The name of a file tells whether it may hold rollouts, and is shown even if it is no text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlpanel.sources.discovery.directory import Directory
from rlpanel.sources.discovery.file_names import is_rollout_name, is_searchable_name, relative_name
from tests.factories import append, line


@pytest.mark.parametrize(
    ("name", "rollouts"),
    [
        ("12.jsonl", True),
        ("12.jsonl.gz", True),
        ("12.parquet", True),
        (".12.jsonl", False),
        ("12.json", False),
        ("jsonl", False),
    ],
)
def test_the_ending_tells_what_may_hold_rollouts(name: str, rollouts: bool) -> None:
    assert is_rollout_name(name) == rollouts


@pytest.mark.parametrize(
    ("name", "searched"),
    [("run", True), ("", False), (".rlpanel", False), (".art", True), (".artx", False),
     ("__pycache__", False), (os.fsdecode(b"\xff"), False)],
)  # fmt: skip
def test_hidden_folders_and_names_that_are_no_text_are_not_searched(name: str, searched: bool) -> None:
    assert is_searchable_name(name) == searched


def test_a_name_below_a_folder_is_relative_to_it() -> None:
    assert relative_name("/a/b/c.jsonl", "/a") == "b/c.jsonl"


def test_a_file_name_that_is_no_text_is_shown_with_escapes(tmp_path: Path) -> None:
    append(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")), line(1))
    assert [found.name for found in Directory(tmp_path).files(tmp_path)] == ["\\xff.jsonl"]
