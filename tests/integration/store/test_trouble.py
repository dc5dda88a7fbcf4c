"""Reading and saving go on when the system fails once, and many files are one run."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, write_run
from tests.limits import SAVED
from tests.unit.sources.readers.faults import ordinary_user, public_folder

RANK0 = "rollout_data_rank_0.jsonl"
REPOSITORY = Path(__file__).parents[3]


def look(found: RunIndex) -> Snapshot:
    found.rescan()
    while found.read():
        pass
    return found.snapshot


def place(snapshot: Snapshot) -> list[str]:
    return sorted(snapshot.uids(snapshot.alive_rows))


# -- the logs ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_io_error_in_any_read_costs_no_line_and_brings_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read fails: the first, then the second, and so on, until a run has fewer reads."""
    whole = look(RunIndex(write_run(tmp_path, ranks=2, steps=6), "run"))
    small, really, failures = Reading(turn_bytes=1 << 10), os.pread, 0
    for at in range(1000):
        left = [at]

        def failing(descriptor: int, size: int, offset: int, left: list[int] = left) -> bytes:
            left[0] -= 1
            if left[0] == -1:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return really(descriptor, size, offset)

        followed = RunIndex(tmp_path, "run", small)
        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", failing)
            look(followed)
        found = look(followed)
        assert (place(found), found.problems) == (place(whole), ())
        if left[0] >= 0:
            break
        failures += 1
    assert failures > 30


def test_an_io_error_that_stays_is_said_and_other_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, ranks=2)
    bad, really = (tmp_path / RANK0).stat().st_ino, os.pread

    def failing(descriptor: int, size: int, offset: int) -> bytes:
        if os.fstat(descriptor).st_ino == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return really(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", failing)
    found = look(RunIndex(tmp_path, "run"))
    assert (found.samples, found.ranks) == (24, 1)
    assert found.problems == (f"{RANK0}: Input/output error; it will be read once this is resolved",)


# -- the index ---------------------------------------------------------------------------------------


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home


def test_when_the_right_to_write_is_lost_the_index_goes_to_the_users_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with public_folder() as run, public_folder() as own:
        monkeypatch.setenv("XDG_CACHE_HOME", str(own))
        own.chmod(0o777)
        followed = RunIndex(write_run(run), "run", limits=SAVED)
        look(followed)
        followed.save(last=True)
        before = (run / ".rlpanel" / "manifest").read_bytes()
        append(run / RANK0, line(9))
        with ordinary_user():
            for path in (run / ".rlpanel" / "lock", run / ".rlpanel"):
                assert not os.access(path, os.W_OK, effective_ids=True)
            look(followed)
            followed.save(last=True)
            again = RunIndex(run, "run", limits=SAVED)
            assert look(again).samples == 25
        assert (run / ".rlpanel" / "manifest").read_bytes() == before
        assert again.bytes_read == 0


def test_a_full_disk_stops_no_reading(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    followed = RunIndex(write_run(tmp_path), "run", limits=SAVED)
    look(followed)
    followed.save()
    append(tmp_path / RANK0, line(9))
    assert (look(followed).samples, followed.snapshot.problems) == (25, ())


# -- two processes -----------------------------------------------------------------------------------

_WRITER = """
import sys
from pathlib import Path
from rlpanel.store.cache import run_cache as cache
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line
from tests.limits import SAVED
from tests.integration.store.test_trouble import RANK0, look
cache.SAVE_EVERY = 0
run = Path(sys.argv[1])
followed = RunIndex(run, "run", limits=SAVED)
for step in range(50):
    rows = [line(step, index=i, extra=1.0) if step > 25 else line(step, index=i) for i in range(4)]
    append(run / RANK0, *rows)
    if step % 12 == 11:  # rewrite a file and reopen the run, so that the cache is written again
        (run / "other.jsonl").write_bytes(line(-1, index=step))
        followed.save(last=True)
        followed = RunIndex(run, "run", limits=SAVED)
    look(followed)
    followed.save()
    print(step, flush=True)
"""


def rewards(snapshot: Snapshot) -> dict[str, tuple[int, float]]:
    """Step and reward by uid, of the file that is only appended to."""
    frame = RunView(snapshot).frame(snapshot.alive_rows)
    frame = frame[frame["step"] >= 0]
    return {row.uid: (row.step, row.reward) for row in frame.itertuples()}


def test_a_cache_read_while_another_process_writes_it_is_consistent(home: Path, tmp_path: Path) -> None:
    """The index that it finds and the lines behind it give what the lines alone give."""
    append(tmp_path / "other.jsonl", line(-1))
    command, spared = [sys.executable, "-c", _WRITER, str(tmp_path)], 0
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in writer.stdout:
            opened, plain = (
                RunIndex(tmp_path, "run", limits=SAVED),
                RunIndex(tmp_path, "run", Reading(cache=False)),
            )
            look(opened)
            look(plain)
            found, theirs = look(opened), rewards(plain.snapshot)
            mine = rewards(found)
            assert theirs.items() <= mine.items()  # it was written to meanwhile
            newest = max(theirs.values())
            assert sum(step < newest[0] for step, _ in mine.values()) == 4 * newest[0]
            spared += opened.bytes_read < plain.bytes_read
    assert writer.returncode == 0
    assert spared > 25


# -- many files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_small_files_are_one_run(tmp_path: Path, count: int) -> None:
    for number in range(count):
        (tmp_path / f"{number}.jsonl").write_bytes(
            b'{"step": %d, "prompt": "p", "reward": %d}\n' % (number % 100, number % 7)
        )
    followed = RunIndex(tmp_path, "run")
    found = look(followed)
    assert (found.samples, len(found.files), len(found.steps.values)) == (count, count, 100)
    rewards = [float(number % 7) for number in range(42, count, 100)]
    assert found.steps.mean("reward")[42] == pytest.approx(np.mean(rewards))
    append(tmp_path / "5.jsonl", b'{"step": 100, "prompt": "new"}\n')
    (tmp_path / "6.jsonl").unlink()
    assert (look(followed).samples, followed.snapshot.steps.values[-1]) == (count, 100)


def test_sixty_four_files_grow_at_once_and_each_line_comes_once(tmp_path: Path) -> None:
    """Lines come in pieces, cut anywhere, file by file in turn."""
    followed, rest = RunIndex(tmp_path, "run"), {}
    for rank in range(64):
        rest[rank] = b"".join(line(step, rank=rank, index=i) for step in range(3) for i in range(2))
    while rest:
        for rank in sorted(rest):
            cut = 301 + 97 * rank
            append(tmp_path / f"rollout_data_rank_{rank}.jsonl", rest[rank][:cut])
            rest[rank] = rest[rank][cut:]
        rest = {rank: data for rank, data in rest.items() if data}
        look(followed)
    found = followed.snapshot
    assert (found.samples, found.ranks, found.bad_count) == (64 * 6, 64, 0)
    frame = RunView(found).frame(found.alive_rows)
    assert Counter(zip(frame["rank"], frame["step"], strict=True)) == {
        (rank, step): 2 for rank in range(64) for step in range(3)
    }
