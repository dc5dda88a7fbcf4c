"""The watches of all folders that the reader follows, and the return from polling to file events."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from rlpanel.settings import Reading
from rlpanel.sources.files.files import AnyPath, is_remote
from rlpanel.sources.watchdog_observer import WatchdogObserver

log = logging.getLogger(__name__)

#: Seconds until file events are tried again.
RETRY = 60.0
#: The first try comes later each time that a limit is reached again, but not later than this.
_LONGEST_WAIT = 3600.0


class FolderWatches:
    """One watch for each folder that no other watch covers."""

    def __init__(self, reading: Reading, wake: Callable[[], None]) -> None:
        self._reading = reading
        self._wake = wake
        self._by_path: dict[AnyPath, WatchdogObserver] = {}
        self._due: dict[AnyPath, float] = {}  # when events of a polled folder are tried again
        self._waits: dict[AnyPath, float] = {}  # seconds until that, for the next time
        self._moved = False  # whether a change may have come between two watches
        self._warned = False

    @property
    def events(self) -> bool:
        """True if file events arrive for every watched folder."""
        return all(watch.events for watch in self._by_path.values())

    def keep(self, wanted: set[AnyPath]) -> None:
        """Watch these folders, and no others."""
        tops = {path for path in wanted if not any(other in path.parents for other in wanted)}
        for path in set(self._by_path) - tops:
            self._by_path.pop(path).stop()
        for path in set(self._waits) - tops:
            self._waits.pop(path)
            self._due.pop(path, None)
        for path in tops:
            if self._is_due(path) and not is_remote(path) and path.is_dir():
                self._begin(path)
        self._log()

    def take(self) -> tuple[set[str], bool]:
        """The paths that changed since the last call, and whether files or folders came or went."""
        paths: set[str] = set()
        moved, self._moved = self._moved, False
        for path, watch in list(self._by_path.items()):
            new, folders = watch.take()
            paths |= new
            moved |= folders
            if watch.stale:  # a folder that vanished takes its watch along
                self._by_path.pop(path).stop()
                moved = True
        return paths, moved

    def stop(self) -> None:
        """Stop them all."""
        for watch in self._by_path.values():
            watch.stop()
        self._by_path = {}

    def _is_due(self, path: AnyPath) -> bool:
        """Return True if a folder has no watch yet, or its events are to be tried again."""
        watch = self._by_path.get(path)
        if watch is None or not watch.exhausted:
            return watch is None
        if path not in self._due:
            wait = self._waits.get(path, RETRY)
            self._due[path], self._waits[path] = time.monotonic() + wait, min(2 * wait, _LONGEST_WAIT)
        return time.monotonic() >= self._due[path]

    def _begin(self, path: AnyPath) -> None:
        """Watch a folder, or try its events again."""
        watch = self._by_path[path] = WatchdogObserver(str(path), self._wake, polling=self._reading.polling)
        if path not in self._due:
            return
        if watch.exhausted:
            self._due[path] = time.monotonic() + RETRY
        else:
            del self._due[path]
            self._moved = True

    def _log(self) -> None:
        """Say once that a limit makes the reader poll, and once that it no longer does."""
        polled = {str(path): watch.reason for path, watch in self._by_path.items() if watch.exhausted}
        if bool(polled) == self._warned:
            return
        self._warned = bool(polled)
        if not polled:
            log.warning("file events are used again")
            return
        path, reason = next(iter(polled.items()))
        log.warning(
            "no file events of %s: %s. Files are polled every %g s; events are tried again every %g s",
            path, reason, self._reading.poll_interval, RETRY,
        )  # fmt: skip
