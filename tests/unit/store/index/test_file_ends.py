"""Ends of files: a whole line is read once the file rests, the rest is named, and nothing counts twice."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

import rlpanel
from rlpanel.settings import Reading
from rlpanel.store.index.run_files import QUIET
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line
from tests.limits import SAVED, store_limits
from tests.waiting import wait_until

NAME = "rollout_data_rank_0.jsonl"
LINES = [line(1, index=index, tokens=False) for index in range(6)]
LAST = LINES[5].rstrip(b"\n")
LONG_AGO = 1e9


def opened(folder: Path, **reading: object) -> RunIndex:
    limits = store_limits(range_bytes=1000)
    return RunIndex(folder, "run", Reading(**{"cache": False, **reading}), limits=limits)


def look(index: RunIndex) -> int:
    """Look at the folder once, and return the number of samples that count."""
    index.rescan()
    while index.read():
        pass
    return index.snapshot.samples


def rest(path: Path, modified: float = LONG_AGO) -> None:
    """Let a file have rested since some time."""
    os.utime(path, (modified, modified))


def unread(index: RunIndex) -> list[tuple[str, str]]:
    return [(skipped.file, skipped.reason) for skipped in index.snapshot.unread]


def test_a_last_line_is_read_once_its_file_rests(tmp_path: Path) -> None:
    path = tmp_path / NAME
    append(path, LINES[0], LAST)
    index = opened(tmp_path, line_rest=3600.0)
    assert look(index) == 1
    rest(path)
    assert look(index) == 2
    append(path, b"\n", *LINES[1:3])
    assert look(index) == 4
    assert index.snapshot.lines(index.snapshot.alive_rows).tolist() == [1, 2, 3, 4]


def test_a_reader_that_follows_waits_for_the_rest(tmp_path: Path) -> None:
    from rlpanel.store.index.reader import Reader

    append(tmp_path / NAME, LINES[0], LAST)
    reader = Reader(Reading(cache=False, line_rest=0.1, rescan_interval=0.1))
    try:
        index = reader.open(tmp_path)
        wait_until(lambda: index.snapshot.samples == 2)
        append(tmp_path / NAME, b"\n", LINES[1])
        wait_until(lambda: index.snapshot.samples == 3)
    finally:
        reader.stop()


def test_a_last_line_that_goes_on_is_another_line(tmp_path: Path) -> None:
    path = tmp_path / NAME
    append(path, LINES[0], LAST)
    rest(path)
    index = opened(tmp_path)
    assert look(index) == 2
    append(path, b" and more\n", LINES[1])
    rest(path, LONG_AGO + 1)
    assert look(index) == 2
    assert [bad.line for bad in index.snapshot.bad_lines] == [2]


def test_half_a_line_is_named_by_who_reads_once_and_after_a_long_rest(tmp_path: Path) -> None:
    path = tmp_path / NAME
    append(path, LINES[0], LAST[:50])
    reason = (NAME, "the last line is incomplete (50 bytes)")
    index = opened(tmp_path)
    rest(path, os.stat(path).st_mtime - QUIET / 2)
    assert (look(index), unread(index)) == (1, [])
    index.read_last_lines()
    assert unread(index) == [reason]
    append(path, LAST[50:] + b"\n")
    assert (look(index), unread(index)) == (2, [])
    append(path, LAST[:50])
    rest(path)
    look(index)
    assert (look(index), unread(index)) == (2, [reason])


def test_a_run_that_is_read_once_has_its_last_lines(tmp_path: Path) -> None:
    append(tmp_path / NAME, LAST)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert (run.snapshot.samples, run.snapshot.unread) == (1, ())
        assert run.samples(text=True)["response"].notna().all()


def test_a_compressed_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(line(1, index=index) for index in range(780)))
    (tmp_path / f"{NAME}.gz").write_bytes(packed[: len(packed) * 2 // 3])
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert 300 < run.snapshot.samples < 780
        (skipped,) = run.snapshot.unread
    assert skipped.file == f"{NAME}.gz"
    assert "is cut off" in skipped.reason


@pytest.mark.parametrize("backlog", [False, True], ids=["from the start", "in ranges"])
def test_holes_are_named_also_after_the_run_is_opened_again(tmp_path: Path, backlog: bool) -> None:
    limits = store_limits(min_log_bytes=0, **({"range_bytes": 1000} if backlog else {}))
    run = tmp_path / "run"
    run.mkdir()
    hole = bytes(512)
    lines = [line(1, index=index, tokens=False) for index in range(400)]
    append(run / NAME, lines[0], hole + lines[1], lines[2][:-1] + hole + b"\n", *lines[3:])
    for _ in range(2):
        index = RunIndex(run, "run", Reading(backlog_bytes=1 if backlog else 1 << 40), limits=limits)
        index.rescan()
        assert index.has_backlog == (backlog and not index.snapshot.rows and not (run / ".rlpanel").exists())
        assert look(index) == 400
        assert index.snapshot.bad_count == 0
        ((file, reason),) = unread(index)
        assert file == NAME
        assert reason.startswith(
            f"1,024 zero bytes in or beside its lines, the first at byte {len(lines[0]):,}"
        )
        index.save(last=True)
    append(run / NAME, LINES[0])
    assert look(RunIndex(run, "run", limits=limits)) == 401


def test_a_large_growth_after_an_open_end_is_read_from_there(tmp_path: Path) -> None:
    """Ranges begin after a newline, and the newline of the last line was not written yet."""
    path = tmp_path / NAME
    append(path, LINES[0], LAST)
    rest(path)
    index = opened(tmp_path, backlog_bytes=2000)
    assert look(index) == 2
    append(path, b"\n", *(line(2, index=index, tokens=False) for index in range(400)))
    assert look(index) == 402
    assert index.snapshot.blank_count == 0
    assert sorted(index.snapshot.lines(index.snapshot.alive_rows).tolist()) == list(range(1, 403))


@pytest.mark.parametrize(
    "more", [b"\n", b"\n" + LINES[1], b" \n" + LINES[1]], ids=["newline", "line", "other"]
)
def test_a_run_opened_again_after_an_open_end_is_the_run_read_anew(tmp_path: Path, more: bytes) -> None:
    run = tmp_path / "run"
    run.mkdir()
    append(run / NAME, LINES[0], LAST)
    index = RunIndex(run, "run", limits=SAVED)
    look(index)
    index.read_last_lines()
    assert index.snapshot.samples == 2
    index.save(last=True)
    append(run / NAME, more)
    again, anew = RunIndex(run, "run", limits=SAVED), opened(run)
    assert (look(again), again.snapshot.blank_count) == (look(anew), anew.snapshot.blank_count)
    for name in ("offset", "length", "line", "hash"):
        found, expected = (one.snapshot.metadata(name)[one.snapshot.alive_rows] for one in (again, anew))
        assert found.tolist() == expected.tolist()
