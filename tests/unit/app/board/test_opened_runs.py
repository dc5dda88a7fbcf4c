"""Overlaid runs: they are open while chosen, and their growth is passed on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlpanel.app.board.board import Board
from rlpanel.runtime import default_runtime
from tests.factories import append, line, write_run
from tests.waiting import wait_until

LOG = "rollout_data_rank_0.jsonl"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a", "b", "c, d"):
        write_run(tmp_path / name, steps=2, samples=2)
    return tmp_path


@pytest.fixture
def board(root: Path) -> Iterator[Board]:
    made = Board(root)
    yield made
    made.close()


def keys(board: Board) -> list[str]:
    return [other.key for other in board.context.overlays]


def caught_up(board: Board) -> bool:
    board.apply_changes({None, *(other.index for other in board.context.overlays)})
    return all(other.snapshot.progress.caught_up for other in board.context.overlays)


def test_a_link_overlays_runs(board: Board) -> None:
    board.read_url("?run=a&over=b,c%252C d&align=samples&smooth=0.5")
    assert wait_until(lambda: caught_up(board))
    assert {other.key: other.snapshot.samples for other in board.context.overlays} == {"b": 4, "c, d": 4}
    assert (board.context.selection.align, board.context.selection.smooth) == ("samples", 0.5)


def test_a_run_that_grows_brings_its_new_snapshot(board: Board, root: Path) -> None:
    board.read_url("?run=a&over=b")
    wait_until(lambda: caught_up(board))
    append(root / "b" / LOG, line(3))
    assert wait_until(lambda: caught_up(board) and board.context.overlays[0].snapshot.samples == 5)


def test_the_selected_run_does_not_lie_over_itself(board: Board) -> None:
    board.read_url("?run=a&over=a,b")
    assert keys(board) == ["b"]
    board.context.selection.run = "b"
    assert keys(board) == ["a"]


def test_a_run_keeps_its_colour_when_another_goes(board: Board) -> None:
    board.read_url("?run=a&over=b,c%252C d")
    before = board.context.overlays[1].color(dark=True)
    board.context.selection.overlay_runs = ["c, d"]
    assert [other.color(dark=True) for other in board.context.overlays] == [before]


def test_runs_are_let_go(board: Board, root: Path) -> None:
    board.read_url("?run=a&over=b&against=c, d")
    assert {index.name for index in default_runtime().reader.runs} >= {"a", "b", "c, d"}
    board.context.selection.param.update(overlay_runs=[], compared_run="")
    assert root / "b" not in {index.path for index in default_runtime().reader.runs}
    assert root / "c, d" not in {index.path for index in default_runtime().reader.runs}


def test_a_run_that_is_not_there_is_said_once(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(board._overlays, "_say", said.append)
    board.read_url("?run=a&over=b,gone")
    board.apply_changes({None})
    board.context.selection.overlay_runs = ["gone", "b"]
    assert said == [f"no run 'gone' below {Path(board.context.root).name}"]
    assert keys(board) == ["b"]
