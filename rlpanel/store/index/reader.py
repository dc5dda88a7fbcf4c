"""Reader thread, one per process: keeps every open run up to date and notifies listeners of changes."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping

from rlpanel.errors import describe_error
from rlpanel.settings import Reading, StoreLimits
from rlpanel.sources.adapters.key_mapping import create_mapping
from rlpanel.sources.files.file_access import AnyPath, is_remote, list_anew, path_of
from rlpanel.store.backlog.workers import Workers
from rlpanel.store.index.barrier import Barrier
from rlpanel.store.index.faults import Faults
from rlpanel.store.index.folder_watches import FolderWatches, IntervalTimer, RescanTimer, WatchedRoot
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.index.summary_store import SummaryStore
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import MAX_CHARS, TextCache

log = logging.getLogger(__name__)

#: Seconds for which a backlog is read before listeners are notified.
_CATCH_UP_NOTICE = 0.1
#: While polling, the interval is divided by this if the last round brought changes.
_SPEEDUP = 5
#: Seconds to wait after an error outside of any run, at first and at most.
_ROUND_REST = 0.2, 5.0

Listener = Callable[["RunIndex | None"], None]


class Reader:
    """Reads all open runs and lists the runs below any number of roots, on one thread; `stop` ends it.

    Parameters
    ----------
    reading : Reading, optional
        By default the settings of the environment.
    limits : StoreLimits, optional
    summaries : SummaryStore, optional
        Where the summaries of its runs are noted for lists.

    Attributes
    ----------
    failure : str
        Error of the last round, outside of any run; empty if it succeeded.
    failing : dict of path to str
        Runs that cannot be read because of an unexpected error, with the reason. Others are read.
    lines, bytes, rounds : int
        Number of samples and bad lines, of bytes read, and of rounds, since the process started.
    workers : Workers
        Processes that help with backlogs.
    """

    def __init__(
        self,
        reading: Reading | None = None,
        limits: StoreLimits | None = None,
        summaries: SummaryStore | None = None,
    ) -> None:
        self.reading = reading or Reading.from_environment()
        self._limits = limits or StoreLimits()
        self._texts = TextCache(MAX_CHARS)
        self._summaries = summaries or SummaryStore()
        self.failure = ""
        self.failing: dict[AnyPath, str] = {}
        self.lines = self.bytes = self.rounds = 0
        self._last_round = time.monotonic()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._runs: dict[AnyPath, RunIndex] = {}
        self._users: dict[AnyPath, int] = {}
        self._roots: dict[AnyPath, WatchedRoot] = {}
        self._new_runs: set[AnyPath] = set()
        self._remapped = False  # whether a folder was opened with a mapping since the last round
        self._dropped: list[RunIndex] = []  # closed runs whose cache is still to be closed
        self._listeners: list[Listener] = []
        self._barriers: list[tuple[RunIndex, Barrier]] = []
        self._thread: threading.Thread | None = None
        self._watches = FolderWatches(self.reading, self._wake.set)
        self.workers = Workers(self.reading.jobs, self._wake.set)
        self._runs_due, self._roots_due = IntervalTimer(), IntervalTimer()
        self._had_changes = False  # whether the last round brought changes
        self._files_moved = False  # whether files were added or removed since the last rescan
        self._run_timer, self._root_timer = RescanTimer(), RescanTimer()
        self._run_faults, self._root_faults, self._save_faults = Faults(), Faults(), Faults()
        self._round_faults = Faults(*_ROUND_REST)

    # -- for any thread --------------------------------------------------------------------------

    def open(self, path: str | os.PathLike[str], name: str = "", root: AnyPath | None = None) -> RunIndex:
        """Start to follow a run, or share its index if it is followed already; call `close` once for each.

        Parameters
        ----------
        root : path, optional
            Linked files and scalars are read only below this folder. Default: the watched root above the
            run, else the run's folder.
        """
        folder = path_of(path).resolve()
        with self._lock:
            index = self._runs.get(folder)
            if index is None:
                above = (watched for watched in self._roots if folder.is_relative_to(watched))
                root = root or next(above, folder)
                index = self._runs[folder] = RunIndex(
                    folder,
                    name or folder.name,
                    self.reading,
                    root,
                    self.workers,
                    self._limits,
                    self._texts,
                    self._summaries,
                )
                self._new_runs.add(folder)
            self._users[folder] = self._users.get(folder, 0) + 1
        self._start()
        return index

    def close(self, index: RunIndex) -> None:
        """Stop following a run; its index is dropped once every `open` has been closed."""
        with self._lock:
            remaining = self._users.get(index.path, 0) - 1
            if remaining > 0:
                self._users[index.path] = remaining
                return
            self._users.pop(index.path, None)
            self._runs.pop(index.path, None)
            self._new_runs.discard(index.path)
            self._dropped.append(index)
        self._wake.set()

    def watch_root(self, root: str | os.PathLike[str]) -> WatchedRoot:
        """Keep the list of the runs below a root up to date."""
        folder = path_of(root).resolve()
        with self._lock:
            watched = self._roots.setdefault(folder, WatchedRoot(folder, self.reading))
        self._start()
        return watched

    def open_with(self, folder: AnyPath, keys: Mapping[str, str | int]) -> None:
        """Read the files below a folder through a mapping from now on, until the process ends.

        Parameters
        ----------
        folder : path
            Its real path.
        keys : mapping
            As in the table ``[map]`` of an ``rlpanel.toml``, which it precedes. An empty one ends that.

        Raises
        ------
        SettingError
            If the mapping is not valid.
        """
        create_mapping(keys)
        with self._lock:
            self.reading.opened_with[str(folder)] = dict(keys)
            self._remapped = True
        self._wake.set()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Subscribe to changes; call the returned function to unsubscribe.

        The reader holds a reference to the listener until then. It calls the listener on its own thread, with
        the run that changed, or None if the list of runs of a root changed. The listener must return at once.
        """
        with self._lock:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unsubscribe

    def barrier(self, index: RunIndex) -> Barrier:
        """Return what is reached once all lines that a run's files hold now are in a snapshot.

        It is also reached if the run cannot be read, or is not followed any more. Who gives up sets it.
        """
        barrier = Barrier()
        with self._lock:
            self._barriers.append((index, barrier))
        self._wake.set()
        return barrier

    def stop(self) -> None:
        """Stop the thread and the file watches, and wait up to five seconds for them to end."""
        self._stop.set()
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)

    @property
    def runs(self) -> list[RunIndex]:
        """Runs that are followed."""
        with self._lock:
            return list(self._runs.values())

    @property
    def started(self) -> bool:
        """True once the reading thread was started."""
        return self._thread is not None

    @property
    def idle_seconds(self) -> float:
        """Seconds since the thread last finished a round; 0 before it is started."""
        return time.monotonic() - self._last_round if self._thread is not None else 0.0

    @property
    def stopped(self) -> bool:
        """True once `stop` was called; a stopped reader cannot be started again."""
        return self._stop.is_set()

    # -- the thread ------------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._loop, name="rlpanel-reader", daemon=True)
                self._thread.start()
        self._wake.set()

    def _loop(self) -> None:
        waiting, last_round = False, 0.0
        while not self._stop.is_set():
            # The wait has a time limit for what is due, and for file systems that lose events.
            due = (index.next_due for index in self.runs)
            if not waiting and self._wake.wait(min(self._interval(), self._run_faults.next_attempt, *due)):
                # Debounce: a line after a pause is read at once, a stream of lines is read in batches.
                time.sleep(max(0.0, last_round + self.reading.debounce - time.monotonic()))
            self._wake.clear()
            waiting = self._safe_round()
            last_round = self._last_round = time.monotonic()
            self.rounds += 1
        with self._lock:
            self._dropped += self._runs.values()
        self._save({})
        self._watches.stop()
        self.workers.close()

    def _safe_round(self) -> bool:
        """Run one round. An error outside of any run is stored, and the next round tries again."""
        try:
            waiting = self._round()
        except Exception as error:
            self.failure = self._round_faults.note(None, "the reader failed and tries again", error)
            self._stop.wait(self._round_faults.rest(None))
            return False
        self._round_faults.clear(None)
        self.failure = ""
        return waiting

    def _round(self) -> bool:
        """Do everything that is due; True if there are unread lines left."""
        with self._lock:
            runs, roots = dict(self._runs), list(self._roots.values())
            new_runs, self._new_runs = self._new_runs, set()
            remapped, self._remapped = self._remapped, False
            self._barriers = [pair for pair in self._barriers if not pair[1].reached.is_set()]
            barriers = list(self._barriers)
        self._watches.set_folders({*runs, *(root.path for root in roots)})
        dirty, moved = self._watches.take_changes()
        self._files_moved |= moved
        early = remapped or (self._files_moved and self._runs_due(self._interval_moved))
        rescan_roots = self._roots_due(max(self.reading.rescan_interval, self._root_timer.interval)) or early
        rescan_runs = self._runs_due(max(self._interval(), self._run_timer.interval)) or early
        began = time.monotonic()
        for root in roots:
            if (rescan_roots or root.runs is None) and not self._root_faults.rest(root.path):
                self._refresh(root)
        if rescan_roots:
            self._root_timer.record(time.monotonic() - began)
        self._forget_faults(runs, new_runs)
        failed = {path for path in runs if self._run_faults.reason(path)}
        ready = {path: index for path, index in runs.items() if not self._run_faults.rest(path)}
        anew = new_runs | failed | {index.path for index, barrier in barriers if not barrier.is_armed}
        rescanned = [path for path in ready if rescan_runs or path in anew]
        for index, barrier in barriers:
            if not barrier.is_armed:
                list_anew(index.path)  # a listing from before the call may lack lines
        unchanged: set[AnyPath] = set()
        seconds = 0.0
        for path in rescanned:
            began, is_timed = time.monotonic(), not early and path not in anew
            looked = self._rescan(ready[path], failed=path in failed, unless_same=is_timed)
            if looked is None:
                del ready[path]
            elif not looked:
                unchanged.add(path)
            if not is_remote(path):  # remote runs are listed no more often than their store allows
                seconds += time.monotonic() - began
        for index, barrier in barriers:
            if not barrier.is_armed and ready.get(index.path) is index:
                index.arm(barrier)
        if rescan_runs:
            self._files_moved = False
            self._run_timer.record(seconds)
        waiting, looked_at = False, set(rescanned) - unchanged
        versions = [index.version for index in runs.values()]
        for path, index in ready.items():
            waiting |= self._read_safely(index, None if path in looked_at else dirty)
        for index, barrier in barriers:
            is_read = ready.get(index.path) is index and index.path not in self.failing
            if not is_read or index.has_passed(barrier):
                barrier.reached.set()
        if all(index.needs_no_workers for index in runs.values()):
            self.workers.close()
        self._had_changes = versions != [index.version for index in runs.values()]
        self._save(runs)
        return waiting

    def _save(self, runs: dict[AnyPath, RunIndex]) -> None:
        """Save the runs to the cache where a save is due, and close the cache of dropped runs."""
        with self._lock:
            dropped, self._dropped = self._dropped, []
        for index in dropped:
            try:
                index.close()
            except Exception as error:  # nobody looks at it any more
                self._save_faults.note(index.path, f"{index.name} cannot be closed", error)
        for index in runs.values():
            try:
                index.save()
            except Exception as error:
                index.stop_saving(describe_error(error))
                self._save_faults.note(index.path, f"{index.name} is not saved", error)

    # -- errors of one run or root ---------------------------------------------------------------

    def _refresh(self, root: WatchedRoot) -> None:
        """List the runs of a root again; an error concerns that root only."""
        try:
            changed = root.refresh()
        except Exception as error:
            root.failure = self._root_faults.note(root.path, f"{root.path} cannot be listed", error)
            return
        self._root_faults.clear(root.path)
        if changed:
            self._notify(None)

    def _rescan(self, index: RunIndex, *, failed: bool, unless_same: bool) -> bool | None:
        """Update the files of a run, and start anew if it has ``failed``.

        Returns None after an error, and False if ``unless_same`` let it do nothing.
        """
        try:
            if failed:
                index.restart()
            return index.rescan(unless_same=unless_same)
        except Exception as error:
            self._fail(index, error)
            return None

    def _read_safely(self, index: RunIndex, dirty: set[str] | None) -> bool:
        """Read a run as `_read` does; an error is shown in that run only."""
        try:
            waiting = self._read(index, dirty)
        except Exception as error:
            self._fail(index, error)
            return False
        if index.path in self.failing:
            self._run_faults.clear(index.path)
            self._forget_failing(index.path)
        return waiting

    def _fail(self, index: RunIndex, error: Exception) -> None:
        """Show in a run that it cannot be read; it is tried again after a while."""
        what = f"{index.name} cannot be read (other runs are not affected)"
        reason = self._run_faults.note(index.path, what, error)
        index.fail(reason)
        self.failing = {**self.failing, index.path: reason}
        self._notify(index)

    def _forget_faults(self, runs: dict[AnyPath, RunIndex], new_runs: set[AnyPath]) -> None:
        """Forget the errors of runs that were closed, also if they were opened again."""
        for path in [path for path in self.failing if path not in runs or path in new_runs]:
            self._run_faults.forget(path)
            self._forget_failing(path)

    def _forget_failing(self, path: AnyPath) -> None:
        # Other threads read the dictionary, so it is replaced.
        self.failing = {other: reason for other, reason in self.failing.items() if other != path}

    def _read(self, index: RunIndex, dirty: set[str] | None) -> bool:
        """Read a run's new lines for `_CATCH_UP_NOTICE` seconds; True if there are unread lines left."""
        before, bytes_before, version = index.snapshot, index.bytes_read, index.version
        deadline = time.monotonic() + _CATCH_UP_NOTICE
        index.read(dirty, _CATCH_UP_NOTICE)
        while index.busy and time.monotonic() < deadline and not self._stop.is_set():
            index.read(set(), deadline - time.monotonic())
        if index.version == 0:
            index.commit()  # a run without samples is published, too
        if index.version != version:
            self._count(before, index.snapshot, index.bytes_read - bytes_before)
            index.prepare_view()
            self._notify(index)
        index.compute_statistics()  # last: a page needs few of them, and computes those itself if it is first
        return index.busy

    def _count(self, before: Snapshot, after: Snapshot, read: int) -> None:
        """Add to the counters; dead rows never decrease them."""
        gained = (after.all_samples + after.bad_count) - (before.all_samples + before.bad_count)
        self.lines += max(0, gained)
        self.bytes += read

    def _notify(self, index: RunIndex | None) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(index)
            except Exception:  # an error in a listener must not stop the reader
                log.exception("a listener failed")

    @property
    def _interval_moved(self) -> float:
        """Seconds between two rescans while files are added or removed."""
        return max(self._run_timer.interval_moved, self._root_timer.interval_moved)

    def _interval(self) -> float:
        """Return the seconds between two rescans of the runs; fewer while a polled run is being written."""
        if self._files_moved:
            return self._interval_moved
        if self._watches.events:
            return self.reading.rescan_interval
        return self.reading.poll_interval / (_SPEEDUP if self._had_changes else 1)
