"""An unexpected error of one run marks that run; all others are read, and it is read again when it can be."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlpanel
from rlpanel.settings import Reading
from rlpanel.store.index.reader import Reader
from tests.factories import append, line, write_run
from tests.fragile_adapter import FRAGILE, Fragile
from tests.waiting import wait_until


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> Fragile:
    return Fragile.register(monkeypatch)


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader(Reading(polling=True, poll_interval=0.02, rescan_interval=0.1, debounce=0.0))
    yield made
    made.stop()


REASONS = {"list": "ValueError: no place", "read": "not enough memory"}


@pytest.mark.parametrize("place", REASONS)
def test_a_run_that_fails_is_marked_and_the_others_are_read(
    tmp_path: Path, fragile: Fragile, reader: Reader, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    bad, good = tmp_path / "bad", write_run(tmp_path / "good", steps=1, ranks=1, samples=4)
    bad.mkdir()
    append(bad / "x.jsonl", FRAGILE % 1, FRAGILE % 2)
    root = reader.watch_root(tmp_path)
    bad_index, good_index = reader.open(bad), reader.open(good)
    wait_until(lambda: bad_index.snapshot.samples == 2 and good_index.snapshot.samples == 4)
    with caplog.at_level(logging.WARNING):
        fragile.fails_at = place
        append(bad / "x.jsonl", FRAGILE % 3)
        wait_until(lambda: bad_index.path in reader.failing)
        append(next(good.iterdir()), line(2))
        wait_until(lambda: good_index.snapshot.samples == 5)
        begun = reader.rounds
        wait_until(lambda: reader.rounds > begun + 50)  # tried again at most a few times
    shown = bad_index.snapshot
    assert reader.failing == {bad_index.path: REASONS[place]}
    assert (reader.failure, good_index.snapshot.problems) == ("", ())
    assert f"the run cannot be read: {REASONS[place]}" in shown.problems[0]
    assert (shown.unread[0].file, shown.progress.caught_up) == ("./", True)
    # A round that had listed the folder before may still read the new line.
    assert shown.samples in ((2, 3) if place == "list" else (2,))
    assert [record.getMessage() for record in caplog.records].count(
        f"bad cannot be read (other runs are not affected): {REASONS[place]}"
    ) == len(caplog.records)
    assert len(caplog.records) == 1
    if place == "list":
        wait_until(lambda: [item.file for item in root.left_out] == ["bad/"])
        assert [run.name for run in root.runs or []] == ["good"]
    fragile.fails_at = ""
    wait_until(lambda: bad_index.snapshot.samples == 3)
    wait_until(lambda: (bad_index.snapshot.problems, reader.failing) == ((), {}))
    wait_until(lambda: {run.name for run in root.runs or []} == {"bad", "good"})


def test_a_sample_of_a_run_that_fails_can_be_shown(tmp_path: Path, fragile: Fragile, reader: Reader) -> None:
    append(tmp_path / "x.jsonl", FRAGILE % 1)
    index = reader.open(tmp_path)
    wait_until(lambda: index.snapshot.samples == 1)
    fragile.fails_at = "list"
    wait_until(lambda: bool(reader.failing))
    locator = index.snapshot.locator(0)
    version = index.version
    wait_until(lambda: index.version > version)  # it was tried again, without success
    assert index.reader("x.jsonl").fetch(locator).step == 1


def test_a_run_that_fails_from_the_start_says_so_and_can_be_closed(
    tmp_path: Path, fragile: Fragile, reader: Reader
) -> None:
    append(tmp_path / "x.jsonl", FRAGILE % 1)
    fragile.fails_at = "read"
    index = reader.open(tmp_path)
    wait_until(lambda: index.snapshot.version > 0)
    assert index.snapshot.problems
    reader.close(index)
    wait_until(lambda: not reader.failing)
    fragile.fails_at = ""
    again = reader.open(tmp_path)
    wait_until(lambda: again.snapshot.samples == 1, 5.0)


def test_a_run_that_is_read_once_says_what_failed(tmp_path: Path, fragile: Fragile) -> None:
    append(tmp_path / "x.jsonl", FRAGILE % 1)
    fragile.fails_at = "read"
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.unread["file"].tolist() == ["./"]
        assert "not enough memory" in run.unread["reason"][0]
        assert run.snapshot.samples == 0
