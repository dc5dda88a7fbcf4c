"""Keeps the recently written runs open, so that alerts and `/health` cover them without an open page."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlpanel.settings import LiveRunLimits
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.store.index.folder_watches import WatchedRoot
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LiveRun:
    """A run that is being written, with its index, which the reader keeps up to date."""

    info: RunInfo
    index: RunIndex


Listener = Callable[[Sequence[LiveRun], float], None]


class LiveRuns:
    """Background thread that opens the newest recently written runs below a root; `stop` ends it.

    Parameters
    ----------
    reader : Reader
        Reads the runs.
    root : path
        The folder that holds runs; it may be created later.
    limits : LiveRunLimits, optional

    Attributes
    ----------
    root : WatchedRoot
        The runs that the reader found below the root.
    """

    def __init__(self, reader: Reader, root: AnyPath, limits: LiveRunLimits | None = None) -> None:
        self._limits = limits or LiveRunLimits()
        self.root: WatchedRoot = reader.watch_root(root)
        self._reader = reader
        self._followed: dict[AnyPath, RunIndex] = {}
        self._listeners: list[Listener] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="rlpanel-live-runs", daemon=True)

    def listen(self, listener: Listener) -> None:
        """Register a callback for the live runs and the time after each check; it must not block for long."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, which then closes all runs."""
        self._stopping.set()
        self._thread.join(timeout=0.5)

    def check(self, now: float) -> None:
        """Open the runs that are being written, close the others, and call the listeners."""
        runs = self._recent_runs(now)
        for path in set(self._followed) - {run.path for run in runs}:
            self._reader.close(self._followed.pop(path))
        for run in runs:
            if run.path not in self._followed:
                self._followed[run.path] = self._reader.open(run.path, run.name)
        live = [LiveRun(run, self._followed[run.path]) for run in runs]
        for listener in self._listeners:
            if not self._stopping.is_set():
                listener(live, now)

    def _recent_runs(self, now: float) -> list[RunInfo]:
        """Return the newest recently written runs, newest first."""
        recent = [run for run in self.root.runs or [] if now - run.modified < self._limits.live_seconds]
        return sorted(recent, key=lambda run: -run.modified)[: self._limits.runs]

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self.check(time.time())
            except Exception:  # keep the server running; the next check may succeed
                log.exception("checking the live runs failed; it is tried again")
            self._stopping.wait(self._limits.interval)
        for index in self._followed.values():
            self._reader.close(index)
