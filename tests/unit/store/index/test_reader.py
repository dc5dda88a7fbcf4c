"""The reader follows changes on disk, by events and by polling, and notifies its listeners."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlpanel.settings import Reading
from rlpanel.store.index.folder_watches import FolderWatches
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, write_run

PATIENCE = 10.0
RANK0 = "rollout_data_rank_0.jsonl"


class Follower:
    """Waits for what a reader tells; wakes by its news alone."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.told: list[RunIndex | None] = []
        self._news = threading.Condition()
        self.forget = reader.listen(self._hear)

    def _hear(self, changed: RunIndex | None) -> None:
        with self._news:
            self.told.append(changed)
            self._news.notify_all()

    def until(self, condition: Callable[[], bool]) -> None:
        with self._news:
            assert self._news.wait_for(condition, PATIENCE), "the reader did not tell"

    def until_run(self, index: RunIndex, condition: Callable[[Snapshot], bool]) -> Snapshot:
        self.until(lambda: condition(index.snapshot))
        return index.snapshot


@pytest.fixture(params=["events", "polling"])
def reader(request: pytest.FixtureRequest) -> Iterator[Reader]:
    """A reader of its own for the test. By events it looks at folders so seldom that events must do."""
    by_events = Reading(rescan_interval=600.0, line_rest=0.1)
    made = Reader(
        by_events
        if request.param == "events"
        else Reading(polling=True, poll_interval=0.02, rescan_interval=0.1, line_rest=0.1)
    )
    yield made
    made.stop()


@pytest.fixture
def follower(reader: Reader) -> Follower:
    return Follower(reader)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "root" / "run", steps=2, samples=4)


def caught_up(snapshot: Snapshot) -> bool:
    return snapshot.version > 0 and snapshot.progress.caught_up


def opened(follower: Follower, run: Path) -> RunIndex:
    """The run's index when all that stood on disk is in."""
    index = follower.reader.open(run)
    follower.until_run(index, caught_up)
    return index


def test_an_appended_line_arrives(follower: Follower, run: Path) -> None:
    index = opened(follower, run)
    append(run / RANK0, line(3))
    follower.until_run(index, lambda s: s.steps.values.tolist() == [1, 2, 3])


def test_a_line_in_two_halves_arrives_once(follower: Follower, run: Path) -> None:
    index = opened(follower, run)
    append(run / RANK0, line(3)[:40])
    follower.until_run(index, lambda s: s.progress.waiting == 40)
    append(run / RANK0, line(3)[40:])
    assert follower.until_run(index, lambda s: s.samples > 8).samples == 9


def test_a_new_rank_joins(follower: Follower, run: Path) -> None:
    index = opened(follower, run)
    append(run / "rollout_data_rank_1.jsonl", line(1, rank=1))
    assert follower.until_run(index, lambda s: s.ranks == 2).samples == 9


def test_a_truncated_file_begins_anew(follower: Follower, run: Path) -> None:
    index = opened(follower, run)
    (run / RANK0).write_bytes(line(7))
    follower.until_run(index, lambda s: s.steps.values.tolist() == [7])


def test_a_file_replaced_by_rename_begins_anew(follower: Follower, run: Path) -> None:
    index = opened(follower, run)
    append(run / "new.tmp", line(7), line(8))
    (run / "new.tmp").replace(run / RANK0)
    follower.until_run(index, lambda s: s.steps.values.tolist() == [7, 8])


def test_a_deleted_file_takes_its_rows_along(follower: Follower, run: Path) -> None:
    append(run / "rollout_data_rank_1.jsonl", line(5, rank=1))
    index = opened(follower, run)
    (run / RANK0).unlink()
    follower.until_run(index, lambda s: s.steps.values.tolist() == [5])


@pytest.mark.parametrize("polling", [False, True])
def test_a_folder_that_vanishes_and_comes_back_goes_on(run: Path, tmp_path: Path, polling: bool) -> None:
    """A watched folder that moves raises no event of its own: the clock sees it."""
    reader = Reader(Reading(polling=polling, poll_interval=0.02, rescan_interval=0.1))
    follower = Follower(reader)
    index = opened(follower, run)
    run.rename(tmp_path / "away")
    gone = follower.until_run(index, lambda s: bool(s.problems))
    (tmp_path / "away").rename(run)
    follower.until_run(index, lambda s: not s.problems)
    append(run / RANK0, line(3))
    back = follower.until_run(index, lambda s: s.samples == 9)
    reader.stop()
    assert (gone.samples, gone.problems, back.problems) == (
        8,
        ("the run's folder is gone; its last state is shown",),
        (),
    )


