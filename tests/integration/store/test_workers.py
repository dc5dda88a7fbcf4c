"""Processes index ranges; the run is read correctly whatever happens to them, and none is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest

from rlpanel.settings import Reading
from rlpanel.sources.adapters import NATIVE
from rlpanel.store.backlog.range_reader import ByteRange, RangeResult, index_range
from rlpanel.store.backlog.workers import WorkerDied, Workers
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch
from tests.factories import append, line, write_run
from tests.limits import store_limits
from tests.property.test_invariants import assert_same, follow
from tests.waiting import wait_until

PATIENCE = 60.0
NAME = "rollout_data_rank_0.jsonl"

#: Many ranges of a small file.
SMALL_RANGES = store_limits(range_bytes=2000)


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(1)
    yield made
    made.close()


def whole(path: Path) -> ByteRange:
    """The byte range of a whole file."""
    size = path.stat().st_size if path.is_file() else 1
    return ByteRange(0, str(path), path.name, NATIVE, 0, size, size, 1 << 20)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def start_and_stop(workers: Workers, path: Path) -> int:
    """Start a process and stop it with a signal, so that it does not handle its next task."""
    workers.submit(whole(path)).result(PATIENCE)
    (pid,) = workers.processes
    os.kill(pid, signal.SIGSTOP)
    return pid


def kill(pid: int) -> None:
    """Kill a child; returns when it is dead."""
    os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):  # its parent has waited for it already
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def log(folder: Path) -> Path:
    append(folder / NAME, *(line(step) for step in range(20)), b"bad\n")
    return folder / NAME


def read_all(index: RunIndex, news: threading.Event) -> None:
    """Read repeatedly, waiting for the processes if there is nothing else to do."""
    index.rescan()
    while index.read():
        if not index.busy:
            assert news.wait(PATIENCE)
            news.clear()


class AtOnce:
    """A pool that finishes its tasks immediately, without waking anyone."""

    jobs = 1

    def wake(self) -> None:
        """Do nothing."""

    def submit(self, where: ByteRange) -> Future[RangeResult]:
        """Return the finished range."""
        done: Future[RangeResult] = Future()
        done.set_result(index_range(where))
        return done

    def rest(self) -> None:
        """Do nothing: there is no process to end."""


def test_all_queued_ranges_are_submitted_without_a_wake_up(tmp_path: Path) -> None:
    index = RunIndex(
        write_run(tmp_path, steps=6, ranks=3),
        "run",
        Reading(backlog_bytes=1),
        workers=AtOnce(),
        limits=SMALL_RANGES,
    )
    index.rescan()
    while index.read():
        assert index.busy
    assert index.snapshot.samples == 6 * 3 * 8


def test_a_worker_process_returns_the_same_result_as_this_process(tmp_path: Path, workers: Workers) -> None:
    where = whole(log(tmp_path))
    there, here = workers.submit(where).result(PATIENCE), index_range(where)
    assert there.rows is not None
    assert here.rows is not None
    assert there.rows.metadata["hash"].tolist() == here.rows.metadata["hash"].tolist()
    assert there.bad == here.bad
    assert there.bad[0].line == 21


def test_a_process_that_died_is_started_again(tmp_path: Path, workers: Workers) -> None:
    where = whole(log(tmp_path))
    workers.submit(where).result(PATIENCE)
    before = workers.processes
    kill(before[0])
    assert workers.submit(where).result(PATIENCE).newlines == 21
    assert workers.processes != before


def test_a_range_whose_process_dies_twice_is_given_back(
    tmp_path: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = start_and_stop(workers, log(tmp_path))
    asked = workers.submit(whole(tmp_path / NAME))
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    kill(stopped)
    with pytest.raises(WorkerDied):
        asked.result(PATIENCE)


def test_a_file_that_cannot_be_read_is_told_as_such(tmp_path: Path, workers: Workers) -> None:
    with pytest.raises(FileNotFoundError):
        workers.submit(whole(tmp_path / "none")).result(PATIENCE)


def test_ending_leaves_no_process_behind(tmp_path: Path, workers: Workers) -> None:
    """Not even a process that is in the middle of a range."""
    stopped = start_and_stop(workers, log(tmp_path))
    workers.submit(whole(tmp_path / NAME))
    workers.close()
    assert not alive(stopped)


def test_processes_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from tests.integration.store.test_workers import Path, Workers, whole\n"
        "Workers(1).submit(whole(Path(sys.argv[1]))).result()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    parent = subprocess.run(  # its stderr ends when the last process that writes to it ends
        [sys.executable, "-c", script, str(log(tmp_path))], stderr=subprocess.PIPE, timeout=PATIENCE
    )
    assert parent.returncode == -signal.SIGKILL


@pytest.mark.parametrize("deadly", [False, True], ids=["well", "every process dies"])
def test_a_run_read_by_processes_is_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deadly: bool
) -> None:
    run = write_run(tmp_path, steps=6, ranks=3)
    append(run / NAME, b"bad\n", line(2), b"{half")
    if deadly:
        monkeypatch.setattr(sys, "executable", shutil.which("false"))
    news = threading.Event()
    workers = Workers(2, news.set)
    index = RunIndex(run, "run", Reading(backlog_bytes=1), workers=workers, limits=SMALL_RANGES)
    read_all(index, news)
    workers.close()
    assert_same(index.snapshot, follow(RunIndex(run, "run", limits=SMALL_RANGES)))


def test_the_newest_steps_come_first(tmp_path: Path) -> None:
    run = write_run(tmp_path, steps=40, ranks=2)
    index = RunIndex(run, "run", Reading(backlog_bytes=1), limits=SMALL_RANGES)
    index.rescan()
    while not index.snapshot.samples:
        index.read()
    snapshot = index.snapshot
    assert snapshot.steps.values.min() > 35
    assert not snapshot.progress.caught_up
    assert 0 < snapshot.progress.fraction < 0.2


@pytest.mark.parametrize("backlog_bytes", [1, 1 << 40], ids=["in ranges", "file by file"])
@pytest.mark.parametrize("name", ["{}.jsonl", "train_data_step{}.jsonl"])
def test_of_files_with_one_step_each_the_newest_come_first(
    tmp_path: Path, name: str, backlog_bytes: int
) -> None:
    """Even if all files were written at once, as in a copy of a run."""
    for step in range(1, 13):
        append(tmp_path / name.format(step), *(line(step, index=at) for at in range(8)))
        os.utime(tmp_path / name.format(step), (1e9, 1e9))
    index = RunIndex(
        tmp_path, "run", Reading(backlog_bytes=backlog_bytes, turn_bytes=1 << 10), limits=SMALL_RANGES
    )
    index.rescan()
    while not index.snapshot.samples:
        index.read(seconds=0.0)
    assert index.snapshot.steps.values.tolist() == [12]


def test_files_that_grew_together_take_turns(tmp_path: Path) -> None:
    run = write_run(tmp_path, steps=20, ranks=3)
    index = RunIndex(run, "run", Reading(turn_bytes=1 << 10))
    index.rescan()
    for _ in range(12):
        index.read(seconds=0.0)
    done = [index.reader(f"rollout_data_rank_{rank}.jsonl").tail.bytes_done for rank in range(3)]
    assert max(done) - min(done) < 2 << 10


def test_live_lines_come_between_the_ranges(tmp_path: Path) -> None:
    run = write_run(tmp_path, steps=40)
    index = RunIndex(run, "run", Reading(backlog_bytes=1), limits=SMALL_RANGES)
    index.rescan()
    index.read()
    append(run / NAME, line(99))
    index.read({str(run / NAME)})
    assert 99 in index.snapshot.steps.values
    assert not index.snapshot.progress.caught_up


def test_samples_get_their_line_numbers_when_the_file_is_whole(tmp_path: Path) -> None:
    run = write_run(tmp_path, steps=10, samples=1)
    index = RunIndex(run, "run", Reading(backlog_bytes=1), limits=SMALL_RANGES)
    index.rescan()
    append(run / NAME, line(11))
    index.read()
    before = fetch(index, index.view, int(index.snapshot.rows_of(11)[0]))
    while index.read():
        pass
    after = fetch(index, index.view, index.snapshot.row(before.uid))
    assert (before.place, after.place) == (f"byte {before.offset:,}", "line 11")
    assert sorted(index.snapshot.metadata("line").tolist()) == list(range(1, 12))


def test_bad_lines_get_their_numbers_when_the_file_is_whole(tmp_path: Path) -> None:
    run = write_run(tmp_path, steps=10, samples=1)
    append(run / NAME, b"bad\n")
    index = RunIndex(run, "run", Reading(backlog_bytes=1), limits=SMALL_RANGES)
    index.rescan()
    index.read()
    while index.read():
        pass
    assert [bad.line for bad in index.snapshot.bad_lines] == [11]


def test_a_run_read_by_processes_opens_again_from_its_index(tmp_path: Path) -> None:
    limits = store_limits(range_bytes=2000, min_log_bytes=0)
    run = write_run(tmp_path, steps=6, ranks=3)
    append(run / NAME, b"bad\n", line(2))
    news = threading.Event()
    workers = Workers(2, news.set)
    index = RunIndex(run, "run", Reading(backlog_bytes=1), workers=workers, limits=limits)
    read_all(index, news)
    workers.close()
    index.close()
    again = RunIndex(run, "run", limits=limits)
    assert_same(follow(again), follow(RunIndex(run, "run", Reading(cache=False))))
    assert again.bytes_read == 0


def test_a_run_that_nobody_follows_any_more_is_read_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process, which would never finish, is ended."""
    asleep = tmp_path / "asleep"
    asleep.write_text("#!/bin/sh\nexec sleep 3600\n")
    asleep.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(asleep))
    reader = Reader(Reading(backlog_bytes=1, jobs=1), SMALL_RANGES)
    index = reader.open(write_run(tmp_path / "run"))
    (pid,) = wait_until(lambda: reader.workers.processes, PATIENCE)
    reader.close(index)
    wait_until(lambda: not alive(pid), PATIENCE)
    reader.stop()
    assert not index.has_backlog


def test_an_index_ends_with_ctrl_c_and_leaves_no_process_behind(tmp_path: Path) -> None:
    """Not even a process that would never finish."""
    run, seen = write_run(tmp_path / "run", steps=4, response="x" * 400_000), tmp_path / "seen"
    asleep = tmp_path / "asleep"
    asleep.write_text(f'#!/bin/sh\necho $$ > "{seen}"\nexec sleep 3600\n')
    asleep.chmod(0o755)
    script = (
        # A process started in the background ignores the signal, and so do its children.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import sys; from rlpanel.cli import app; sys.executable = sys.argv[1]; app(['index', sys.argv[2]])\n"
    )
    environment = {**os.environ, "RLPANEL_BACKLOG_BYTES": "1", "RLPANEL_JOBS": "1"}
    parent = subprocess.Popen([sys.executable, "-c", script, str(asleep), str(run)], env=environment)
    pid = int(wait_until(lambda: seen.exists() and seen.read_text().strip(), PATIENCE))
    parent.send_signal(signal.SIGINT)
    parent.wait(PATIENCE)
    assert not alive(pid)
