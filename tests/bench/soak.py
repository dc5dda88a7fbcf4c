"""Soak test: a run under constant faults, for any length of time; at the end the store equals a fresh index.

    python -m tests.bench.soak [--minutes 60] [--seed 0]

Writers are separate processes that append in pieces that end anywhere, onto a disk that is sometimes full,
and are killed. Files are truncated, replaced, removed, swapped and backdated. The folder is renamed away,
like an unmounted disk, and restored. Two readers live in this process throughout, one with file events and
one that polls. Another reader, with its index on disk, and a board are processes that are killed
repeatedly.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import signal
import sys
import tempfile
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlpanel.settings import Reading
from rlpanel.store.columns import row_table
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.bench.trouble import Trouble
from tests.limits import SAVED
from tests.property.test_invariants import follow
from tests.property.test_reopened import assert_same_run
from tests.waiting import wait_until

#: Seconds until the surviving readers must have seen everything, once the faults have stopped.
PATIENCE = 60.0
#: Files that a reader may have open at once, including those of file events.
HANDLES = 12


def soak(folder: Path, seconds: float, seed: int = 0) -> Counter[str]:
    """Run for this long; raise AssertionError if something was lost, invented or left open.

    Returns
    -------
    Counter
        The number of faults by type.
    """
    threads, opened = set(threading.enumerate()), handles()
    trouble = Trouble(folder, seed)
    readers = [
        Reader(Reading(polling=polling, poll_interval=0.1, rescan_interval=0.5, cache=False), SAVED)
        for polling in (False, True)
    ]
    with short_repeats(), faults_of_readers() as faults:
        try:
            lives = [reader.open(trouble.run) for reader in readers]
            trouble.go_on(seconds)
            expected = follow(RunIndex(trouble.run, "run", Reading(cache=False), trouble.root))
            for live in lives:
                wait_until(lambda live=live: same(live.snapshot, expected), PATIENCE, "a reader sees it all")
            assert same(follow(RunIndex(trouble.run, "run", Reading(), trouble.root, limits=SAVED)), expected)
            # The board has the default threshold for repeated lines, so it excludes none.
            wait_until(lambda: counted(trouble.port) == expected.samples + expected.duplicates, PATIENCE)
            trouble.done["ms to end the server"] = round(trouble.server.end(signal.SIGTERM) * 1000)
            assert len(handles()) <= len(opened) + 1 + HANDLES * len(readers), handles()
        finally:
            for reader in readers:
                reader.stop()
            trouble.close()
    assert faults == []
    assert "Traceback" not in trouble.said()
    wait_until(lambda: none(set(threading.enumerate()) - threads), PATIENCE, "no thread is left")
    assert handles() == opened, "no file is left open"
    trouble.done["samples at the end"] = expected.samples
    trouble.done["bad lines at the end"] = expected.bad_count
    trouble.done["copies at the end"] = expected.duplicates
    return trouble.done


def read(root: Path, room: int) -> None:
    """Follow the run, with its index on disk, until killed; ``room`` limits the size of files in bytes."""
    if room:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    with short_repeats():
        Reader(Reading(poll_interval=0.1), SAVED).open(root / "run")
        threading.Event().wait()


@contextmanager
def short_repeats() -> Iterator[None]:
    """Treat short repeated lines as duplicates."""
    before, row_table.DUPLICATE_SURPRISAL = row_table.DUPLICATE_SURPRISAL, 3.0
    try:
        yield
    finally:
        row_table.DUPLICATE_SURPRISAL = before


@contextmanager
def faults_of_readers() -> Iterator[list[str]]:
    """Collect the errors that readers in this process log."""
    said: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: said.append(handler.format(record))  # type: ignore[method-assign]
    log = logging.getLogger("rlpanel")
    log.addHandler(handler)
    try:
        yield said
    finally:
        log.removeHandler(handler)


def same(one: Snapshot, other: Snapshot) -> bool:
    """Raise AssertionError with the difference."""
    assert_same_run(one, other)
    assert one.problems == other.problems
    return True


def none(left: object) -> bool:
    """Raise AssertionError with the remaining items."""
    assert not left, left
    return True


def counted(port: int) -> int:
    """Return the number of samples of a board, if it is well."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
    except OSError:
        return -1
    return int(found["samples"] or 0) if found["well"] else -1


def handles() -> list[str]:
    """Return this process's open files by type."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}").split("[")[0].split(":")[0])
        except OSError:  # the listing's own descriptor
            continue
    return sorted(found)


def main() -> None:
    """Run the soak test, or one of its processes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--room", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read(given.read, given.room)
    with tempfile.TemporaryDirectory(prefix="rlpanel-soak-") as folder:
        done = soak(Path(folder), given.minutes * 60, given.seed)
    sys.stdout.write(json.dumps(done, indent=1) + "\n")


if __name__ == "__main__":
    main()
