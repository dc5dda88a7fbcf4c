"""The reader: one thread a process that keeps every open run up to date and tells who listens."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from rlpanel.settings import Reading
from rlpanel.sources.directory import Directory, RunInfo
from rlpanel.sources.watch import Watch
from rlpanel.store.index import RunIndex

log = logging.getLogger(__name__)

#: Turns taken before listeners hear of them while a backlog is read, in seconds.
_CATCH_UP_NOTICE = 0.1


class Reader:
    """Reads the open runs below any number of roots, on one thread.

    Listeners are called on the reader's thread with the run that changed, or None when the list of
    runs of a root did; they must return at once.
    """

    def __init__(self, reading: Reading | None = None) -> None:
        self.reading = reading or Reading.from_environment()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._runs: dict[Path, RunIndex] = {}
        self._users: dict[Path, int] = {}
        self._watches: dict[Path, Watch] = {}
        self._roots: dict[Path, _Root] = {}
        self._fresh: set[Path] = set()
        self._listeners: list[Callable[[RunIndex | None], None]] = []
        self._thread: threading.Thread | None = None
        self.failure = ""

    # -- for any thread --------------------------------------------------------------------------

    def open(self, path: str | os.PathLike[str], name: str = "") -> RunIndex:
        """Begin to follow a run (or join those who do); pair with `close`."""
        folder = Path(path).resolve()
        with self._lock:
            index = self._runs.get(folder)
            if index is None:
                index = self._runs[folder] = RunIndex(folder, name or folder.name, self.reading)
                self._fresh.add(folder)
            self._users[folder] = self._users.get(folder, 0) + 1
        self._start()
        self._wake.set()
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
        self._wake.set()

    def watch_root(self, root: str | os.PathLike[str]) -> _Root:
        """Keep the list of runs below a root up to date."""
        folder = Path(root).resolve()
        with self._lock:
            known = self._roots.get(folder)
            if known is None:
                known = self._roots[folder] = _Root(folder)
        self._start()
        self._wake.set()
        return known

    def listen(self, listener: Callable[[RunIndex | None], None]) -> Callable[[], None]:
        """Hear of changes; returns what ends it. Bound methods are held weakly."""
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

    # -- the thread ------------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            if self._stopping or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=_loop, args=(weakref.ref(self),), name="rlpanel-reader", daemon=True)
            self._thread.start()

    def _round(self, state: _Clock) -> bool:
        """Everything that is due; True while lines are waiting."""
        with self._lock:
            runs, roots = dict(self._runs), dict(self._roots)
            fresh, self._fresh = self._fresh, set()
        self._keep_watches({*runs, *roots})
        dirty, folders = self._dirty()
        rescan = folders or state.due(self._rescan_interval())
        for root in roots.values():
            if (rescan or root.runs is None) and root.refresh():
                self._tell(None)
        waiting = False
        for path, index in runs.items():
            if rescan or path in fresh or index.version == 0:
                index.rescan()
            waiting |= self._read(index, None if rescan or path in fresh else dirty)
        return waiting

    def _read(self, index: RunIndex, dirty: set[str] | None) -> bool:
        version, deadline = index.version, time.monotonic() + _CATCH_UP_NOTICE
        more = index.read(dirty)
        while more and time.monotonic() < deadline and not self._stopping:
            more = index.read(set())
        if version == 0 and index.version == 0:
            index.commit()  # an empty run is a state too
        if index.version != version:
            self._tell(index)
        return more

    def _tell(self, index: RunIndex | None) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(index)
            except Exception:  # a viewer's fault must not end the reading
                log.exception("a listener failed")

    def _keep_watches(self, wanted: set[Path]) -> None:
        """One watch for each folder that no other watch covers."""
        tops = {path for path in wanted if not any(other in path.parents for other in wanted)}
        for path in set(self._watches) - tops:
            self._watches.pop(path).stop()
        for path in tops - set(self._watches):
            if path.is_dir():
                self._watches[path] = Watch(str(path), self._wake.set, polling=self.reading.polling)

    def _dirty(self) -> tuple[set[str], bool]:
        paths: set[str] = set()
        folders = False
        for path, watch in list(self._watches.items()):
            new, changed = watch.take()
            paths |= new
            folders |= changed
            if not path.is_dir():  # a folder that vanished takes its watch along
                self._watches.pop(path).stop()
                folders = True
        return paths, folders

    def _polling(self) -> bool:
        return any(not watch.events for watch in self._watches.values())

    def _rescan_interval(self) -> float:
        return self.reading.poll_interval if self._polling() else self.reading.rescan_interval

    def _shut(self) -> None:
        for watch in self._watches.values():
            watch.stop()
        self._watches.clear()


class _Root:
    """The runs below a root, as of the last look; None before the first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory = Directory(path)
        self.runs: list[RunInfo] | None = None

    def refresh(self) -> bool:
        """Look again; True if runs came, went or changed."""
        found = self.directory.runs()
        changed = found != self.runs
        self.runs = found
        return changed


class _Clock:
    """When the last full look was."""

    def __init__(self) -> None:
        self._last = 0.0

    def due(self, interval: float) -> bool:
        """Whether ``interval`` seconds have passed; if so they begin again."""
        now = time.monotonic()
        if now - self._last < interval:
            return False
        self._last = now
        return True


def _loop(weak: weakref.ref[Reader]) -> None:
    """Runs until the reader is stopped or nobody holds it any more."""
    clock, waiting = _Clock(), False
    while True:
        reader = weak()
        if reader is None:
            return
        if reader._stopping:
            reader._shut()
            return
        wake, interval, debounce = reader._wake, reader._rescan_interval(), reader.reading.debounce
        del reader
        if not waiting and wake.wait(min(interval, 1.0)):
            time.sleep(debounce)
        wake.clear()
        waiting = _safe_round(weak, clock)


def _safe_round(weak: weakref.ref[Reader], clock: _Clock) -> bool:
    """One round; a fault is kept and logged, and the next round tries again: reading never ends."""
    reader = weak()
    if reader is None:
        return False
    try:
        waiting = reader._round(clock)
        reader.failure = ""
        return waiting
    except Exception as error:
        log.exception("the reader failed and goes on")
        reader.failure = f"{type(error).__name__}: {error}"
        time.sleep(0.2)
        return False