def test_a_new_run_under_a_root_is_told_of(follower: Follower, run: Path, tmp_path: Path) -> None:
    root = follower.reader.watch_root(tmp_path / "root")
    follower.until(lambda: [info.name for info in root.runs or []] == ["run"])
    write_run(tmp_path / "root" / "deep" / "second")
    follower.until(lambda: {info.name for info in root.runs or []} == {"run", "deep/second"})


def test_a_run_that_is_deleted_leaves_the_list(follower: Follower, run: Path, tmp_path: Path) -> None:
    root = follower.reader.watch_root(tmp_path / "root")
    follower.until(lambda: bool(root.runs))
    shutil.rmtree(run)
    follower.until(lambda: root.runs == [])


def test_a_root_that_is_made_later_is_found(tmp_path: Path) -> None:
    reader = Reader(Reading(rescan_interval=0.1))
    follower = Follower(reader)
    root = reader.watch_root(tmp_path / "later")
    follower.until(lambda: root.runs == [])
    write_run(tmp_path / "later" / "run")
    follower.until(lambda: bool(root.runs))
    reader.stop()


def test_a_run_opened_twice_is_read_once_and_kept_until_both_let_go(follower: Follower, run: Path) -> None:
    one, other = opened(follower, run), opened(follower, run)
    follower.reader.close(one)
    append(run / RANK0, line(3))
    follower.until_run(other, lambda s: s.samples == 9)
    assert one is other


def test_a_run_that_was_closed_is_read_no_more(follower: Follower, run: Path, tmp_path: Path) -> None:
    index, other = opened(follower, run), opened(follower, write_run(tmp_path / "other"))
    follower.reader.close(index)
    append(run / RANK0, line(3))
    append(tmp_path / "other" / RANK0, line(9))
    follower.until_run(other, lambda s: s.steps.values[-1] == 9)
    assert index.snapshot.samples == 8


def test_an_empty_run_is_told_of_too(follower: Follower, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert follower.until_run(follower.reader.open(tmp_path / "empty"), lambda s: s.version > 0).samples == 0


def test_a_backlog_is_shown_while_it_is_read(tmp_path: Path) -> None:
    reader = Reader(Reading(turn_bytes=1 << 13))
    seen: list[float] = []
    follower = Follower(reader)
    reader.listen(lambda index: seen.append(index.snapshot.progress.fraction) if index else None)
    opened(follower, write_run(tmp_path, steps=10, samples=40))
    reader.stop()
    assert (seen == sorted(seen), seen[-1]) == (True, 1.0)


def test_a_listener_that_fails_disturbs_nobody(
    reader: Reader, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: RunIndex | None) -> None:
        raise ValueError("a viewer's fault")

    reader.listen(fail)
    follower = Follower(reader)
    with caplog.at_level(logging.CRITICAL):
        index = opened(follower, run)
        append(run / RANK0, line(3))
        follower.until_run(index, lambda s: s.samples == 9)
    assert reader.failure == ""


def test_who_asked_to_be_forgotten_hears_no_more(follower: Follower, run: Path) -> None:
    told: list[object] = []
    forget = follower.reader.listen(told.append)
    index = opened(follower, run)
    forget()
    before = len(told)
    append(run / RANK0, line(3))
    follower.until_run(index, lambda s: s.samples == 9)
    assert len(told) == before


def test_stopping_ends_the_thread_and_its_observers(follower: Follower, run: Path) -> None:
    before = set(threading.enumerate())
    reader = Reader()
    opened(Follower(reader), run)
    reader.stop()
    assert (set(threading.enumerate()) <= before, reader.stopped) == (True, True)


def test_a_linked_file_counts_while_it_stays_below_the_root(
    follower: Follower, run: Path, tmp_path: Path
) -> None:
    linked = tmp_path / "root" / "linked"
    linked.mkdir()
    (linked / RANK0).symlink_to(run / RANK0)
    follower.reader.watch_root(tmp_path / "root")
    assert follower.until_run(follower.reader.open(linked), caught_up).samples == 8


def test_a_folder_in_another_ones_place_is_watched_anew(run: Path, tmp_path: Path) -> None:
    woken = threading.Event()
    watches = FolderWatches(Reading(), woken.set)
    watches.set_folders({run})
    run.rename(tmp_path / "away")
    run.mkdir()
    moved = watches.take_changes()[1]
    watches.set_folders({run})
    woken.clear()
    append(run / RANK0, line(1))
    heard = woken.wait(PATIENCE)
    watches.stop()
    assert (moved, heard) == (True, True)
