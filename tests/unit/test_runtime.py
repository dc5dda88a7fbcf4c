"""A runtime owns what runs and pages share, and ends it when it is closed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import rlpanel
from rlpanel.runtime import Runtime, default_runtime
from rlpanel.settings import Reading
from tests.factories import write_run
from tests.limits import small_runtime
from tests.waiting import wait_until


def test_closing_ends_the_reader_and_the_threads(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with Runtime() as runtime:
        run = rlpanel.open_run(write_run(tmp_path, steps=1), runtime=runtime)
        assert runtime.reader.runs == [run.index]
        assert runtime.hub.reader is runtime.reader
        assert runtime.threads.views.submit(lambda: 3).result() == 3
    wait_until(lambda: set(threading.enumerate()) <= before)
    with pytest.raises(RuntimeError):
        runtime.threads.views.submit(lambda: 3)


def test_what_is_first_used_after_closing_reads_nothing(tmp_path: Path) -> None:
    runtime = Runtime()
    runtime.close()
    index = runtime.reader.open(write_run(tmp_path, steps=1))
    assert runtime.reader.stopped
    assert not runtime.reader.started
    assert index.version == 0


def test_runtimes_share_nothing(tmp_path: Path) -> None:
    write_run(tmp_path, steps=1)
    with Runtime() as one, Runtime() as other:
        with (
            rlpanel.open_run(tmp_path, runtime=one) as run,
            rlpanel.open_run(tmp_path, runtime=other) as again,
        ):
            assert run.index is not again.index
            assert run.index.texts is not again.index.texts
        assert one.threads is not other.threads
        assert one.media is not other.media


def test_runs_of_one_runtime_share_the_cached_texts(tmp_path: Path) -> None:
    names = ("a", "b")
    with Runtime() as runtime:
        runs = [
            rlpanel.open_run(write_run(tmp_path / name, steps=1), runtime=runtime, wait=False)
            for name in names
        ]
        assert runs[0].index.texts is runs[1].index.texts


def test_the_default_is_one_until_it_is_closed() -> None:
    first = default_runtime()
    assert default_runtime() is first
    first.close()
    assert default_runtime() is not first
    default_runtime().close()


def test_limits_reach_a_run_that_is_read_once(tmp_path: Path) -> None:
    write_run(tmp_path, steps=1)
    with rlpanel.open_run(tmp_path, follow=False, jobs=0):
        assert not (tmp_path / ".rlpanel").exists()
    with rlpanel.open_run(tmp_path, follow=False, jobs=0, runtime=small_runtime(min_log_bytes=0)):
        assert (tmp_path / ".rlpanel").exists()


def test_given_settings_are_used_with_what_a_call_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPANEL_JOBS", "5")
    assert Runtime().reading(cache=False).jobs == 5
    own = Runtime(Reading(jobs=3, line_bytes=1 << 20)).reading(jobs=1)
    assert (own.jobs, own.line_bytes) == (1, 1 << 20)
