"""Kills a process at each of its writes to a run's index, and checks what the next process finds.

    python -m tests.integration.store.killed FOLDER

Prints the number of kills, and how often the next process had less to read. It is a separate script, because
only a process with a single thread can fork safely.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, rewrite, write_run
from tests.limits import SAVED

LOG = "rollout_data_rank_0.jsonl"


def look(found: RunIndex) -> Snapshot:
    found.rescan()
    while found.read():
        pass
    return found.snapshot


def session(run: Path) -> None:
    """A run is read, extended, partly replaced and closed; its index is saved each time."""
    live = RunIndex(run, "run", limits=SAVED)
    look(live)
    live.save(last=True)
    append(run / LOG, line(9, custom=1.0, note="a text", tokens=False))
    look(live)
    live.save(last=True)
    rewrite(run / LOG, line(1, tokens=False), line(2, tokens=False))
    look(live)
    live.save(last=True)
    again = RunIndex(run, "run", limits=SAVED)
    look(again)
    append(run / LOG, line(3, tokens=False))
    look(again)
    again.save(last=True)


class Killer:
    """Ends the process at its n-th operation on the index: before it, or in the middle of a write."""

    def __init__(self, at: int) -> None:
        self._left = at
        self._write = os.write
        os.write = self._half  # type: ignore[assignment]
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        # The index is written by names relative to a folder's descriptor; all other files have full paths.
        if event == "open":
            path, _, flags = arguments
            if flags & (os.O_CREAT | os.O_RDWR | os.O_WRONLY) and not os.path.isabs(str(path)):
                self._count()
        elif event in {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"}:
            self._count()

    def _half(self, descriptor: int, data: memoryview) -> int:
        self._left -= 1
        if self._left == 0:
            self._write(descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return self._write(descriptor, data)

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def killed(run: Path, at: int) -> bool:
    """Run a session in a child that is killed at its ``at``-th write; return False if it completed."""
    child = os.fork()
    if child == 0:
        try:
            Killer(at)
            session(run)
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the session failed"
    return os.WIFSIGNALED(status)


def main() -> None:
    """Kill at the first write, at the second, ... until a session completes."""
    folder, places, spared = Path(sys.argv[1]), 0, 0
    while killed(run := write_run(folder / f"run-{places}", ranks=2, samples=2, tokens=False), places + 1):
        again, plain = RunIndex(run, "run", limits=SAVED), RunIndex(run, "run", Reading(cache=False))
        opened, anew = look(again), look(plain)
        for name in ("samples", "older", "duplicates", "bad_count", "ranks"):
            assert getattr(opened, name) == getattr(anew, name), (places, name)
        assert sorted(opened.uids(opened.alive_rows)) == sorted(anew.uids(anew.alive_rows)), places
        steps = RunView(opened).step_frame()
        assert steps.round(9).equals(RunView(anew).step_frame()[steps.columns].round(9))
        places += 1
        spared += again.bytes_read < plain.bytes_read
    sys.stdout.write(f"{places} {spared}\n")


if __name__ == "__main__":
    main()
