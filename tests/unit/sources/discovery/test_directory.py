"""Runs are the folders that hold rollout files; each is listed with what its folder tells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlpanel.errors import RunNotFound
from rlpanel.sources.discovery.directory import Directory, discover
from tests.factories import write_run


def names(root: Path) -> list[str]:
    return sorted(info.name for info in discover(root))


def test_the_root_itself_may_be_a_run(tmp_path: Path) -> None:
    write_run(tmp_path / "alone")
    assert [(info.name, info.label) for info in discover(tmp_path / "alone")] == [(".", "alone")]


def test_the_newest_run_comes_first(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "old"]):
        os.utime(write_run(tmp_path / name) / "rollout_data_rank_0.jsonl", (0, 1000 - age))
    assert [info.name for info in discover(tmp_path)] == ["new", "old"]


def test_a_run_tells_its_files_and_bytes(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", ranks=3)
    (info,) = discover(tmp_path)
    assert (info.files, info.bytes) == (3, sum(path.stat().st_size for path in folder.iterdir()))


def test_a_root_that_is_no_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match="is not a folder"):
        discover(tmp_path / "nowhere")


def test_an_empty_root_has_no_runs(tmp_path: Path) -> None:
    assert discover(tmp_path) == []


@pytest.mark.parametrize("name", ["..", "../outside", "/", "nothing", "a\0b", "x" * 5000])
def test_a_run_named_in_a_url_lies_below_the_root(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "outside")
    write_run(tmp_path / "root" / "a")
    with pytest.raises(RunNotFound):
        Directory(tmp_path / "root").run_path(name)


def test_a_run_is_found_by_its_name(tmp_path: Path) -> None:
    write_run(tmp_path / "group" / "123")
    assert Directory(tmp_path).run_path("group/123") == (tmp_path / "group" / "123").resolve()
