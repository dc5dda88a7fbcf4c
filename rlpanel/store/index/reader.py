"""The reader: one thread a process that keeps every open run up to date and tells who listens."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from rlpanel.settings import Reading
from rlpanel.sources.discovery.diagnose import Diagnosis, diagnose
from rlpanel.sources.discovery.directory import Directory, RunInfo
from rlpanel.sources.files.files import AnyPath, path_of, trouble, unreadable
from rlpanel.sources.files.unread import Unread
from rlpanel.store.backlog.workers import Workers
from rlpanel.store.index.folder_watches import FolderWatches
from rlpanel.store.index.rescan_timer import Clock, RescanTimer
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot

log = logging.getLogger(__name__)

#: Seconds of a backlog that are read before listeners hear of them.
_CATCH_UP_NOTICE = 0.1
#: How much sooner the next look is where the last one, by the clock, found something.
_EAGERNESS = 5
#: Seconds of rest after a fault, so that one that stays does not spin.
_FAULT_PAUSE = 0.2

Listener = Callable[["RunIndex | None"], None]


class Reader:
    """Reads the open runs below any number of roots, on one thread that `stop` ends.

    Attributes
    ----------
    failure : str
        What went wrong in the last round; empty while all is well.
    lines, bytes, rounds : int
        Samples and bad lines taken in, bytes read, and looks at the files, since the process began.
    workers : Workers
        The processes that help with backlogs.
    """

    def __init__(self, reading: Reading | None = None) -> None:
        self.reading = reading or Reading.from_environment()
        self.failure = ""
        self.lines = self.bytes = self.rounds = 0
        self._looked = time.monotonic()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._runs: dict[AnyPath, RunIndex] = {}
        self._users: dict[AnyPath, int] = {}
        self._roots: dict[AnyPath, Root] = {}
        self._fresh: set[AnyPath] = set()
        self._dropped: list[RunIndex] = []  # their index on disk is not closed yet
        self._listeners: list[Listener] = []
        self._thread: threading.Thread | None = None
        self._watches = FolderWatches(self.reading, self._wake.set)
        self.workers = Workers(self.reading.jobs, self._wake.set)
        self._runs_due, self._roots_due = Clock(), Clock()
        self._news = False  # whether the last round brought any
        self._moved = False  # whether files came or went since the last look at the folders
        self._looks = RescanTimer()

    # -- for any thread --------------------------------------------------------------------------

    def open(self, path: str | os.PathLike[str], name: str = "", root: AnyPath | None = None) -> RunIndex:
        """Begin to follow a run (or join those who do); pair with `close`.

        Parameters
        ----------
        root : path, optional
            The bound for linked files and scalars: the root that is watched above the run by default, else
            the run's folder.
        """
        folder = path_of(path).resolve()
        with self._lock:
            index = self._runs.get(folder)
            if index is None:
                above = (known for known in self._roots if folder.is_relative_to(known))
                root = root or next(above, folder)
                index = self._runs[folder] = RunIndex(
                    folder, name or folder.name, self.reading, root, self.workers
                )
                self._fresh.add(folder)
            self._users[folder] = self._users.get(folder, 0) + 1
        self._start()
        return index

    def close(self, index: RunIndex) -> None:
        """Let go of a run; it is dropped when nobody follows it."""
        with self._lock:
            left = self._users.get(index.path, 0) - 1
            if left > 0:
                self._users[index.path] = left
                return
            self._users.pop(index.path, None)
            self._runs.pop(index.path, None)
            self._fresh.discard(index.path)
            self._dropped.append(index)
        self._wake.set()

    def watch_root(self, root: str | os.PathLike[str]) -> Root:
        """Keep the list of runs below a root up to date."""
        folder = path_of(root).resolve()
        with self._lock:
            known = self._roots.setdefault(folder, Root(folder, self.reading))
        self._start()
        return known

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear of changes until the function that this returns is called.

        The listener is held until then. It is called on the reader's thread with the run that changed,
        or None when the list of runs of a root did, and must return at once.
        """
        with self._lock:
            self._listeners.append(listener)

        def forget() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return forget

    def stop(self) -> None:
        """End the thread and the observers; returns when they are gone."""
        self._stopping = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)

    @property
    def runs(self) -> list[RunIndex]:
        """The runs that are followed."""
        with self._lock:
            return list(self._runs.values())

    @property
    def started(self) -> bool:
        """Whether there was ever anything to read."""
        return self._thread is not None

    @property
    def stuck(self) -> float:
        """Seconds since the thread last finished a look at the files; 0 before there is anything to read."""
        return time.monotonic() - self._looked if self._thread is not None else 0.0

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called; a stopped reader reads no more."""
        return self._stopping

    # -- the thread ------------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._loop, name="rlpanel-reader", daemon=True)
                self._thread.start()
        self._wake.set()

    def _loop(self) -> None:
        waiting, looked = False, 0.0
        while not self._stopping:
            # A time bound besides the event: a clock is due, or a file system kept an event to itself.
            if not waiting and self._wake.wait(self._interval()):
                # A line after a quiet while is read at once; only a stream of them is gathered.
                time.sleep(max(0.0, looked + self.reading.debounce - time.monotonic()))
            self._wake.clear()
            waiting = self._safe_round()
            looked = self._looked = time.monotonic()
            self.rounds += 1
        with self._lock:
            self._dropped += self._runs.values()
        self._save({})
        self._watches.stop()
        self.workers.rest()

    def _safe_round(self) -> bool:
        """One round; a fault is kept and logged, and the next round tries again: reading never ends."""
        try:
            waiting = self._round()
            self.failure = ""
        except Exception as error:
            log.exception("the reader failed and goes on")
            self.failure = f"{type(error).__name__}: {error}"
            time.sleep(_FAULT_PAUSE)
            return False
        return waiting

    def _round(self) -> bool:
        """Everything that is due; True while lines are waiting."""
        with self._lock:
            runs, roots = dict(self._runs), list(self._roots.values())
            fresh, self._fresh = self._fresh, set()
        self._watches.keep({*runs, *(root.path for root in roots)})
        dirty, moved = self._watches.take()
        self._moved |= moved
        again = self._moved and self._runs_due(self._looks.rest_moved)
        look_at_roots = self._roots_due(max(self.reading.rescan_interval, self._looks.rest)) or again
        look_at_runs = self._runs_due(max(self._interval(), self._looks.rest)) or again
        began = time.monotonic()
        for root in roots:
            if (look_at_roots or root.runs is None) and root.refresh():
                self._tell(None)
        looked = [path for path in runs if look_at_runs or path in fresh]
        for path in looked:
            runs[path].rescan()
        if look_at_runs:
            self._moved = False
            self._looks.took(time.monotonic() - began)
        waiting = False
        versions = [index.version for index in runs.values()]
        for path, index in runs.items():
            waiting |= self._read(index, None if path in looked else dirty)
        if all(index.at_rest for index in runs.values()):
            self.workers.rest()
        self._news = versions != [index.version for index in runs.values()]
        self._save(runs)
        return waiting

    def _save(self, runs: dict[AnyPath, RunIndex]) -> None:
        """What was read goes to the indices on disk, now and then."""
        with self._lock:
            dropped, self._dropped = self._dropped, []
        for index in dropped:
            index.close()
        for index in runs.values():
            index.save()

    def _read(self, index: RunIndex, dirty: set[str] | None) -> bool:
        """Read a run's new lines for a moment; True while more wait."""
        before, read, version = index.snapshot, index.bytes_read, index.version
        deadline = time.monotonic() + _CATCH_UP_NOTICE
        index.read(dirty, _CATCH_UP_NOTICE)
        while index.busy and time.monotonic() < deadline and not self._stopping:
            index.read(set(), deadline - time.monotonic())
        if index.version == 0:
            index.commit()  # an empty run is a state too
        if index.version != version:
            self._count(before, index.snapshot, index.bytes_read - read)
            self._tell(index)
        return index.busy

    def _count(self, before: Snapshot, after: Snapshot, read: int) -> None:
        """Add to the counters; rows that died do not make them go back."""
        gained = (after.all_samples + after.bad_count) - (before.all_samples + before.bad_count)
        self.lines += max(0, gained)
        self.bytes += read

    def _tell(self, index: RunIndex | None) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(index)
            except Exception:  # a viewer's fault must not end the reading
                log.exception("a listener failed")

    def _interval(self) -> float:
        """Seconds between two looks at the runs' folders: fewer while a polled run is being written."""
        if self._moved:
            return self._looks.rest_moved
        if self._watches.events:
            return self.reading.rescan_interval
        return self.reading.poll_interval / (_EAGERNESS if self._news else 1)


class Root:
    """The runs below a root, as of the last look; None before the first.

    Attributes
    ----------
    survey : Diagnosis or None
        What is there instead, where no runs are.
    failure : str
        Why the root could not be listed at the last look; empty if it could.
    left_out : tuple of Unread
        Folders that cannot be listed, and links that are not followed.
    """

    def __init__(self, path: AnyPath, reading: Reading | None = None) -> None:
        self.path = path
        self.directory = Directory(path, reading)
        self.runs: list[RunInfo] | None = None
        self.survey: Diagnosis | None = None
        self.failure = ""
        self.left_out: tuple[Unread, ...] = ()

    def refresh(self) -> bool:
        """Look again; True if runs came, went or changed."""
        self.failure = unreadable(self.path)
        try:
            found = self.directory.runs()
        except OSError as error:  # too many files are open: the runs are there all the same
            log.debug("%s is not looked at now: %s", self.path, error)
            return False
        if self.runs and trouble(self.path):
            return False  # what another machine does not tell just now is as it was
        seen = None if found else diagnose(self.directory)
        now = found, seen, self.directory.left_out
        changed = now != (self.runs, self.survey, self.left_out)
        self.runs, self.survey, self.left_out = now
        return changed
