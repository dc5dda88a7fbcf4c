"""Collects paths of changed files from watchdog's events; where no events arrive, the reader polls.

watchdog's thread only notes the path and wakes the reader. Whether a file changed is decided by `stat`.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from rlpanel.sources.discovery.file_names import OWN_FOLDER, is_rollout_name
from rlpanel.sources.files import mounts
from rlpanel.sources.files.mounts import MOUNTS, NETWORK_FILE_SYSTEMS, file_system
from rlpanel.sources.scalars.find_scalars import is_scalar_name

#: Above this many events per second (about 100 µs of CPU each) polling is cheaper.
MAX_EVENTS_PER_SECOND = 500
#: watchdog logs an error if its thread looks for events while it is stopped, which harms nothing (since
#: https://github.com/gorakhargosh/watchdog/pull/963). The filter goes when stopping logs nothing.
_STOPPED = "InotifyEmitter.queue_events() called when the thread is inactive"
logging.getLogger("watchdog.observers.inotify").addFilter(lambda record: record.msg != _STOPPED)
_LIMITS = {errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOMEM}


class WatchdogObserver(FileSystemEventHandler):
    """Collects the changed paths below a root.

    Parameters
    ----------
    root : str
    wake : callable
        Called on the observer's thread after a path was noted; must return immediately.
    polling : bool
        Use no events at all.

    Attributes
    ----------
    reason : str
        Why events are not used; empty while they are used.
    exhausted : bool
        Whether the reason is a system limit; a later attempt may succeed.
    """

    def __init__(self, root: str, wake: Callable[[], None], *, polling: bool = False) -> None:
        self.root = root
        self.reason = "polling was requested" if polling else unreachable(root)
        self._wake = wake
        self._identity = _identity(root)
        self._lock = threading.Lock()
        self._paths: set[str] = set()
        self._folders = False
        self._second, self._events = 0, 0
        self._flooded = False
        self.exhausted = False
        self._observer: BaseObserver | None = None
        if not self.reason:
            self._observer = self._start()

    @property
    def events(self) -> bool:
        """True if file events are used; otherwise the caller must poll."""
        return self._observer is not None

    @property
    def stale(self) -> bool:
        """True if the root was removed or replaced by another folder, whose events do not arrive."""
        identity = _identity(self.root)
        return identity is None or identity != self._identity

    def take_paths(self) -> tuple[set[str], bool]:
        """Return and clear the noted paths; also whether files were created, deleted or moved."""
        with self._lock:
            paths, folders = self._paths, self._folders
            self._paths, self._folders = set(), False
        if self._flooded and self._observer is not None:
            self.reason = f"more than {MAX_EVENTS_PER_SECOND} file events per second"
            self.stop()
        elif folders and self._observer is not None:
            # watchdog does not report that it could not watch a new folder.
            self._give_up(mounts.watches_used_up(self.root))
        return paths, folders

    def stop(self) -> None:
        """Stop the observer's threads."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join(timeout=2)

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Note a change; called by watchdog."""
        if event.event_type in ("opened", "closed_no_write"):  # raised by our own reading
            return
        folders = event.is_directory or event.event_type in ("created", "deleted", "moved")
        paths = {os.fsdecode(path) for path in (event.src_path, event.dest_path) if path}
        if all(OWN_FOLDER in path.split(os.sep) for path in paths):
            return  # our own files
        with self._lock:
            self._count()
            if not folders and not any(_is_read(os.path.basename(path)) for path in paths):
                return  # for example a checkpoint written next to the logs
            self._folders |= folders
            self._paths |= paths
        self._wake()

    def _count(self) -> None:
        second = int(time.monotonic())
        self._events = self._events + 1 if second == self._second else 1
        self._second = second
        self._flooded |= self._events > MAX_EVENTS_PER_SECOND

    def _start(self) -> BaseObserver | None:
        # Check the limits first: an observer that fails half-way keeps files open, and one that watches only
        # some of the folders does not report it.
        if self._give_up(mounts.shortage(self.root)):
            return None
        observer: BaseObserver | None = None
        try:
            os.stat(self.root)  # an observer of a missing folder keeps files open, too
            observer = Observer()
            observer.daemon = True
            observer.schedule(self, self.root, recursive=True)
            observer.start()
        except (OSError, RuntimeError) as error:  # a limit was reached meanwhile, or the folder was removed
            self.reason = f"file events are not available ({getattr(error, 'strerror', None) or error})"
            self.exhausted = isinstance(error, RuntimeError) or error.errno in _LIMITS
            if observer is not None:
                observer.stop()  # it holds a thread and open files since it was created
            return None
        return observer

    def _give_up(self, reason: str) -> bool:
        """Stop using events if there is a reason, namely a system limit."""
        if reason:
            self.reason, self.exhausted = reason, True
            self.stop()
        return bool(reason)


def _is_read(name: str) -> bool:
    return is_rollout_name(name) or is_scalar_name(name)


def _identity(root: str) -> tuple[int, int] | None:
    try:
        status = os.stat(root)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def unreachable(root: str, mounts: str = MOUNTS) -> str:
    """Return why no events would arrive for this root; empty if they do."""
    kind = file_system(root, mounts)
    return (
        f"{kind} does not report changes by other machines" if kind.startswith(NETWORK_FILE_SYSTEMS) else ""
    )
