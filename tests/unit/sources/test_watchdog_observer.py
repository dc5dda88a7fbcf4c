"""A watch records changes and wakes the reader; if it cannot watch, it gives the reason."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from watchdog.events import (
    DirCreatedEvent,
    DirModifiedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileOpenedEvent,
    FileSystemEvent,
)
from watchdog.observers.api import EventQueue, ObservedWatch
from watchdog.observers.inotify import InotifyEmitter

from rlpanel.sources import watchdog_observer
from rlpanel.sources.watchdog_observer import WatchdogObserver
from tests.factories import append, line
from tests.waiting import wait_until


class Bell:
    """Counts how often it was rung."""

    def __init__(self) -> None:
        self.rung = threading.Event()

    def __call__(self) -> None:
        self.rung.set()


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def watched(tmp_path: Path, bell: Bell) -> Iterator[WatchdogObserver]:
    watch = WatchdogObserver(str(tmp_path), bell)
    yield watch
    watch.stop()


def test_an_appended_line_wakes_and_names_its_file(
    tmp_path: Path, watched: WatchdogObserver, bell: Bell
) -> None:
    append(tmp_path / "a.jsonl", line(1))
    assert bell.rung.wait(60)
    assert str(tmp_path / "a.jsonl") in watched.take_paths()[0]


def test_a_taken_change_is_not_returned_again(tmp_path: Path, watched: WatchdogObserver) -> None:
    watched.on_any_event(FileModifiedEvent(str(tmp_path / "a.jsonl")))
    watched.take_paths()
    assert watched.take_paths() == (set(), False)


def test_a_new_file_far_below_is_heard_of(tmp_path: Path, watched: WatchdogObserver) -> None:
    (tmp_path / "deep").mkdir()
    wait_until(lambda: watched.take_paths()[1], message="the new folder")
    append(tmp_path / "deep" / "a.jsonl", line(1))
    wait_until(lambda: str(tmp_path / "deep" / "a.jsonl") in watched.take_paths()[0], message="the new file")


def test_other_files_being_written_wake_nobody(tmp_path: Path, watched: WatchdogObserver, bell: Bell) -> None:
    watched.on_any_event(FileModifiedEvent(str(tmp_path / "checkpoint.safetensors")))
    assert (bell.rung.is_set(), watched.take_paths()) == (False, (set(), False))


@pytest.mark.parametrize("event", [FileCreatedEvent, FileModifiedEvent, DirCreatedEvent, DirModifiedEvent])
def test_events_in_the_cache_folder_are_ignored(
    tmp_path: Path, watched: WatchdogObserver, bell: Bell, event: type[FileSystemEvent]
) -> None:
    watched.on_any_event(event(str(tmp_path / ".rlpanel" / "data-1" / "0")))
    watched.on_any_event(event(str(tmp_path / ".rlpanel")))
    assert (bell.rung.is_set(), watched.take_paths()) == (False, (set(), False))


def test_reading_a_file_is_no_change(tmp_path: Path, watched: WatchdogObserver, bell: Bell) -> None:
    watched.on_any_event(FileOpenedEvent(str(tmp_path / "a.jsonl")))
    assert not bell.rung.is_set()


def test_a_changed_folder_is_told_apart(tmp_path: Path, watched: WatchdogObserver) -> None:
    watched.on_any_event(DirModifiedEvent(str(tmp_path)))
    assert watched.take_paths()[1]


def test_a_flood_of_events_changes_over_to_the_clock(tmp_path: Path, watched: WatchdogObserver) -> None:
    for _ in range(3 * watchdog_observer.MAX_EVENTS_PER_SECOND):
        watched.on_any_event(FileModifiedEvent(str(tmp_path / "a.jsonl")))
    watched.take_paths()
    assert (watched.events, watched.reason) == (False, "more than 500 file events per second")


def test_polling_can_be_asked_for(tmp_path: Path, bell: Bell) -> None:
    watch = WatchdogObserver(str(tmp_path), bell, polling=True)
    assert (watch.events, watch.reason) == (False, "polling was requested")


def test_a_folder_that_is_not_there_gives_no_events(tmp_path: Path, bell: Bell) -> None:
    watch = WatchdogObserver(str(tmp_path / "nowhere"), bell)
    assert (watch.events, watch.reason.startswith("file events are not available")) == (False, True)


def test_another_folder_of_the_same_name_makes_it_stale(tmp_path: Path, bell: Bell) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    watch = WatchdogObserver(str(folder), bell)
    before = watch.stale
    folder.rename(tmp_path / "moved")
    folder.mkdir()
    after = watch.stale
    watch.stop()
    assert (before, after) == (False, True)


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        ("/data/runs", "nfs4 does not report changes by other machines"),
        ("/my data/runs", "lustre does not report changes by other machines"),
        ("/data/here", ""),
        ("/home/me", ""),
        ("/database", ""),
    ],
)
def test_network_file_systems_are_polled(tmp_path: Path, root: str, reason: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\no@tcp:/l /my\\040data lustre rw 0 0\n"
        "tmpfs /data/here tmpfs rw 0 0\n"
    )
    assert watchdog_observer.unreachable(root, str(mounts)) == reason


def test_a_folder_that_cannot_be_watched_costs_no_thread_and_no_file(tmp_path: Path) -> None:
    before = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    assert not WatchdogObserver(str(tmp_path / "gone"), lambda: None).events
    assert (set(threading.enumerate()), len(os.listdir("/proc/self/fd"))) == before


def test_an_emitter_that_is_stopped_logs_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    emitter = InotifyEmitter(EventQueue(), ObservedWatch(str(tmp_path), recursive=True))
    emitter.queue_events(0.1)  # as its thread does if the observer stops it meanwhile
    assert caplog.records == []
