"""Runs that are being written, followed whether a page shows them or not."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.sources.files.files import AnyPath
from rlpanel.store.index.reader import Reader, Root
from rlpanel.store.index.run_index import RunIndex

log = logging.getLogger(__name__)

#: Seconds between two looks at the root.
EVERY = 5.0
#: A run is followed until nothing was written to it for so many seconds; at most so many are, the newest.
LIVE, MOST = 3600.0, 64


@dataclass(frozen=True)
class LiveRun:
    """A run that is being written, and its index, which the reader keeps up to date."""

    info: RunInfo
    index: RunIndex


Listener = Callable[[Sequence[LiveRun], float], None]


class LiveRuns:
    """Follows the newest runs below a root that were written to lately, on a thread that `stop` ends.

    Parameters
    ----------
    reader : Reader
        Reads the runs.
    root : path
        May be missing for now.

    Attributes
    ----------
    root : Root
        What the reader found below the root.
    """

    def __init__(self, reader: Reader, root: AnyPath) -> None:
        self.root: Root = reader.watch_root(root)
        self._reader = reader
        self._followed: dict[AnyPath, RunIndex] = {}
        self._listeners: list[Listener] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="rlpanel-live-runs", daemon=True)

    def listen(self, listener: Listener) -> None:
        """Call this with the live runs and the time after each look; it must not block for long."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, which lets all runs go."""
        self._stopping.set()
        self._thread.join(timeout=0.5)

    def look(self, now: float) -> None:
        """Follow the runs that are being written, let the others go, and tell the listeners."""
        runs = self._written(now)
        for path in set(self._followed) - {run.path for run in runs}:
            self._reader.close(self._followed.pop(path))
        for run in runs:
            if run.path not in self._followed:
                self._followed[run.path] = self._reader.open(run.path, run.name)
        live = [LiveRun(run, self._followed[run.path]) for run in runs]
        for listener in self._listeners:
            if not self._stopping.is_set():
                listener(live, now)

    def _written(self, now: float) -> list[RunInfo]:
        """The runs that were written to lately, newest first."""
        found = [run for run in self.root.runs or [] if now - run.modified < LIVE]
        return sorted(found, key=lambda run: -run.modified)[:MOST]

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look(time.time())
            except Exception:  # the next look may succeed, and the server goes on in any case
                log.exception("the live runs could not be looked at")
            self._stopping.wait(EVERY)
        for index in self._followed.values():
            self._reader.close(index)
