"""Index of one run: finds its files, reads them, adds what was read, and publishes snapshots.

It is used by a single thread.
The rows depend only on the bytes of the files, not on when or in which pieces they were read. Other threads
may use `RunIndex.snapshot` only, unless a method says otherwise.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace

from rlpanel.metrics.engine.constants import gather_constants
from rlpanel.settings import Reading, StoreLimits, Training
from rlpanel.sources.discovery.directory import RolloutFileInfo, open_file
from rlpanel.sources.discovery.folder_config import RunJson
from rlpanel.sources.files.file_access import AnyPath, Unread, path_of
from rlpanel.sources.live.live_file_reader import has_live
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.store.backlog.backlog import Backlog
from rlpanel.store.backlog.workers import WorkerPool
from rlpanel.store.cache.cache_folder import note_log_rights
from rlpanel.store.cache.run_cache import RunCache
from rlpanel.store.columns.page_memory import trim_heap
from rlpanel.store.columns.row_table import RowTable
from rlpanel.store.columns.scalar_log import ScalarLog
from rlpanel.store.index.barrier import Barrier, gained
from rlpanel.store.index.older_lines import BacklogRanges, LinesAgain, RemoteFetch
from rlpanel.store.index.run_content import RunContent
from rlpanel.store.index.run_files import RunFile, RunFiles
from rlpanel.store.index.run_folder import AGAIN, RunFolder, Setting, run_settings
from rlpanel.store.index.saved_rows import SavedRows
from rlpanel.store.index.snapshot_builder import SnapshotBuilder
from rlpanel.store.index.summary_store import SummaryStore, summarize
from rlpanel.store.snapshot.run_view import MemoryKey, RunView, SplitMemory
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.snapshot_cache import MAX_CHARS, TextCache

#: After reading this many bytes, free memory is returned to the system.
TRIM_AFTER_BYTES = 64 << 20


#: Seconds between two snapshots of a remote run while many of its files have unread lines.
_BETWEEN = 0.5


class RunIndex:
    """Reads a run's files into rows and statistics.

    Parameters
    ----------
    path : path
        The run's folder.
    name : str
        Displayed name.
    reading : Reading, optional
        Settings of the reader.
    root : path, optional
        Linked files are read only below this folder; the run's folder by default.
    workers : WorkerPool, optional
        Workers that help with a backlog; without them the calling thread reads it.
    limits : StoreLimits, optional
    texts : TextCache, optional
        Texts of samples that queries have read; the runs of a reader share one cache.
    summaries : SummaryStore, optional
        Where the run's summary is noted for lists.

    Attributes
    ----------
    view : RunView
        A view of the newest snapshot.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str,
        reading: Reading | None = None,
        root: str | os.PathLike[str] | None = None,
        workers: WorkerPool | None = None,
        limits: StoreLimits | None = None,
        texts: TextCache | None = None,
        summaries: SummaryStore | None = None,
    ) -> None:
        self.path = path_of(path)
        self.name = name
        self.reading = reading or Reading()
        self.limits = limits or StoreLimits()
        self.texts = texts or TextCache(MAX_CHARS)
        self.summaries = summaries or SummaryStore()
        self._settings, self._settings_due = dict[str, Setting](), -math.inf
        self._root, self._workers = path_of(root or self.path), workers
        self._training = Training.from_environment().given()
        self._former: dict[str, RunFile] = {}  # files from before the last `restart`
        self._begin()
        self.view = RunView(Snapshot(name), self._memories)

    def _begin(self, version: int = 0, bytes_read: int = 0) -> None:
        """Start without any row, after a version."""
        self._memories: dict[MemoryKey, SplitMemory] = {}
        self._folder = RunFolder(self.path, self._root, self.reading)
        self._scalars = ScalarLog(self.path, self._root)
        self._files = RunFiles(self.reading.line_rest)
        self._table = RowTable(self.limits.table)
        self._backlog = Backlog(self._workers, self.limits.backlog.range_bytes)
        self._content = RunContent(
            self._files, self._table, self._backlog, self.reading.line_rest, version + 1, bytes_read
        )
        self._remote = RemoteFetch.of(self.path, self._files, self.reading.turn_bytes)
        self._ranges = BacklogRanges(self._content, self.reading.backlog_bytes)
        self._again = LinesAgain(self._content, self.reading.turn_bytes)
        shared = self.reading.index
        cache = RunCache(self.path, self.reading.line_bytes, shared) if self.reading.cache else None
        self._saved = SavedRows(self._content, cache, self.limits)
        self._builder = SnapshotBuilder(self.name, self._folder, self._content, self._scalars, self._saved)
        self._run_json = RunJson(self.path)
        self._update_constants()
        self._committed_at = 0.0
        self._prepared = 0  # samples of the run when its view was prepared
        self._trimmed_at = bytes_read  # `bytes_read` when memory was last returned to the system

    # -- reading ---------------------------------------------------------------------------------

    def rescan(self, *, unless_same: bool = False) -> bool:
        """Update the list of files. While the folder cannot be read, its last state is kept.

        This also releases the memory of saved rows that queries have read since the last time.

        Parameters
        ----------
        unless_same : bool
            Whether nothing is to be done for a remote folder whose listings have not changed.

        Returns
        -------
        bool
            False if nothing was done.
        """
        if self._remote is not None and self._remote.is_same() and unless_same:
            return False
        self._table.columns.release()
        bad_beside = self._folder.bad_count
        seen = self._folder.list_files()
        if seen is None:
            return True
        self._content.changed |= bad_beside != self._folder.bad_count
        note_log_rights(self.path, (found.status for found in seen.values()))
        if self._run_json.refresh():
            self._update_constants()
        self._saved.restore(seen, self._add_file)
        for name, found in seen.items():
            self._add_file(name, found)
        self._drop_missing(seen)
        self._ranges.queue(seen)
        self._files.sort()
        if self._saved.backfill is not None:
            self._saved.backfill.stuck = False
        self._scalars.rescan()
        self._builder.has_live = has_live(self.path)
        if self._remote is not None:
            self._remote.note_look()
        return True

    def read(self, only: set[str] | None = None, seconds: float = math.inf) -> bool:
        """Read at most ``turn_bytes`` of each file; True if there may be unread lines left.

        Parameters
        ----------
        only : set of str, optional
            Paths on disk that changed; files with unread lines are read as well. All by default.
        seconds : float
            Time limit for starting on further files, see `RunFiles.turns`.
        """
        if not self._folder.problem:
            for file in self._files.turns(only, seconds):
                if self._remote is not None:
                    self._remote.before(file)
                self._content.read(file, file.reader.poll(self.reading.turn_bytes))
            if self._files.again:
                self._again.read()
            self._content.read_ends(all_files=False)
            if self._backlog:
                self._ranges.read()
            if self._saved.backfill is not None:
                self._saved.run_backfill()
            if self._remote is not None:
                self._remote.end()
            self._content.changed |= self._scalars.read(only, self.reading.turn_bytes)
        self._builder.note_progress()
        if self._is_due:
            self._publish_changes()
        return not self.snapshot.progress.caught_up

    def read_last_lines(self) -> None:
        """Read last lines without a newline now, for a run that is read once; report what is incomplete.

        What is held back of files that are being rewritten is shown as well.

        A file that has changed since has unread lines again.
        """
        if not self._folder.problem:
            self._content.read_ends(all_files=True)
        self._publish_changes()

    def arm(self, barrier: Barrier) -> None:
        """Note for a barrier how much the files hold, as they were listed last."""
        barrier.arm(self._files)

    def unread_bytes(self) -> dict[str, int]:
        """Return how many bytes each file has gained since it was read, by its name; see `gained`."""
        return gained(self._files)

    def has_passed(self, barrier: Barrier) -> bool:
        """Return True if a snapshot has all lines that the files held when a barrier was armed."""
        if self._folder.problem:  # the snapshot says so
            return True
        backfill = self._saved.backfill
        fills = backfill is not None and not backfill.stuck
        reads_older = self.has_backlog and not self._backlog.halted
        return barrier.update(self._files) and not (reads_older or fills or self._scalars.more)

    @property
    def root(self) -> AnyPath:
        """Highest folder that is shown; the run's folder if it was opened alone."""
        return self._root

    @property
    def snapshot(self) -> Snapshot:
        """The newest published snapshot."""
        return self.view.snapshot

    @property
    def version(self) -> int:
        """Version of the snapshot; 0 before the first commit."""
        return self.snapshot.version

    @property
    def bytes_read(self) -> int:
        """Bytes read so far, including those of files that were replaced since."""
        return self._content.bytes_read

    @property
    def busy(self) -> bool:
        """True if another `read` makes progress at once and waits for no process."""
        backfill = self._saved.backfill
        backfills = backfill is not None and not backfill.stuck
        more = backfills or self._scalars.more or self._files.has_waiting
        return not self._folder.problem and (more or self._backlog.busy)

    @property
    def next_due(self) -> float:
        """Seconds until a file that is being rewritten counts as complete; infinite without one."""
        return self._content.rewritten.next_due

    @property
    def has_backlog(self) -> bool:
        """True if a backlog is being read, in ranges from its end, so that lines arrive out of order."""
        return bool(self._backlog)

    @property
    def needs_no_workers(self) -> bool:
        """True if no worker process is needed at the moment."""
        return self._backlog.needs_no_workers

    def pause(self, halted: bool) -> None:
        """Pause or resume the reading of a backlog; new lines are read in either case.

        Thread-safe; the next snapshot shows it.
        """
        self._backlog.halted = halted and self.has_backlog
        if self._workers is not None:
            self._workers.wake()

    def commit(self) -> None:
        """Publish everything read so far as a new snapshot."""
        before = self.snapshot
        self._content.add_staged()
        self.view = RunView(self._builder.build(), self._memories, self._table.columns.release)
        self._content.commit()
        self._committed_at = time.monotonic()
        constants = self.snapshot.constants
        if self._committed_at >= self._settings_due or constants is not before.constants:
            self._settings = run_settings(constants.logged, self.path, self._root)
            self._settings_due = time.monotonic() + AGAIN
        self.summaries.note(self.path, summarize(self.snapshot, time.time(), self._settings))
        caught_up = self.snapshot.progress.caught_up and not before.progress.caught_up
        if caught_up and self.bytes_read - self._trimmed_at >= TRIM_AFTER_BYTES:
            self._trimmed_at = self.bytes_read
            trim_heap()

    def prepare_view(self) -> None:
        """Let the view of a large run compute what each page needs, before pages are notified of it.

        It is done again when the run has doubled: what a step adds is computed quickly.
        """
        samples = self.snapshot.samples
        if samples >= max(self.limits.table.prepared_rows, 2 * self._prepared):
            self._prepared = samples
            self.view.prepare()

    def compute_statistics(self) -> None:
        """Compute the step statistics that nobody needed so far, so that no page waits for them later."""
        self._table.compute_statistics()

    def save(self, *, last: bool = False) -> None:
        """Save to the cache if a save is due or this is the ``last`` one; small logs are not saved."""
        if self._saved.is_due(self.snapshot, last=last):
            if self._content.changed:
                self.commit()
            if self._saved.save(self.version):
                self.summaries.save(self.path)
        if last:
            self._saved.release()

    def close(self) -> None:
        """Save for the last time and cancel the backlog."""
        self.save(last=True)
        self._backlog.cancel()

    def fail(self, reason: str) -> None:
        """Publish the last rows as those of a run that cannot be read, with the reason.

        Call it after an unexpected error. Nothing is saved until `restart`, because that error may have left
        things half done.
        """
        problem = f"the run cannot be read: {reason}; its last state is shown"
        self._backlog.cancel()
        self._saved.stop()
        before = self.snapshot
        snapshot = replace(
            before,
            version=before.version + 1,
            problems=(problem,),
            unread=(Unread("./", problem, ""),),
            progress=replace(before.progress, caught_up=True, halted=False),
        )
        self.view = self.view.with_snapshot(snapshot)

    def restart(self) -> None:
        """Read the run anew after `fail`; the next commit publishes what was read."""
        self._former |= self._files.by_name
        self._begin(self.version, self.bytes_read)

    def stop_saving(self, reason: str) -> None:
        """Go on without saving, after an unexpected error; the next snapshot gives the reason."""
        self._saved.stop(f"the columns are not saved: {reason}")

    def reader(self, name: str) -> JsonlFile:
        """Return the reader of a file. Thread-safe, for fetching single lines."""
        file = self._files.by_name.get(name)
        return (file or self._former[name]).reader

    # -- internals -------------------------------------------------------------------------------

    def _publish_changes(self) -> None:
        """Publish a snapshot if anything has changed since the last one."""
        if self._content.changed or self._builder.differs(self.snapshot):
            self.commit()

    @property
    def _is_due(self) -> bool:
        """True if changes may be published: old lines of a backlog wait, as pages draw each snapshot."""
        backlog, published = self._backlog, self.snapshot.progress
        if self._remote is not None and self._files.has_waiting:
            # Each file brings few lines: a snapshot for a handful of them takes longer than to read them.
            return time.monotonic() - self._committed_at >= _BETWEEN
        if not backlog or backlog.halted or published.caught_up or self._content.has_new_lines:
            return True
        return time.monotonic() - self._committed_at >= self.limits.backlog.notice_seconds

    def _add_file(self, name: str, found: RolloutFileInfo) -> RunFile:
        """Add a file that was found in the folder, or update it if it is known already."""
        file = self._files.by_name.get(name)
        if file is None:
            file = self._files.add(name, open_file(found, self.reading))
            self._table.files.append(name)
            self._content.changed = True
        elif file.gone:
            file.gone = False
            self._content.deleted.pop(name, None)
            self._files.wait(file)
        if found.container not in (None, file.reader.container):
            self._content.open_anew(file, open_file(found, self.reading))
        file.modified = found.status.st_mtime
        if found.adapter.name != file.reader.adapter.name:
            self._again.change_adapter(file, found.adapter)
        self._table.note_format(file.number, found.adapter)
        return file

    def _drop_missing(self, seen: dict[str, RolloutFileInfo]) -> None:
        """Discard the rows of deleted files; files that an unreadable folder may hide keep theirs."""
        content = self._content
        content.add_staged()
        gone = [
            file
            for name, file in self._files.by_name.items()
            if name not in seen and not (file.gone or self._folder.hides(name) or content.begins_anew(file))
        ]
        for file in gone:
            rows = self._table.count_rows(file.number)
            if rows:
                content.deleted[file.reader.name] = rows
            file.mark_gone()
        content.discard(gone)

    def _update_constants(self) -> None:
        """Update the training constants; if rows were computed with different ones, read all files again."""
        constants = gather_constants(self._run_json.content, self._training)
        before, self._table.stage.constants = self._table.stage.constants, constants
        self._backlog.constants = constants
        self._content.changed = True
        if before.at_ingest != constants.at_ingest:
            self._content.discard_all()
