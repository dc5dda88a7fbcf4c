"""A run's index on disk under several processes, killed processes and failing writes."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from rlpanel.settings import Reading
from rlpanel.store.cache import run_cache
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, rewrite, write_run
from tests.limits import SAVED

LOG = "rollout_data_rank_0.jsonl"
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _small_runs_are_saved_and_homes_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("home")))


def look(found: RunIndex) -> Snapshot:
    found.rescan()
    while found.read():
        pass
    return found.snapshot


def opened(run: Path) -> RunIndex:
    found = RunIndex(run, "run", limits=SAVED)
    look(found)
    return found


def saved(run: Path) -> Path:
    """A run of two files with an index."""
    write_run(run, ranks=2)
    opened(run).save(last=True)
    return run


def assert_same(one: Snapshot, other: Snapshot) -> None:
    frames = [RunView(shot).frame(shot.alive_rows).set_index("uid").sort_index() for shot in (one, other)]
    pd.testing.assert_frame_equal(frames[0], frames[1][frames[0].columns])


def assert_read_anew(run: Path) -> None:
    again = opened(run)
    assert again.bytes_read == sum(path.stat().st_size for path in run.glob("*.jsonl"))
    assert_same(again.snapshot, look(RunIndex(run, "run", Reading(cache=False))))


# -- who may write -----------------------------------------------------------------------------------

_OTHER = """
import sys
from pathlib import Path
from tests.integration.store.test_run_cache import opened
found = opened(Path(sys.argv[1]))
found.save()
print(found.bytes_read, flush=True)
sys.stdin.read()
"""


def other_process(run: Path) -> subprocess.Popen[str]:
    """Another process that has opened a run, saved it, and holds it; it has told how much it read."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", _OTHER, str(run)], text=True, cwd=REPOSITORY, **pipes)  # type: ignore[call-overload]


def told(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_one_process_writes_others_read_and_a_dead_ones_right_is_taken_over(tmp_path: Path) -> None:
    with other_process(write_run(tmp_path, ranks=2)) as writer:
        assert told(writer) > 0
        mine, new = opened(tmp_path), line(9)
        assert mine.bytes_read == 0
        append(tmp_path / LOG, new)
        assert look(mine).samples == 49
        manifest = (tmp_path / ".rlpanel" / "manifest").read_bytes()
        mine.save(last=True)
        assert (tmp_path / ".rlpanel" / "manifest").read_bytes() == manifest
        writer.send_signal(signal.SIGKILL)
    mine.save(last=True)
    again = opened(tmp_path)
    assert (again.bytes_read, again.snapshot.samples) == (0, 49)


def test_a_cache_that_another_process_wrote_meanwhile_is_replaced(tmp_path: Path) -> None:
    first = opened(saved(tmp_path))
    (tmp_path / LOG).write_bytes(line(1))
    for _ in range(2):  # the second time without the rows that are gone
        opened(tmp_path).save(last=True)
    rewrite(tmp_path / LOG, line(1), line(10))
    look(first)
    first.save(last=True)
    again = opened(tmp_path)
    assert again.bytes_read == 0
    assert_same(again.snapshot, look(RunIndex(tmp_path, "run", Reading(cache=False))))


@pytest.mark.slow
def test_a_process_killed_at_any_of_its_writes_costs_only_work(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.integration.store.killed", str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    places, spared = map(int, done.stdout.split())
    assert places > 100
    assert spared > places / 2


# -- trouble -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_trouble_in_any_write_leaves_the_index_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By turns an I/O error and a full disk, which are the same to what writes."""
    real, places = os.write, 0
    while True:
        trouble = (errno.EIO, errno.ENOSPC)[places % 2]
        run = saved(tmp_path / str(places))
        live, left = opened(run), [places]

        def write(descriptor: int, data: memoryview, left: list[int] = left, trouble: int = trouble) -> int:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(trouble, os.strerror(trouble))
            return real(descriptor, data[: max(1, len(data) // 2)])

        append(run / LOG, line(9, custom=1.0))
        look(live)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            live.save(last=True)
        again = opened(run)
        assert again.bytes_read in (0, len(line(9, custom=1.0)))
        live.save(last=True)
        assert opened(run).bytes_read == 0
        assert opened(run).snapshot.samples == 49
        if left[0] >= 0:
            break
        places += 1
    assert places > 20


def test_after_trouble_it_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = opened(write_run(tmp_path))

    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        live.save()
        patch.undo()
        live.save()
        assert not (tmp_path / ".rlpanel" / "manifest").exists()
    monkeypatch.setattr(run_cache.time, "monotonic", lambda: 1e9)
    live.save()
    live.save(last=True)
    assert opened(tmp_path).bytes_read == 0


def test_a_folder_deleted_under_it_is_made_again(tmp_path: Path) -> None:
    live = opened(saved(tmp_path))
    append(tmp_path / LOG, line(9))
    look(live)
    live.save()
    shutil.rmtree(tmp_path / ".rlpanel")
    append(tmp_path / LOG, line(10))
    look(live)
    live.save(last=True)
    live.save(last=True)
    assert opened(tmp_path).bytes_read == 0
