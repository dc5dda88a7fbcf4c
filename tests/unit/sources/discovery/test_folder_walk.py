"""The walk visits the folders below the root, and passes over hidden ones and those it cannot list."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlpanel.sources.discovery.diagnose import diagnose
from rlpanel.sources.discovery.directory import Directory, discover
from rlpanel.sources.discovery.folder_walk import FolderWalk
from tests.factories import write_run
from tests.unit.sources.readers.faults import public_folder, unreadable


def names(root: Path) -> list[str]:
    return sorted(info.name for info in discover(root))


def test_runs_lie_at_any_depth(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    write_run(tmp_path / "group" / "b" / "c")
    assert names(tmp_path) == ["a", "group/b/c"]


def test_hidden_folders_and_caches_are_passed_over(tmp_path: Path) -> None:
    for name in (".git", "__pycache__", "node_modules"):
        write_run(tmp_path / name)
    assert names(tmp_path) == []


def test_links_count_while_they_stay_below_the_root(tmp_path: Path) -> None:
    inside, outside = write_run(tmp_path / "root" / "store"), write_run(tmp_path / "outside")
    (tmp_path / "root" / "a").mkdir()
    (tmp_path / "root" / "a" / "in.jsonl").symlink_to(inside / "rollout_data_rank_0.jsonl")
    (tmp_path / "root" / "a" / "out.jsonl").symlink_to(outside / "rollout_data_rank_0.jsonl")
    (tmp_path / "root" / "a" / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "root" / "b").symlink_to(outside)
    assert [(info.name, info.files) for info in discover(tmp_path / "root")] == [("a", 1), ("store", 1)]


def test_a_folder_name_that_is_no_text_is_passed_over(tmp_path: Path) -> None:
    write_run(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")))
    assert names(tmp_path) == []


def test_a_folder_that_may_not_be_read_hides_only_itself() -> None:
    with public_folder() as root:
        write_run(root / "a")
        write_run(root / "secret")
        with unreadable(root / "secret"):
            assert names(root) == ["a"]


@pytest.mark.parametrize("name", ["group", "group/inner"])
def test_a_name_below_the_root_keeps_the_tree_of_the_root(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    walk = FolderWalk(str(tmp_path), follow=True)
    assert walk.resolve_name(name) == (str(tmp_path / name), walk.tree)


@pytest.fixture
def endless() -> Iterator[Path]:
    """A folder that holds more levels of folders than Python's stack has room for.

    It is not in pytest's folder, because pytest deletes that recursively.
    """
    made = Path(tempfile.mkdtemp())
    place = os.open(made, os.O_RDONLY)
    for _ in range(1800):
        os.mkdir("d", dir_fd=place)
        above, place = place, os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(above)
    os.close(place)
    yield made
    subprocess.run(["rm", "-rf", made], check=True)


def test_folders_nested_without_end_hide_nothing(endless: Path) -> None:
    write_run(endless / "run")
    directory = Directory(endless)
    assert [run.name for run in directory.runs()] == ["run"]
    assert directory.left_out[0].file.startswith("d/d/d/")
    assert directory.left_out[0].reason == "more than 64 folders deep"
    assert diagnose(directory).title == "No rollout log here"
