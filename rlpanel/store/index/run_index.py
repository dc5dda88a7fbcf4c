"""Index of one run: reads its files into rows and statistics. Used by a single thread.

The rows depend only on the bytes of the files, not on when or in which pieces they were read. Other threads
may use `RunIndex.snapshot` only, unless a method says otherwise.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from rlpanel.errors import SourceChanged, SourceDamaged, SourceUnready
from rlpanel.metrics.engine.constants import gather_constants
from rlpanel.settings import Reading, StoreLimits, Training
from rlpanel.sources.discovery.directory import RolloutFileInfo
from rlpanel.sources.discovery.open_file import open_file
from rlpanel.sources.discovery.run_json import RunJson
from rlpanel.sources.files import file_access
from rlpanel.sources.files.file_access import path_of
from rlpanel.sources.files.unreadable import Unread, reason_of
from rlpanel.sources.readers.jsonl import ChangedLine, JsonlFile
from rlpanel.sources.records.record_types import Adapter, BadLine, Chunk, changed_lines
from rlpanel.store.backlog.backlog import Backlog, open_near_end
from rlpanel.store.backlog.range_reader import ByteRange, RangeResult
from rlpanel.store.backlog.workers import WorkerPool
from rlpanel.store.cache.log_rights import note_log_rights
from rlpanel.store.cache.run_cache import RunCache
from rlpanel.store.columns.page_memory import trim_heap
from rlpanel.store.columns.run_table import RunTable
from rlpanel.store.columns.scalar_log import ScalarLog
from rlpanel.store.index.column_backfill import ColumnBackfill
from rlpanel.store.index.rewritten_files import RewrittenFiles
from rlpanel.store.index.run_files import ReadCounts, RunFile, RunFiles
from rlpanel.store.index.run_folder import RunFolder
from rlpanel.store.index.run_summary import SUMMARIES, summarize
from rlpanel.store.index.saved_rows import restore_run, saved_run
from rlpanel.store.index.snapshot_builder import (
    RunStatus,
    Throughput,
    build_snapshot,
    list_problems,
    measure_progress,
    unread_files,
)
from rlpanel.store.index.text_cache import MAX_CHARS, TextCache
from rlpanel.store.snapshot.run_view import MemoryKey, RunView, SplitMemory
from rlpanel.store.snapshot.snapshot import BadLineAt, Snapshot

#: After reading this many bytes, free memory is returned to the system.
TRIM_AFTER_BYTES = 64 << 20
#: Bytes of a compressed file that are read for one line of it.
_STRIDE = 4 << 20


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

    Attributes
    ----------
    snapshot : Snapshot
        The newest published snapshot.
    version : int
        Version of the snapshot; 0 before the first commit.
    bytes_read : int
        Bytes read so far, including those of files that were replaced since.
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
    ) -> None:
        self.path = path_of(path)
        self.name = name
        self.reading = reading or Reading()
        self.limits = limits or StoreLimits()
        self.texts = texts or TextCache(MAX_CHARS)
        self.version = 0
        self.bytes_read = 0
        self._root, self._workers = path_of(root or self.path), workers
        self._training = Training.from_environment().given()
        self._former: dict[str, RunFile] = {}  # files from before the last `restart`
        self._begin()
        self.view = RunView(Snapshot(name), self._memories)

    def _begin(self) -> None:
        """Start without any row."""
        self._memories: dict[MemoryKey, SplitMemory] = {}
        self._folder = RunFolder(self.path, self._root, self.reading)
        self._scalars = ScalarLog(self.path, self._root)
        self._files = RunFiles(self.reading.line_rest)
        self._rewritten = RewrittenFiles(self.reading.line_rest)
        self._backlog = Backlog(self._workers, self.limits.backlog.range_bytes)
        self._throughput = Throughput()
        self._table = RunTable(self.limits.table)
        self._run_json = RunJson(self.path)
        self._update_constants()
        self._bad_lines: tuple[BadLineAt, ...] | None = ()
        self._newest_line = 0.0
        self._changed = False
        self._has_new_lines = False  # whether lines were read that are not old lines of a backlog
        self._committed_at = 0.0
        self._cache = RunCache(self.path, self.reading.line_bytes) if self.reading.cache else None
        self._resumed = False
        self._backfill: ColumnBackfill | None = None
        self._not_saved = ""  # reason why the rows are not saved, if that failed in an unexpected way
        self._saved_version = 0  # version of the last save
        self._trimmed_at = self.bytes_read  # `bytes_read` when memory was last returned to the system
        self._renumbered = False  # whether line numbers of saved rows have changed since

    # -- reading ---------------------------------------------------------------------------------

    def rescan(self) -> None:
        """Update the list of files. While the folder cannot be read, its last state is kept.

        This also releases the memory of saved rows that queries have read since the last time.
        """
        self._table.columns.release()
        bad_beside = self._folder.bad_count
        seen = self._folder.list_files()
        if seen is None:
            return
        self._changed |= bad_beside != self._folder.bad_count
        note_log_rights(self.path, (found.status for found in seen.values()))
        if self._run_json.refresh():
            self._update_constants()
        if not self._resumed:
            self._resume(seen)
        for name, found in seen.items():
            self._add_file(name, found)
        self._drop_missing(seen)
        self._start_backlog(seen)
        self._files.sort()
        if self._backfill is not None:
            self._backfill.stuck = False
        self._scalars.rescan()

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
                self._read_file(file, file.reader.poll(self.reading.turn_bytes))
            self._read_again()
            self._read_ends(all_files=False)
            self._show_rewritten(all_files=False)
            for byte_range, result in self._backlog.results():
                self._add_range(byte_range, result)
            self._run_backfill()
            self._changed |= self._scalars.read(only, self.reading.turn_bytes)
        if self._is_due and (self._changed or self._status_changed()):
            self.commit()
        return not self.snapshot.progress.caught_up

    def read_last_lines(self) -> None:
        """Read last lines without a newline now, for a run that is read once; report what is incomplete.

        What is held back of files that are being rewritten is shown as well.

        A file that has changed since has unread lines again.
        """
        if not self._folder.problem:
            self._read_ends(all_files=True)
            self._show_rewritten(all_files=True)
        if self._changed or self._status_changed():
            self.commit()

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot."""
        return self.view.snapshot

    @property
    def busy(self) -> bool:
        """True if another `read` makes progress at once and waits for no process."""
        backfills = self._backfill is not None and not self._backfill.stuck
        more = backfills or self._scalars.more or self._files.has_waiting
        return not self._folder.problem and (more or self._backlog.busy)

    @property
    def next_due(self) -> float:
        """Seconds until a file that is being rewritten counts as complete; infinite without one."""
        return self._rewritten.next_due

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
        self._table.add_staged(self._next_version)
        self._add_rejected()
        self.version += 1
        self._changed = self._has_new_lines = False
        self._committed_at = time.monotonic()
        before, release = self.snapshot, self._table.columns.release
        self.view = RunView(self._build_snapshot(), self._memories, release)
        SUMMARIES.note(self.path, summarize(self.snapshot, time.time()))
        caught_up = self.snapshot.progress.caught_up and not before.progress.caught_up
        if caught_up and self.bytes_read - self._trimmed_at >= TRIM_AFTER_BYTES:
            self._trimmed_at = self.bytes_read
            trim_heap()

    def compute_statistics(self) -> None:
        """Compute the step statistics that nobody needed so far, so that no page waits for them later."""
        self._table.compute_statistics()

    def save(self, *, last: bool = False) -> None:
        """Save to the cache if a save is due or this is the ``last`` one; small logs are not saved.

        Once line numbers have changed, everything must be written again; so this waits for the backlog.
        """
        cache = self._cache
        if cache is None:
            return
        is_large = self.snapshot.progress.bytes_read >= self.limits.cache.min_log_bytes
        is_worthwhile = is_large and self._backfill is None
        if self._renumbered and self.has_backlog and not last:
            is_worthwhile = False
        if is_worthwhile and self._saved_version != self.version and (last or cache.due):
            if self._changed:
                self.commit()
            if cache.save(saved_run(self._table, self._files.numbered, self._backlog, self._newest_line)):
                self._saved_version, self._renumbered = self.version, False
                SUMMARIES.save(self.path)
        if last:
            cache.close()

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
        self._close_cache()
        before, self.version = self.snapshot, self._next_version
        snapshot = replace(
            before,
            version=self.version,
            problems=(problem,),
            unread=(Unread("./", problem, ""),),
            progress=replace(before.progress, caught_up=True, halted=False),
        )
        self.view = self.view.with_snapshot(snapshot)

    def restart(self) -> None:
        """Read the run anew after `fail`; the next commit publishes what was read."""
        self._former |= self._files.by_name
        self._begin()

    def stop_saving(self, reason: str) -> None:
        """Go on without saving, after an unexpected error; the next snapshot gives the reason."""
        self._not_saved = f"the columns are not saved: {reason}"
        self._close_cache()

    def reader(self, name: str) -> JsonlFile:
        """Return the reader of a file. Thread-safe, for fetching single lines."""
        file = self._files.by_name.get(name)
        return (file or self._former[name]).reader

    # -- internals -------------------------------------------------------------------------------

    def _close_cache(self) -> None:
        cache, self._cache = self._cache, None
        if cache is not None:
            cache.close()

    @property
    def _is_due(self) -> bool:
        """True if changes may be published: old lines of a backlog wait, as pages draw each snapshot."""
        backlog, published = self._backlog, self.snapshot.progress
        if not backlog or backlog.halted or published.caught_up or self._has_new_lines:
            return True
        return time.monotonic() - self._committed_at >= self.limits.backlog.notice_seconds

    @property
    def _next_version(self) -> int:
        """Version of the next commit."""
        return self.version + 1

    def _add_file(self, name: str, found: RolloutFileInfo) -> RunFile:
        """Add a file that was found in the folder, or update it if it is known already."""
        file = self._files.by_name.get(name)
        if file is None:
            file = self._files.add(name, open_file(found, self.reading))
            self._table.files.append(name)
            self._changed = True
        elif file.gone:
            file.gone = False
            self._files.wait(file)
        file.modified = found.status.st_mtime
        if found.adapter.name != file.reader.adapter.name:
            self._change_adapter(file, found.adapter)
        self._table.note_format(file.number, found.adapter)
        return file

    def _change_adapter(self, file: RunFile, adapter: Adapter) -> None:
        """Read a file with another adapter: the lines that read otherwise, or all if these are not known."""
        changed = changed_lines(adapter, file.reader.adapter)
        if changed is not None and (file.number in self._backlog or file.number in self._files.again):
            return  # once these are read
        lines = None if changed is None else self._lines_to_read(file, changed)
        file.reader.use(adapter)
        if lines is None:
            self._read_whole_again(file)
        elif lines:
            self._files.again[file.number] = lines

    def _lines_to_read(self, file: RunFile, changed: Mapping[int, set[str]]) -> list[ChangedLine] | None:
        """Return the lines at these offsets; None if reading the whole file again is safer or faster."""
        tail = file.reader.tail
        self._table.add_staged(self._next_version)
        read = {offset for offset in changed if offset < tail.offset}  # later ones are read anyway
        lines = self._table.locators(file.number, read)
        # A compressed file is read from a place before each line on.
        cost = sum(line.length + (0 if file.reader.lines_on_disk else _STRIDE) for line in lines)
        if len(lines) < len(read) or cost >= tail.offset or file.reader.generation != file.generation:
            return None
        return [(line, changed[line.offset]) for line in lines]

    def _read_whole_again(self, file: RunFile) -> None:
        self._files.again.pop(file.number, None)
        self._rewritten.take(file)
        file.read_anew = True
        file.reader.tail.reset()
        self._files.wait(file)

    def _read_again(self) -> None:
        """Read lines again that an adapter reads otherwise now, at most ``turn_bytes`` of each file."""
        for number, lines in list(self._files.again.items()):
            file, size, part = self._files.numbered[number], 0, list[ChangedLine]()
            while lines and size < self.reading.turn_bytes:
                part.append(lines.pop())
                size += part[-1][0].length
            try:
                chunk = file.reader.read_again(part)
            except SourceChanged:  # it was rewritten, or the adapter was wrong about the lines
                self._read_whole_again(file)
                continue
            if not lines:
                del self._files.again[number]
            self.bytes_read += chunk.bytes
            self._table.replace_lines(number, chunk, self._next_version)
            self._add_bad_lines(file, chunk.bad)
            self._changed = self._has_new_lines = True

    def _drop_missing(self, seen: dict[str, RolloutFileInfo]) -> None:
        """Discard the rows of deleted files; files that an unreadable folder may hide keep theirs."""
        gone = [
            file
            for name, file in self._files.by_name.items()
            if name not in seen and not (file.gone or self._folder.hides(name) or self._begins_anew(file))
        ]
        for file in gone:
            file.mark_gone()
        self._invalidate(gone)

    def _begins_anew(self, file: RunFile) -> bool:
        """Return True if a file was emptied or begun again a moment ago, so no format accepts it yet."""
        if not file.reader.grows or not self._table.count_rows(file.number, self._next_version):
            return False
        try:
            changed = file_access.stat(file.reader.tail.path).st_mtime
        except OSError:  # deleted
            return False
        # The clock of another machine may have set the time.
        return abs(time.time() - changed) < self.reading.line_rest

    def _start_backlog(self, seen: dict[str, RolloutFileInfo]) -> None:
        """If much is unread, queue long files in ranges, newest first, and follow them from their ends."""
        unread = [
            (file, found.status)
            for name, found in seen.items()
            if (file := self._files.by_name[name]).number not in self._backlog
            and file not in self._rewritten
            and not file.reader.tail.open_end  # its next bytes belong to the line before
            and found.status.st_size > file.reader.tail.bytes_done
        ]
        waiting = sum(status.st_size - file.reader.tail.bytes_done for file, status in unread)
        if waiting < self.reading.backlog_bytes:
            return
        opened = [
            open_near_end(file.number, file.reader, status, len(unread), self._backlog.range_bytes)
            for file, status in unread
        ]
        for file, _ in unread:
            self._files.wait(file)  # a reader that was moved knows the file as it is now: no change is seen
        self._invalidate(
            [file for file, _ in unread if file.update_generation()]
        )  # replaced since they were read
        files = [unfinished for unfinished in opened if unfinished is not None]
        self._table.open_files(
            {unfinished.file: unfinished.start for unfinished in files}, self._next_version
        )
        self._backlog.add(files)

    def _add_range(self, byte_range: ByteRange, result: RangeResult | OSError) -> None:
        """Add the result of a range of a file in the backlog."""
        file = self._files.numbered[byte_range.file]
        self._files.touch(file)
        if isinstance(result, OSError) or result.outdated:
            self._backlog.drop(byte_range.file)
            file.reader.tail.reset()  # reading the file from its start reports the problem
            self._files.wait(file)
            return
        self.bytes_read += result.bytes
        file.blank_count += result.blank_count
        file.hole = file.hole.joined(result.hole)
        self._changed = True
        if result.rows is not None:
            self._table.add_rows(result.rows, self._next_version)
            self._newest_line = max(self._newest_line, min(file.reader.tail.modified, time.time()))
        if result.bad:
            file.add_bad_lines([replace(bad, line=0) for bad in result.bad], result.bad_count)
            self._bad_lines = None
        if self._backlog.add_result(byte_range, result):
            self._finish_file(file)

    def _finish_file(self, file: RunFile) -> None:
        """Assign line numbers to a file whose ranges have all been read."""
        finished = self._backlog.finish_file(file.number)
        file.reader.lines += finished.lines_before_end
        self._table.finish_file(file.number, finished.starts, finished.before, self._next_version)
        self._renumbered = True
        file.number_bad_lines(finished.bad)
        self._bad_lines = None

    def _update_constants(self) -> None:
        """Update the training constants; if rows were computed with different ones, read all files again."""
        constants = gather_constants(self._run_json.content, self._training)
        before, self._table.stage.constants = self._table.stage.constants, constants
        self._backlog.constants = constants
        self._changed = True
        if before.at_ingest != constants.at_ingest:
            files = [file for file in self._files.numbered if not file.gone]
            for file in files:
                file.reader.tail.reset()
                self._files.wait(file)
            self._invalidate(files)

    def _resume(self, seen: dict[str, RolloutFileInfo]) -> None:
        """Start with the rows from the cache, for all files that are unchanged or only grew."""
        self._resumed = True
        saved = self._cache.load() if self._cache is not None else None
        if saved is None or saved.constants != list(self._table.stage.constants.at_ingest):
            return
        restore_run(saved, seen, self._add_file, self._table, self._backlog, self._next_version)
        self._newest_line, self._bad_lines = saved.newest_line, None
        if saved.missing:
            self._backfill = ColumnBackfill(self._table, saved.missing, self.limits.backfill)

    def _run_backfill(self) -> None:
        """Continue to backfill the columns of new metrics, for rows that were saved without them."""
        if self._backfill is None:
            return
        files = self._files.numbered
        if self._backfill.run(lambda number: files[number].reader, self._next_version):
            self._backfill, self._changed = None, True

    def _read_ends(self, *, all_files: bool) -> None:
        """Read the last lines of files that have rested, or of all files; see `RestingFiles.due`."""
        for file, reported in self._files.resting.due(all_files=all_files):
            self._read_file(file, file.reader.read_end())
            if not (reported or file.retry):
                file.problem = None  # the writer may be about to complete it
            if file.more:
                self._files.wait(file)
            self._files.touch(file)

    def _read_file(self, file: RunFile, chunks: Iterator[Chunk]) -> None:
        """Add what a file's reader yields, and note why it cannot be read."""
        try:
            for chunk in chunks:
                self._add_chunk(file, chunk)
            file.problem, file.retry = None, False
        except SourceDamaged as error:
            file.problem = Unread(file.reader.name, str(error), "what comes before is kept")
            file.more = False
        except OSError as error:
            file.problem = Unread(file.reader.name, reason_of(error))
            file.more, file.retry = False, not isinstance(error, SourceUnready)
        except BaseException:
            file.reader.tail.reset()  # bytes that were read but not added must be read again
            raise

    def _invalidate(self, files: list[RunFile]) -> None:
        """Discard everything read from these files, because they were replaced or deleted."""
        if not files:
            return
        self._table.add_staged(self._next_version)
        self._add_rejected()
        for file in files:
            file.reset()
            self._files.touch(file)
            self._files.again.pop(file.number, None)
            self._rewritten.take(file)
            self._backlog.drop(file.number)
        self._bad_lines = None
        self._changed = True
        self._table.mark_dead([file.number for file in files], self._next_version)

    def _add_chunk(self, file: RunFile, chunk: Chunk) -> None:
        """Add a chunk read from a file, unless it is held back because the file is being rewritten."""
        file.more = chunk.more
        self.bytes_read += chunk.bytes
        if file.generation == file.reader.generation:
            self._take_chunk(file, chunk)
        elif file not in self._rewritten and not self._is_rewritten(file):
            self._replace(file, [chunk])
        elif self._rewritten.hold(file, chunk, self._table.count_rows(file.number, self._next_version)):
            self._replace(file, self._rewritten.take(file))

    def _is_rewritten(self, file: RunFile) -> bool:
        """Return True if the new content of a file may be incomplete, while its former rows are shown."""
        is_whole = file.read_anew or not file.reader.grows or file.number in self._table.backlog_starts
        return not is_whole and self._table.count_rows(file.number, self._next_version) > 0

    def _show_rewritten(self, *, all_files: bool) -> None:
        """Let the new content of files replace their former rows once it is complete."""
        for file in self._rewritten.due(all_files=all_files):
            self._replace(file, self._rewritten.take(file))

    def _replace(self, file: RunFile, chunks: list[Chunk]) -> None:
        """Let new content replace everything that was read from a file."""
        file.update_generation()
        self._invalidate([file])
        for chunk in chunks:
            self._take_chunk(file, chunk)

    def _take_chunk(self, file: RunFile, chunk: Chunk) -> None:
        file.blank_count += chunk.blank_lines
        file.hole = file.hole.joined(chunk.hole)
        if len(chunk):
            self._table.add_chunk(file.number, chunk, self._next_version)
        self._add_bad_lines(file, chunk.bad)
        if len(chunk) or chunk.bad:
            self._newest_line = max(self._newest_line, min(file.reader.tail.modified, time.time()))
            self._changed = self._has_new_lines = True

    def _add_bad_lines(self, file: RunFile, bad: list[BadLine]) -> None:
        """Add bad lines of a file, without their numbers while these are not known."""
        if not bad:
            return
        if file.number in self._backlog:
            self._backlog.add_live_bad_lines(file.number, bad)
            bad = [replace(line, line=0) for line in bad]
        file.add_bad_lines(bad, len(bad))
        self._bad_lines = None

    def _add_rejected(self) -> None:
        """Add the lines whose samples could not be converted to columns to the bad lines of their files."""
        stage = self._table.stage
        rejected, stage.rejected = stage.rejected, []
        for number, line in rejected:
            known = number not in self._backlog  # otherwise its number is counted from the start of a range
            file = self._files.numbered[number]
            file.add_bad_lines([line if known else replace(line, line=0)], 1)
            self._files.touch(file)
            self._bad_lines = None

    def _status(self) -> RunStatus:
        """Return the current progress and problems."""
        unread = unread_files(self._folder, self._files, self._scalars)
        return RunStatus(
            progress=measure_progress(
                self._folder, self._files, self._scalars, self._backlog, self._backfill, self._throughput
            ),
            problems=(
                *list_problems(self._folder, unread, self._table.stage.left_out, self._scalars),
                *filter(None, [self._not_saved]),
            ),
            unread=unread,
            newer_writers=self._folder.newer_writers,
        )

    def _status_changed(self) -> bool:
        """Return whether progress or problems differ from the published snapshot."""
        status, published = self._status(), self.snapshot
        return status.progress != published.progress or status.problems != published.problems

    def _build_snapshot(self) -> Snapshot:
        if self._bad_lines is None:
            self._bad_lines = tuple(bad for file in self._files.numbered for bad in file.bad)
        return build_snapshot(
            self.name,
            self.version,
            self._table,
            self._files.total + ReadCounts(bad=self._folder.bad_count),
            self._scalars,
            bad_lines=(*self._bad_lines, *self._folder.bad_lines),
            newest_line=self._newest_line,
            status=self._status(),
            remarks=self._folder.remarks,
        )
