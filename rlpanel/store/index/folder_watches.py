"""File watches of all folders that the reader follows; falls back to polling and retries file events.

Rescan intervals: limits the share of time that the reader spends on listing folders.

Root folder whose runs are listed again and again by the reader.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from rlpanel.settings import Reading
from rlpanel.sources.discovery.diagnose import Diagnosis, diagnose
from rlpanel.sources.discovery.directory import Directory, RunInfo
from rlpanel.sources.files.file_access import AnyPath, Unread, connection_error, is_remote, listing_error
from rlpanel.sources.watchdog_observer import WatchdogObserver

log = logging.getLogger(__name__)

#: Seconds until file events are tried again after a fallback to polling.
RETRY = 60.0
#: The wait doubles each time that a system limit is reached again, up to this many seconds.
_MAX_WAIT = 3600.0


class FolderWatches:
    """One recursive watch per folder; folders below a watched one need none of their own."""

    def __init__(self, reading: Reading, wake: Callable[[], None]) -> None:
        self._reading = reading
        self._wake = wake
        self._by_path: dict[AnyPath, WatchdogObserver] = {}
        self._due: dict[AnyPath, float] = {}  # time at which a polled folder tries file events again
        self._waits: dict[AnyPath, float] = {}  # seconds to wait after the next fallback
        self._moved = False  # whether a change may have been missed while a watch was replaced
        self._warned = False

    @property
    def events(self) -> bool:
        """True if file events arrive for every watched folder."""
        return all(watch.events for watch in self._by_path.values())

    def set_folders(self, wanted: set[AnyPath]) -> None:
        """Watch exactly these folders: stop watches of all others."""
        tops = {path for path in wanted if not any(folder in path.parents for folder in wanted)}
        for path in set(self._by_path) - tops:
            self._by_path.pop(path).stop()
        for path in set(self._waits) - tops:
            self._waits.pop(path)
            self._due.pop(path, None)
        for path in tops:
            if self._is_due(path) and not is_remote(path) and path.is_dir():
                self._start(path)
        self._log_polling()

    def take_changes(self) -> tuple[set[str], bool]:
        """Return the paths changed since the last call, and whether any were added or removed."""
        paths: set[str] = set()
        moved, self._moved = self._moved, False
        for path, watch in list(self._by_path.items()):
            new, folders = watch.take_paths()
            paths |= new
            moved |= folders
            if watch.stale:  # a watch ends when its folder is deleted
                self._by_path.pop(path).stop()
                moved = True
        return paths, moved

    def stop(self) -> None:
        """Stop all watches."""
        for watch in self._by_path.values():
            watch.stop()
        self._by_path = {}

    def _is_due(self, path: AnyPath) -> bool:
        """Return whether a folder has no watch yet, or its file events should be tried again."""
        watch = self._by_path.get(path)
        if watch is None or not watch.exhausted:
            return watch is None
        if path not in self._due:
            wait = self._waits.get(path, RETRY)
            self._due[path], self._waits[path] = time.monotonic() + wait, min(2 * wait, _MAX_WAIT)
        return time.monotonic() >= self._due[path]

    def _start(self, path: AnyPath) -> None:
        """Start to watch a folder, or try its file events again."""
        watch = self._by_path[path] = WatchdogObserver(str(path), self._wake, polling=self._reading.polling)
        if path not in self._due:
            return
        if watch.exhausted:
            self._due[path] = time.monotonic() + RETRY
        else:
            del self._due[path]
            self._moved = True

    def _log_polling(self) -> None:
        """Log once that a system limit makes the reader poll, and once that it no longer does."""
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


#: Rescans take at most this share of the time: in general, and while files are added or removed.
_SHARE, _SHARE_MOVED = 0.05, 0.3


class IntervalTimer:
    """Interval timer."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self, interval: float) -> bool:
        """Return True, and restart, if the last True was at least ``interval`` seconds ago."""
        now = time.monotonic()
        if now - self._last < interval:
            return False
        self._last = now
        return True


class RescanTimer:
    """Derives the interval between two rescans from the time that rescans take.

    The shorter of the last two durations is used. A single slow rescan does not predict the next one: a
    library was imported, a disk spun up, or another program used the processor.
    """

    def __init__(self) -> None:
        self._last = self._before = 0.0

    def record(self, seconds: float) -> None:
        """Record the duration of a rescan."""
        self._before, self._last = self._last, seconds

    @property
    def interval(self) -> float:
        """Seconds between two rescans."""
        return min(self._last, self._before) / _SHARE

    @property
    def interval_moved(self) -> float:
        """Seconds between two rescans while files are added or removed."""
        return min(self._last, self._before) / _SHARE_MOVED


class WatchedRoot:
    """Root folder with the list of runs below it, as of the last refresh; None before the first.

    Attributes
    ----------
    survey : Diagnosis or None
        Description of the folder's content if it holds no runs.
    failure : str
        Reason why the last refresh could not list the root; empty if it could.
    left_out : tuple of Unread
        Folders that cannot be listed, and links that are not followed, with the reason.
    """

    def __init__(self, path: AnyPath, reading: Reading | None = None) -> None:
        self.path = path
        self.directory = Directory(path, reading)
        self.runs: list[RunInfo] | None = None
        self.survey: Diagnosis | None = None
        self.failure = ""
        self.left_out: tuple[Unread, ...] = ()

    def refresh(self) -> bool:
        """List the runs again; True if runs were added, removed or changed."""
        self.failure = listing_error(self.path)
        try:
            runs = self.directory.runs()
        except OSError as error:  # such as too many open files: the runs still exist
            log.debug("%s cannot be listed now: %s", self.path, error)
            return False
        if self.runs and connection_error(self.path):
            return False  # the remote does not answer; keep the last list
        diagnosis = None if runs else diagnose(self.directory)
        state = runs, diagnosis, self.directory.left_out
        changed = state != (self.runs, self.survey, self.left_out)
        self.runs, self.survey, self.left_out = state
        return changed
