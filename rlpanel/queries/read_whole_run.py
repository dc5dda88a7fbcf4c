"""Reads a run to its end, or waits until the reader has, with a progress line on a terminal.

A run that is read in the calling thread is not followed.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rlpanel.errors import NotYetRead, RLPanelError
from rlpanel.settings import Reading, StoreLimits
from rlpanel.sources.files.file_access import AnyPath, list_anew
from rlpanel.store.backlog.workers import WorkerPool, Workers
from rlpanel.store.index.barrier import Barrier
from rlpanel.store.index.faults import Faults
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.index.summary_store import SummaryStore
from rlpanel.store.snapshot.snapshot import Progress, describe

if TYPE_CHECKING:
    from rlpanel.store.index.reader import Reader


class TerminalProgress:
    """Progress line of a run on stderr; writes nothing if stderr is not a terminal."""

    def __init__(self, name: str) -> None:
        self._name = "".join(char if char.isprintable() else " " for char in name)  # it may hold escapes
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        """Overwrite the line with the current progress."""
        if sys.stderr.isatty():
            line = f"{self._name}: {describe(progress.bytes_read, progress.bytes_total, progress.rate)}"
            sys.stderr.write(f"\r{line:<{self._width}}")  # padded, to erase a longer line
            sys.stderr.flush()
            self._width = len(line)

    def end(self) -> None:
        """Finish the line with a newline."""
        if self._width:
            sys.stderr.write("\n")


#: Seconds between two updates of the progress line.
_PROGRESS_INTERVAL = 0.1


def read_once(
    folder: AnyPath,
    root: AnyPath,
    reading: Reading,
    scheduler: str = "",
    limits: StoreLimits | None = None,
    summaries: SummaryStore | None = None,
    pause: Callable[[], object] = lambda: None,
    *,
    progress: bool = True,
) -> RunIndex:
    """Return the index of a run after everything on disk was read.

    Parameters
    ----------
    folder, root : path
        The run's folder, and the folder up to which settings of folders above apply.
    reading : Reading
    scheduler : str
        Address of a dask scheduler, whose workers are used instead of processes.
    limits : StoreLimits, optional
    summaries : SummaryStore, optional
        Where the run's summary is noted for lists.
    pause : callable, optional
        Called between two slices of reading; returns when the next one may begin.
    progress : bool
        Write a progress line if stderr is a terminal. A process behind a screen must not.
    """
    from rlpanel.store.backlog.dask_workers import DaskWorkers

    wake = threading.Event()
    workers: WorkerPool = DaskWorkers(scheduler, wake.set) if scheduler else Workers(reading.jobs, wake.set)
    index = RunIndex(folder, folder.name, reading, root, workers, limits, summaries=summaries)
    terminal = TerminalProgress(index.name) if progress else None
    try:
        index.rescan()
        for is_last in (False, True):
            if is_last:
                index.read_last_lines()
            # What a file gains after its turn belongs to the next reading: it is not checked again.
            while index.read(set(), _PROGRESS_INTERVAL):
                if terminal:
                    terminal(index.snapshot.progress)
                index.save()
                pause()
                if not index.busy:
                    wake.wait(_PROGRESS_INTERVAL)
                    wake.clear()
        index.save(last=True)
    except Exception as error:
        index.fail(Faults().note(index.path, f"{index.name} cannot be read", error))
    finally:
        workers.close()
        if terminal:
            terminal.end()
    return index


def wait_until_read(index: RunIndex, service: Reader, timeout: float | None, *, progress: bool) -> None:
    """Wait as `Run.wait` does."""
    barrier = service.barrier(index)
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    terminal = TerminalProgress(index.name) if progress else None
    try:
        while not barrier.reached.wait(max(0.0, min(_PROGRESS_INTERVAL, deadline - time.monotonic()))):
            if service.failure or service.stopped:
                reason = service.failure or "the reader was stopped"
                raise RLPanelError(f"{index.name} cannot be read: {reason}")
            if time.monotonic() > deadline:
                raise NotYetRead(f"{index.name} was not read within {timeout:g} s: {_behind(index, barrier)}")
            if terminal:
                terminal(index.snapshot.progress)
    finally:
        barrier.reached.set()
        if terminal:
            terminal.end()


def refuse_unread(index: RunIndex) -> None:
    """Raise NotYetRead if the files of a run that is not followed have more lines than were read."""
    list_anew(index.path)
    if gained := index.unread_bytes():
        raise NotYetRead(
            f"{index.name} is not followed, and {_named_files(gained)}; open the run again to read them"
        )


#: Most files that are named.
_NAMED = 5


def _behind(index: RunIndex, barrier: Barrier) -> str:
    """Return which files are how far behind, the most first."""
    if not barrier.is_armed:
        return "the reader has not come to it yet, it reads other runs; wait for longer"
    named = _named_files(barrier.behind)
    named = named or f"older lines are read, {index.snapshot.progress.waiting:,} bytes are left"
    return f"{named}; wait for longer"


def _named_files(behind: Mapping[str, int]) -> str:
    files = sorted(behind.items(), key=lambda item: -item[1])
    named = [f"{name} is {count:,} bytes behind" for name, count in files[:_NAMED]]
    if len(files) > _NAMED:
        named.append(f"{len(files) - _NAMED:,} further files are behind")
    return ", ".join(named)
