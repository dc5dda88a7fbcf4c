"""A run of many files: a round's work depends on what changed, not on the number of files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from rlpanel.sources.adapters.native import Native
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.store.index.run_files import RunFiles
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line

LINE = line(1, tokens=False)


def calls(work: Callable[[], object]) -> int:
    """Return how many functions, of Python or C, some work calls."""
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def write_files(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        append(folder / f"rollout_{number:05d}.jsonl", LINE)
    return folder


def opened(folder: Path) -> RunIndex:
    index = RunIndex(folder, "run")
    index.rescan()
    return index


def read_in_rounds(index: RunIndex) -> None:
    """Read in the shortest rounds there are: the overhead of a round counts as often as it can."""
    while index.read(set(), seconds=0):
        pass


def test_short_rounds_cost_as_much_for_each_file_of_many_as_of_few(tmp_path: Path) -> None:
    few, many = (opened(write_files(tmp_path / str(count), count)) for count in (40, 240))
    ratio = calls(lambda: read_in_rounds(many)) / calls(lambda: read_in_rounds(few))
    assert (few.snapshot.rows, many.snapshot.rows) == (40, 240)
    assert ratio < 6 * 1.3


def test_a_line_in_one_of_many_files_costs_as_much_as_in_one_of_few(tmp_path: Path) -> None:
    costs = []
    for count in (10, 200):
        index = opened(write_files(tmp_path / str(count), count))
        while index.read():
            pass
        path = tmp_path / str(count) / "rollout_00000.jsonl"
        index.read({str(path)})
        append(path, LINE)
        costs.append(calls(lambda index=index, path=path: index.read({str(path)})))  # type: ignore[misc]
        assert index.snapshot.rows == count + 1
    assert costs[1] < 1.3 * costs[0]


def test_progress_and_problems_are_those_of_all_files(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "run", 5)
    index = opened(folder)
    read_in_rounds(index)
    size = len(LINE)
    assert (index.snapshot.progress.bytes_read, index.snapshot.progress.bytes_total) == (5 * size, 5 * size)
    append(folder / "rollout_00001.jsonl", b"\nno JSON\n")
    (folder / "rollout_00002.jsonl").write_bytes(LINE * 2)
    (folder / "rollout_00003.jsonl").unlink()
    index.rescan()
    while index.read():
        pass
    snapshot = index.snapshot
    assert (snapshot.samples, snapshot.bad_count, snapshot.blank_count) == (5, 1, 1)
    assert snapshot.progress.bytes_read == snapshot.progress.bytes_total == 5 * size + 9


class Failure(Exception):
    """An error while a file is read."""


def test_a_file_whose_reading_failed_has_another_turn(tmp_path: Path) -> None:
    files = RunFiles(rest=3.0)
    for name in ("a", "b"):
        append(tmp_path / name, LINE)
        files.add(name, JsonlFile(str(tmp_path / name), name, Native()))

    def fail() -> None:
        for file in files.turns(set()):
            raise Failure(file.reader.name)

    for _ in range(3):
        with pytest.raises(Failure):
            fail()
    assert sorted(file.reader.name for file in files.turns(set())) == ["a", "b"]


def test_changed_files_come_first_and_the_newest_of_the_others_next(tmp_path: Path) -> None:
    files = RunFiles(rest=3.0)
    for name, modified in (("old", 0.0), ("new", 6000.0), ("changed", 0.0)):
        append(tmp_path / name, LINE)
        files.add(name, JsonlFile(str(tmp_path / name), name, Native())).modified = modified
    files.sort()
    path = str(tmp_path / "changed")
    assert [file.reader.name for file in files.turns({path})] == ["changed", "new", "old"]
    assert [file.reader.name for file in files.turns({path}, seconds=0)] == ["changed", "new"]
    for file in files.turns(None):
        file.more = False
    assert not files.has_waiting
