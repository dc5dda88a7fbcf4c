"""Order of the runs, and the run that opens without a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlpanel.app.board.board import Board
from rlpanel.app.board.opened_runs import most_useful, newest_first
from rlpanel.sources.discovery.directory import Directory, RunInfo
from rlpanel.store.index.run_summary import RunSummary
from rlpanel.store.index.summary_store import SummaryStore
from tests.factories import write_run

NOW = 1_000_000.0
LOG = "rollout_data_rank_0.jsonl"


def run(name: str, age: float, *, rewarded: bool = True) -> RunInfo:
    return RunInfo(name, Path("/root") / name, 1, 1, NOW - age, rewarded)


def names(runs: list[RunInfo]) -> list[str]:
    return [each.name for each in runs]


def test_the_newest_run_is_first() -> None:
    runs = [run("old", 9000), run("b", 100), run("a", 100), run("new", 70)]
    assert names(newest_first(runs, [], NOW)) == ["new", "a", "b", "old"]


def test_live_runs_do_not_change_places() -> None:
    runs = [run("x", 1), run("y", 5), run("old", 500)]
    assert names(newest_first(runs, ["y", "x", "old"], NOW)) == ["y", "x", "old"]


def test_a_new_run_and_one_that_goes_on_come_to_the_top() -> None:
    runs = [run("x", 1), run("back", 2), run("new", 30), run("old", 500)]
    assert names(newest_first(runs, ["x", "old", "back"], NOW)) == ["new", "x", "back", "old"]


@pytest.mark.parametrize(
    ("runs", "opened"),
    [
        ([run("bare", 1, rewarded=False), run("live", 20), run("done", 500)], "live"),
        ([run("live", 20), run("newest", 3)], "newest"),
        ([run("bare", 1, rewarded=False), run("older", 900), run("done", 500)], "done"),
        ([run("bare", 500, rewarded=False), run("newest", 80, rewarded=False)], "newest"),
    ],
)
def test_live_runs_with_rewards_open_before_others(runs: list[RunInfo], opened: str) -> None:
    useful = most_useful(runs, SummaryStore(), NOW)
    assert useful is not None
    assert useful.name == opened


def test_without_runs_none_opens() -> None:
    assert most_useful([], SummaryStore(), NOW) is None


def test_the_summary_of_a_run_that_was_read_decides_over_its_first_line() -> None:
    runs = [run("empty", 1, rewarded=True), run("full", 2, rewarded=False)]
    summaries = SummaryStore()
    summaries.note(runs[0].path, RunSummary(8, 2, None))
    summaries.note(runs[1].path, RunSummary(8, 2, 1.0))
    useful = most_useful(runs, summaries, NOW)
    assert useful is not None
    assert useful.name == "full"


def written(folder: Path, age: float, **fields: object) -> None:
    write_run(folder, steps=2, samples=2, **fields)  # type: ignore[arg-type]
    status = (folder / LOG).stat()
    os.utime(folder / LOG, (status.st_mtime - age, status.st_mtime - age))


def test_a_run_has_rewards_if_its_first_sample_has_one(tmp_path: Path) -> None:
    written(tmp_path / "with", 0)
    written(tmp_path / "null", 0, reward=None)
    written(tmp_path / "without", 0, drop=["reward"])
    assert {info.name: info.rewarded for info in Directory(tmp_path).runs()} == {
        "with": True,
        "null": False,
        "without": False,
    }


def test_the_board_opens_the_most_useful_run(tmp_path: Path) -> None:
    written(tmp_path / "bare", 0, drop=["reward"])
    written(tmp_path / "live", 20)
    written(tmp_path / "done", 5000)
    board = Board(tmp_path)
    try:
        assert [info.name for info in board.context.runs] == ["bare", "live", "done"]
        assert board.context.selection.run == "live"
        board.read_url("?run=done")
        assert board.context.selection.run == "done"
        board.read_url("?run=missing")
        assert board.context.selection.run == "live"
    finally:
        board.close()
