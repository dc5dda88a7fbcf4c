"""Runs that nobody opened are checked one after the other, the newest first, while the reader rests."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlpanel.checks.run_checks import RunChecks, Try, is_due
from rlpanel.runtime import Runtime
from rlpanel.settings import CheckLimits, Limits
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.sources.files.file_access import path_of
from rlpanel.store.index.folder_watches import WatchedRoot
from rlpanel.store.index.run_summary import RunSummary
from tests.factories import write_run
from tests.waiting import wait_until

LOG = "rollout_data_rank_0.jsonl"
Start = Callable[..., Runtime]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Check the runs below `tmp_path` by a runtime that ends with the test."""
    started: list[Runtime] = []

    def begin(**limits: float) -> Runtime:
        runtime = Runtime(limits=Limits(checks=CheckLimits(**{"interval": 0.01, **limits})))  # type: ignore[arg-type]
        started.append(runtime)
        root = runtime.reader.watch_root(tmp_path)
        root.refresh()
        runtime.checks.watch(root)
        return runtime

    yield begin
    for runtime in started:
        runtime.close()


def summary(runtime: Runtime, run: Path) -> RunSummary:
    return wait_until(
        lambda: found if (found := runtime.summaries.of(run)).checked_bytes >= 0 else None  # type: ignore[return-value]
    )


def test_what_is_found_is_noted_and_a_run_that_cannot_be_read_says_why(tmp_path: Path, start: Start) -> None:
    good = write_run(tmp_path / "good", steps=20, reward=1.0)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / LOG).write_text('{"prompt": "never ends')
    runtime = start()
    found = summary(runtime, good)
    assert (found.step, found.first, found.reward, found.error) == (20, 1, 1.0, 0.0)
    assert found.severity in ("alarm", "warning")
    assert found.alarms + found.warnings >= 1
    assert found.onset is not None
    unread = summary(runtime, tmp_path / "bad")
    assert "incomplete" in unread.unchecked
    assert unread.severity is None


def test_the_newest_run_is_the_first(tmp_path: Path, start: Start) -> None:
    for age, name in enumerate(("newest", "newer", "old")):
        write_run(tmp_path / name, steps=2)
        os.utime(tmp_path / name / LOG, (2e9 - age, 2e9 - age))
    runtime = start()
    order: list[str] = []

    def note() -> bool:
        known = [name for name in ("old", "newer", "newest") if name not in order]
        order.extend(n for n in known if runtime.summaries.of(tmp_path / n).checked_bytes >= 0)
        return len(order) == 3

    wait_until(note, every=0.0001)
    assert order == ["newest", "newer", "old"]


def test_a_check_that_takes_too_long_is_given_up(tmp_path: Path, start: Start) -> None:
    run = write_run(tmp_path / "run", steps=3)
    assert "longer than 0.1 s" in summary(start(seconds=0.1), run).unchecked


def test_a_run_that_needs_too_much_memory_says_so(tmp_path: Path, start: Start) -> None:
    run = write_run(tmp_path / "run", steps=40, samples=64)
    assert "memory" in summary(start(memory=1 << 20), run).unchecked.lower()


def test_the_process_ends_when_nothing_is_left_to_check(tmp_path: Path, start: Start) -> None:
    run = write_run(tmp_path / "run", steps=2)
    runtime = start(keep=0.0)
    summary(runtime, run)
    wait_until(lambda: runtime.checks.process is None)


def test_closing_the_runtime_ends_process_and_thread(tmp_path: Path, start: Start) -> None:
    run = write_run(tmp_path / "run", steps=2)
    runtime = start()
    summary(runtime, run)
    process = runtime.checks.process
    assert process is not None
    runtime.close()
    assert runtime.checks.process is None
    assert not any(thread.name == "rlpanel-checks" for thread in threading.enumerate())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_checks_wait_while_the_reader_reads(tmp_path: Path) -> None:
    write_run(tmp_path / "run", steps=2)
    with Runtime() as runtime:
        checks = RunChecks(runtime.reader, runtime.summaries)
        assert not checks.is_held_up()
        runtime.reader.stop()  # the run that is opened is not read
        runtime.reader.open(tmp_path / "run")
        runtime.reader.bytes += 1
        assert checks.is_held_up()


def test_a_run_that_was_checked_by_its_page_is_left_to_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    runtime = Runtime()
    runtime.summaries.note(run, RunSummary(samples=16, step=2, bytes=5))
    runtime.summaries.note_finding(run, "", "", 2, 0.0, save=False)
    known = runtime.summaries.of(run)
    info = RunInfo("run", run, 1, 900, 1.0)
    assert not is_due(info, known, None, 0.0, CheckLimits(), is_open=True)
    assert is_due(info, known, None, 0.0, CheckLimits(), is_open=False)


@pytest.mark.parametrize(
    ("size", "checked", "tried", "since", "due"),
    [
        (9, -1, None, 0.0, True),
        (9, 9, None, 0.0, False),
        (9, 5, None, 0.0, True),
        (9, 5, 9, 1e6, False),  # its size on disk is not that of what was read
        (9, 5, 5, 59.0, False),
        (9, 5, 5, 61.0, True),
    ],
)
def test_a_growing_run_is_checked_again_with_patience(
    size: int, checked: int, tried: int | None, since: float, *, due: bool
) -> None:
    info = RunInfo("run", Path("/run"), 1, size, 1.0)
    known = RunSummary(samples=1, step=1, severity="", checked_bytes=checked)
    last = Try(tried, 0.0, 1.0) if tried is not None else None
    assert is_due(info, known, last, since, CheckLimits(), is_open=False) is due


def test_a_run_that_took_long_is_checked_again_later() -> None:
    info, known = RunInfo("run", Path("/run"), 1, 9, 1.0), RunSummary(severity="", checked_bytes=5)
    assert not is_due(info, known, Try(5, 0.0, 60.0), 599.0, CheckLimits(), is_open=False)
    assert is_due(info, known, Try(5, 0.0, 60.0), 601.0, CheckLimits(), is_open=False)


def test_remote_runs_are_not_downloaded(tmp_path: Path) -> None:
    with Runtime(limits=Limits(checks=CheckLimits(interval=0.01))) as runtime:
        root = WatchedRoot(tmp_path)
        remote = path_of("s3://bucket/run")
        root.runs = [RunInfo("run", remote, 1, 900, 1.0)]
        runtime.checks.watch(root)
        assert "not on this machine" in summary(runtime, remote).unchecked  # type: ignore[arg-type]
        assert runtime.checks.process is None
