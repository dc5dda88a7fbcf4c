"""A stopped backlog continues where it stopped: after a click, and after reopening the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line, write_run
from tests.limits import store_limits
from tests.property.test_invariants import assert_same, follow

LOGS = ("rollout_data_rank_0.jsonl", "rollout_data_rank_1.jsonl")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two files of many ranges, with bad lines between good ones."""
    write_run(tmp_path, steps=20, ranks=2)
    append(tmp_path / LOGS[0], b"torn\n", line(20))
    return tmp_path


def opened(run: Path) -> RunIndex:
    """An index that takes every unread byte for a backlog, and reads a range a turn."""
    index = RunIndex(
        run, "run", Reading(backlog_bytes=1), limits=store_limits(range_bytes=2000, min_log_bytes=0)
    )
    index.rescan()
    return index


def size(run: Path) -> int:
    return sum(path.stat().st_size for path in run.glob("*.jsonl"))


def plain(run: Path) -> RunIndex:
    """The same run, read from its beginning without an index on disk."""
    index = RunIndex(run, "run", Reading(cache=False))
    follow(index)
    return index


def test_a_stopped_backlog_waits_while_new_lines_come(run: Path) -> None:
    index = opened(run)
    index.read()
    index.pause(True)
    while index.read():
        pass
    stopped = index.snapshot.progress
    append(run / LOGS[1], line(21))
    index.read()
    assert 21 in index.snapshot.steps.values
    assert (stopped.halted, stopped.caught_up, stopped.fraction < 0.5) == (True, True, True)
    assert index.snapshot.progress.waiting == stopped.waiting


def test_it_goes_on_where_it_stood(run: Path) -> None:
    index = opened(run)
    index.read()
    index.pause(True)
    index.read()
    index.pause(False)
    while index.read():
        pass
    assert (index.bytes_read, index.snapshot.progress.halted) == (size(run), False)
    assert_same(index.snapshot, plain(run).snapshot)


def test_a_run_closed_midway_reads_the_rest_when_it_is_opened_again(run: Path) -> None:
    read = 0
    for turns in (1, 2, 3):
        index = opened(run)
        for _ in range(turns):
            index.read()
        index.close()
        read += index.bytes_read
        append(run / LOGS[0], line(21), b"torn too\n")
    last = opened(run)
    while last.read():
        pass
    assert read + last.bytes_read == size(run)
    assert_same(last.snapshot, plain(run).snapshot)


def test_lines_have_no_numbers_before_all_lines_before_them_are_counted(run: Path) -> None:
    index = opened(run)
    index.read()
    row = index.snapshot.alive_rows[:1]
    assert (index.snapshot.lines(row).tolist(), index.snapshot.locator(row[0]).line) == ([0], 0)
    while index.read():
        pass
    assert index.snapshot.lines(index.snapshot.alive_rows).min() == 1


def test_a_file_written_anew_meanwhile_is_read_from_its_beginning(run: Path) -> None:
    index = opened(run)
    index.read()
    index.close()
    (run / LOGS[0]).write_bytes(line(1) + line(2))
    again = opened(run)
    while again.read():
        pass
    assert_same(again.snapshot, plain(run).snapshot)
