"""A folder that is opened with a mapping: its runs appear, and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlpanel.app.board.board import Board
from rlpanel.runtime import Runtime
from rlpanel.settings import Reading
from tests.factories import append
from tests.waiting import wait_until


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(Reading(jobs=0, cache=False)) as made:
        yield made


def write(path: Path) -> None:
    rows = [{"first": f"q{at}", "second": f"a{at}", "third": at} for at in range(4)]
    append(path, *(json.dumps(row).encode() + b"\n" for row in rows))


def test_runs_appear_and_a_later_mapping_changes_them(tmp_path: Path, runtime: Runtime) -> None:
    (tmp_path / "exp").mkdir()
    write(tmp_path / "exp" / "log.jsonl")
    board = Board(tmp_path, runtime=runtime)
    assert board.context.runs == []
    board.open_with(tmp_path, {"prompt": "first", "response": "second", "step": 3})

    def rows() -> tuple[int, int | None, bool]:
        board.apply_changes({None, board.context.index})
        snapshot = board.context.snapshot
        steps = snapshot.steps.values
        return snapshot.samples, int(steps[0]) if len(steps) else None, snapshot.has_number("reward")

    wait_until(lambda: rows() == (4, 3, False))
    board.context.choose_sample("log.jsonl:0")
    assert board.context.sample is not None
    assert (board.context.sample.step, board.context.sample.prompt) == (3, "q0")
    board.open_with(tmp_path / "exp", {"response": "second", "reward": "third", "step": 5})
    wait_until(lambda: rows() == (4, 5, True))
    assert board.context.sample is not None
    assert (board.context.sample.step, board.context.sample.prompt) == (5, None)
    assert [path.name for path in (tmp_path / "exp").iterdir()] == ["log.jsonl"]
    board.close()


def test_a_reader_of_its_own_does_not_see_it(tmp_path: Path, runtime: Runtime) -> None:
    write(tmp_path / "log.jsonl")
    Board(tmp_path, runtime=runtime).open_with(tmp_path, {"response": "second", "step": 3})
    with Runtime(Reading(jobs=0, cache=False)) as other:
        assert Board(tmp_path, runtime=other).context.runs == []


def test_a_viewer_who_may_write_nothing_opens_nothing(tmp_path: Path, runtime: Runtime) -> None:
    write(tmp_path / "log.jsonl")
    board = Board(tmp_path, read_only=True, runtime=runtime)
    board.open_with(tmp_path, {"response": "second", "step": 3})
    assert runtime.reader.reading.opened_with == {}
