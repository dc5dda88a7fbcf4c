"""Runs that are followed without an open page, also after a failure."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlpanel.app.alerts.alert_watcher import LiveRuns
from rlpanel.settings import LiveRunLimits, Reading
from rlpanel.store.index.reader import Reader
from tests.factories import write_run
from tests.waiting import wait_until


@pytest.fixture
def reader() -> Iterator[Reader]:
    service = Reader(Reading(polling=True, poll_interval=0.02, rescan_interval=0.1))
    yield service
    service.stop()


def write_runs(root: Path, *names: str) -> None:
    """Runs, each written to a minute after the one before."""
    for age, name in enumerate(reversed(names)):
        run = write_run(root / name, steps=1, samples=1)
        os.utime(run / "rollout_data_rank_0.jsonl", (time.time() - 60 * age,) * 2)


def test_at_most_the_newest_runs_are_followed(tmp_path: Path, reader: Reader) -> None:
    write_runs(tmp_path, "first", "second", "third")
    live = LiveRuns(reader, tmp_path, LiveRunLimits(interval=0.02, runs=2))
    live.start()
    try:
        wait_until(lambda: {index.name for index in reader.runs} == {"second", "third"})
        os.utime(tmp_path / "first" / "rollout_data_rank_0.jsonl")
        wait_until(lambda: {index.name for index in reader.runs} == {"first", "third"})
    finally:
        live.stop()
    wait_until(lambda: not reader.runs, message="all are let go")


def test_a_run_that_a_page_shows_stays_when_it_rests(tmp_path: Path, reader: Reader) -> None:
    write_runs(tmp_path, "run")
    live = LiveRuns(reader, tmp_path, LiveRunLimits(interval=0.02, runs=2))
    live.start()
    try:
        wait_until(lambda: reader.runs)
        shown = reader.open(tmp_path / "run")
        os.utime(tmp_path / "run" / "rollout_data_rank_0.jsonl", (0, 0))
        wait_until(lambda: live.root.runs is not None and live.root.runs[0].modified == 0)
        live.check(time.time())
        assert reader.runs == [shown]
        reader.close(shown)
        assert reader.runs == []
    finally:
        live.stop()


def test_a_listener_that_fails_does_not_end_the_looking(
    tmp_path: Path, reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    write_runs(tmp_path, "run")
    live, looks = LiveRuns(reader, tmp_path, LiveRunLimits(interval=0.02, runs=2)), list[float]()

    def fail(runs: object, now: float) -> None:
        looks.append(now)
        raise RuntimeError("a fault")

    live.listen(fail)
    live.start()
    try:
        wait_until(lambda: len(looks) > 1 and reader.runs)
    finally:
        live.stop()
    assert "checking the live runs failed" in caplog.text
