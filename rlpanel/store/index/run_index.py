"""One run, indexed: its files, its rows, its statistics. Owned by a single thread.

Rows are a function of the files' bytes, whenever and in whatever pieces they were read. Only
`snapshot` is for others.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace

from rlpanel.errors import SourceDamaged, SourceUnready
from rlpanel.metrics.engine.constants import gather
from rlpanel.settings import Reading, Training
from rlpanel.sources.discovery.directory import Directory, Found
from rlpanel.sources.discovery.open_file import open_file
from rlpanel.sources.discovery.run_json import RunJson
from rlpanel.sources.files.files import is_remote, path_of
from rlpanel.sources.files.unread import Unread, reason_of
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import Chunk
from rlpanel.store.backlog.backlog import Backlog, OpenFile, open_at_end, restored
from rlpanel.store.backlog.range_reader import ByteRange, RangeResult
from rlpanel.store.backlog.throughput import Throughput
from rlpanel.store.backlog.workers import WorkerPool
from rlpanel.store.cache.run_cache import WORTH_BYTES, RunCache
from rlpanel.store.columns.page_memory import give_back
from rlpanel.store.columns.row_builder import MOST_COLUMNS
from rlpanel.store.columns.run_table import RunTable
from rlpanel.store.columns.scalar_log import ScalarLog
from rlpanel.store.columns.splits import default_of, shown_name
from rlpanel.store.columns.step_stats import Steps
from rlpanel.store.index.column_backfill import ColumnBackfill
from rlpanel.store.index.run_file import RunFile, files_to_read
from rlpanel.store.index.saved_rows import kept_rows, state_of
from rlpanel.store.snapshot.run_view import RunView, SplitMemory
from rlpanel.store.snapshot.snapshot import BadLineAt, Progress, Snapshot

#: Bytes of logs whose reading leaves memory behind that is worth giving back.
WORTH_TIDYING = 64 << 20


class RunIndex:
    """Reads a run's files into rows and statistics.

    Parameters
    ----------
    path : path
        The run's folder.
    name : str
        What views call it.
    reading : Reading, optional
        Budgets and bounds.
    root : path, optional
        Linked files count while they stay below it; the run's folder by default.
    workers : WorkerPool, optional
        Who helps with a backlog; the calling thread reads it alone by default.

    Attributes
    ----------
    snapshot : Snapshot
        The newest published state.
    version : int
        The snapshot's version; 0 before the first.
    bytes_read : int
        Bytes taken in so far, those of replaced files included.
    folder_problem : str
        Why the folder cannot be read just now; empty while it can.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str,
        reading: Reading | None = None,
        root: str | os.PathLike[str] | None = None,
        workers: WorkerPool | None = None,
    ) -> None:
        self.path = path_of(path)
        self._real = "" if is_remote(self.path) else os.path.realpath(self.path)
        self.name = name
        self.reading = reading or Reading()
        self._memories: dict[str, SplitMemory] = {}
        self.view = RunView(Snapshot(name), self._memories)
        self.version = 0
        self.bytes_read = 0
        self.folder_problem = ""
        self._unlisted: list[Unread] = []  # what may be of the run and cannot be looked at
        self._said = ""  # why what somebody said of these files is not followed
        self._directory = Directory(root or self.path, self.reading)
        self._scalars = ScalarLog(self.path, path_of(root or self.path))
        self._files: dict[str, RunFile] = {}
        self._numbered: list[RunFile] = []
        self._backlog, self._workers = Backlog(workers), workers
        self._pace = Throughput()
        self._table = RunTable()
        self._run_file = RunJson(self.path)
        self._training = Training.from_environment().given()
        self._update_constants()
        self._bad_lines: tuple[BadLineAt, ...] | None = ()
        self._newest_line = 0.0
        self._changed = False
        self._cache = RunCache(self.path, self.reading.line_bytes) if self.reading.cache else None
        self._resumed = False
        self._late: ColumnBackfill | None = None
        self._saved = 0  # version
        self._tidied = 0  # bytes that were read when the memory was last given back
        self._renumbered = False  # whether rows that are saved have other line numbers now

    # -- reading ---------------------------------------------------------------------------------

    def rescan(self) -> None:
        """Look for files that came or went. While the folder cannot be read its last state stays."""
        if self._real and os.path.realpath(self.path) != self._real:
            self.folder_problem = "the run's folder leads elsewhere now; its last state is shown"
            return
        try:
            listed, self._unlisted = self._directory.look(self.path)
        except FileNotFoundError:
            self.folder_problem = "the run's folder is gone; its last state is shown"
            return
        except OSError as error:
            self.folder_problem = (
                f"the run's folder cannot be read: {reason_of(error)}; its last state is shown"
            )
            return
        self.folder_problem = ""
        seen = {found.name: found for found in listed}
        self._said = self._directory.said.of(self.path).problem
        if self._run_file.changed():
            self._update_constants()
        if not self._resumed:
            self._resume(seen)
        for name, found in seen.items():
            self._add_file(name, found)
        gone = [
            file
            for name, file in self._files.items()
            if name not in seen and not file.gone and not any(one.covers(name) for one in self._unlisted)
        ]
        for file in gone:
            file.gone, file.more, file.problem, file.retry = True, False, None, False
            file.reader.tail.reset()
        self._invalidate(gone)
        self._start_backlog(seen)
        if self._late is not None:
            self._late.stuck = False
        self._scalars.rescan()

    def read(self, only: set[str] | None = None, seconds: float = math.inf) -> bool:
        """One turn: at most one budget from each file; True while whole lines may be waiting.

        Parameters
        ----------
        only : set of str, optional
            Paths on disk that changed; files with lines waiting are read as well. All by default.
        seconds : float
            Files that only have lines waiting are begun within this time, the newest first.
        """
        deadline = time.monotonic() + seconds
        if not self.folder_problem:
            changed, waiting = files_to_read(self._numbered, only)
            for file in changed:
                self._turn(file)
            for file in waiting:
                self._turn(file)
                if time.monotonic() > deadline:
                    break
            for where, piece in self._backlog.turn():
                self._add_range(where, piece)
            self._add_late()
            self._changed |= self._scalars.read(only, self.reading.turn_bytes)
        if self._changed or self._news():
            self.commit()
        return not self.snapshot.progress.caught_up

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot."""
        return self.view.snapshot

    @property
    def busy(self) -> bool:
        """Whether another turn would bring something at once, rather than wait for a process."""
        late = self._late is not None and not self._late.stuck
        more = late or self._scalars.more or any(file.more and not file.gone for file in self._numbered)
        return not self.folder_problem and (more or self._backlog.busy)

    @property
    def loose(self) -> bool:
        """Whether lines come out of order just now, because a backlog is read from its end."""
        return bool(self._backlog)

    @property
    def at_rest(self) -> bool:
        """Whether no process is needed for a backlog."""
        return self._backlog.at_rest

    def pause(self, halted: bool) -> None:
        """Read no more of a backlog for now, or go on with it; lines that come are read either way.

        From any thread; the next snapshot shows it.
        """
        self._backlog.halted = halted and self.loose
        if self._workers is not None:
            self._workers.wake()

    def commit(self) -> None:
        """Publish what was read."""
        self._table.add_staged(self._next)
        self.version += 1
        self._changed = False
        before, self.view = self.snapshot, RunView(self._freeze(), self._memories)
        caught_up = self.snapshot.progress.caught_up and not before.progress.caught_up
        if caught_up and self.bytes_read - self._tidied >= WORTH_TIDYING:
            self._tidied = self.bytes_read
            give_back()

    def save(self, *, last: bool = False) -> None:
        """Bring the index on disk up to date, at most every few seconds or for the ``last`` time.

        While a backlog is read, not after some file's lines got their numbers: then all is written anew.
        """
        cache = self._cache
        if cache is None:
            return
        worth = self.snapshot.progress.bytes_read >= WORTH_BYTES and self._late is None
        if self._renumbered and self.loose and not last:
            worth = False
        if worth and self._saved != self.version and (last or cache.due):
            if self._changed:
                self.commit()
            if cache.save(state_of(self._table, self._numbered, self._backlog, self._newest_line)):
                self._saved, self._renumbered = self.version, False
        if last:
            cache.close()

    def close(self) -> None:
        """Save what is whole and read no further."""
        self.save(last=True)
        self._backlog.cancel()

    def reader(self, name: str) -> JsonlFile:
        """The reader of a file, for `fetch` from any thread."""
        return self._files[name].reader

    # -- inside ----------------------------------------------------------------------------------

    @property
    def _next(self) -> int:
        """The version that the next commit will have."""
        return self.version + 1

    def _add_file(self, name: str, found: Found) -> None:
        file = self._files.get(name)
        if file is None:
            reader = open_file(found, self.reading)
            file = self._files[name] = RunFile(len(self._files), reader)
            self._numbered.append(file)
            self._table.files.append(name)
            self._changed = True
        elif file.gone:
            file.gone, file.more = False, True
        file.modified = found.status.st_mtime
        if file is not None and found.adapter.name != file.reader.adapter.name:
            # Somebody said meanwhile how the file is to be read.
            file.reader.adapter, file.more = found.adapter, True
            file.reader.tail.reset()

    def _start_backlog(self, seen: dict[str, Found]) -> None:
        """Where much is unread, let ranges of the long files come newest first, and follow their ends."""
        unread = [
            (file, found.status)
            for name, found in seen.items()
            if (file := self._files[name]).number not in self._backlog
            and found.status.st_size > file.reader.tail.done
        ]
        waiting = sum(status.st_size - file.reader.tail.done for file, status in unread)
        if waiting < self.reading.backlog_bytes:
            return
        loosened = [open_at_end(file.number, file.reader, status) for file, status in unread]
        for file, _ in unread:
            file.more = True  # what this look at it saw, a later one no longer calls a change
        self._invalidate([file for file, _ in unread if file.renewed()])  # replaced since it was read
        files = [loose for loose in loosened if loose is not None]
        self._table.loosen({loose.file: loose.start for loose in files}, self._next)
        self._backlog.add(files)

    def _add_range(self, where: ByteRange, piece: RangeResult | OSError) -> None:
        """Take in a range of a loose file."""
        file = self._numbered[where.file]
        if isinstance(piece, OSError) or piece.void:
            self._backlog.drop(where.file)
            file.reader.tail.reset()  # it is read from its beginning, and what is wrong shows there
            file.more = True
            return
        self.bytes_read += piece.bytes
        file.blank_count += piece.blank_count
        self._changed = True
        if piece.rows is not None:
            self._table.join(piece.rows, self._next)
            self._newest_line = max(self._newest_line, min(file.reader.tail.modified, time.time()))
        if piece.bad:
            file.keep_bad([replace(bad, line=0) for bad in piece.bad], piece.bad_count)
            self._bad_lines = None
        if self._backlog.take(where, piece):
            self._finish_file(file)

    def _finish_file(self, file: RunFile) -> None:
        """All ranges of a file are in."""
        settled = self._backlog.settle(file.number)
        file.reader.lines += settled.lines_before_end
        self._table.settle(file.number, settled.starts, settled.before, self._next)
        self._renumbered = True
        file.renumber(settled.bad)
        self._bad_lines = None

    def _update_constants(self) -> None:
        """What is known of the training; where rows were made with other constants, they are made again."""
        constants = gather(self._run_file.content, self._training)
        before, self._table.stage.constants = self._table.stage.constants, constants
        self._backlog.constants = constants
        self._changed = True
        if before.at_ingest != constants.at_ingest:
            files = [file for file in self._files.values() if not file.gone]
            for file in files:
                file.reader.tail.reset()
                file.more = True
            self._invalidate(files)

    def _resume(self, seen: dict[str, Found]) -> None:
        """Begin with the rows that are on disk, of files that are still what they were."""
        self._resumed = True
        saved = self._cache.load() if self._cache is not None else None
        constants = list(self._table.stage.constants.at_ingest)
        if saved is None or saved.constants != constants:
            return
        kept: dict[int, tuple[int, int]] = {}
        unsettled: list[OpenFile] = []
        for state in saved.files:
            found = seen.get(state.name)
            if found is None or found.adapter.name != state.adapter:
                continue
            self._add_file(state.name, found)
            file = self._files[state.name]
            loose = None
            if state.unsettled is not None:
                loose = restored(file.number, file.reader, state.unsettled, file.modified)
                if loose is None or saved.missing:
                    continue
            # What is late is read line by line, which a compressed file is not made for.
            if (file.reader.lines_on_disk or not saved.missing) and file.reader.resume(state.mark):
                file.restore(state)
                kept[state.number] = file.number, state.since
                unsettled += [loose] if loose is not None else []
        self._table.loose = {loose.file: loose.start for loose in unsettled}
        self._backlog.add(unsettled)
        self._table.adopt(kept_rows(saved.columns, kept), self._next)
        self._table.stage.left_out = saved.left_out
        self._newest_line, self._bad_lines = saved.newest_line, None
        if saved.missing:
            self._late = ColumnBackfill(self._table, saved.missing)

    def _add_late(self) -> None:
        """Columns of metrics that are new, for the rows that were saved without."""
        if self._late is None:
            return
        files = list(self._files.values())
        if self._late.turn(lambda number: files[number].reader, self._next):
            self._late, self._changed = None, True

    def _turn(self, file: RunFile) -> None:
        """Read a budget's worth of one file."""
        try:
            for chunk in file.reader.poll(self.reading.turn_bytes):
                self._take(file, chunk)
            file.problem, file.retry = None, False
        except SourceDamaged as error:
            file.problem = Unread(file.reader.name, str(error), "what comes before is kept")
            file.more = False
        except OSError as error:
            file.problem = Unread(file.reader.name, reason_of(error))
            file.more, file.retry = False, not isinstance(error, SourceUnready)
        except BaseException:
            file.reader.tail.reset()  # what was read and not taken must come again
            raise

    def _invalidate(self, files: list[RunFile]) -> None:
        """These files were replaced or deleted: what was read of them no longer counts."""
        if not files:
            return
        for file in files:
            file.forget()
            self._backlog.drop(file.number)
        self._bad_lines = None
        self._changed = True
        self._table.mark_dead([file.number for file in files], self._next)

    def _take(self, file: RunFile, chunk: Chunk) -> None:
        if file.renewed():
            self._invalidate([file])
        file.more = chunk.more
        self.bytes_read += chunk.bytes
        file.blank_count += chunk.blank_lines
        bad = chunk.bad
        if file.number in self._backlog:
            self._backlog.live(file.number, chunk.bad)
            bad = [replace(line, line=0) for line in bad]
        if len(chunk):
            self._table.take(file.number, chunk, self._next)
        if bad:
            file.keep_bad(bad, len(bad))
            self._bad_lines = None
        if len(chunk) or chunk.bad:
            self._newest_line = max(self._newest_line, min(file.reader.tail.modified, time.time()))
            self._changed = True

    def _news(self) -> bool:
        """Whether something besides rows differs from what was published."""
        return self._progress() != self.snapshot.progress or self._problems() != self.snapshot.problems

    def _unread(self) -> tuple[Unread, ...]:
        """Files and folders of the run that are not read now, each once."""
        if self.folder_problem:
            return (Unread("./", self.folder_problem),)
        of_files = [file.problem for file in self._files.values() if file.problem]
        told = {one.file for one in of_files}
        return (*(one for one in self._unlisted if one.file not in told), *of_files)

    def _problems(self) -> tuple[str, ...]:
        if self.folder_problem:
            return (self.folder_problem,)
        problems = [self._said] * bool(self._said)
        problems += map(str, self._unread())
        if self._table.stage.left_out:
            problems.append(
                f"the log has too many columns: the first {MOST_COLUMNS} are shown, "
                f"{self._table.stage.left_out!r} and later ones are left out"
            )
        return (*problems, *self._scalars.problems)

    def _progress(self) -> Progress:
        files = [file for file in self._files.values() if not file.gone]
        late = self._late
        read = (
            sum(file.reader.tail.done for file in files) - self._backlog.bytes - (late.waiting if late else 0)
        )
        halted = self._backlog.halted
        backlog = bool(self._backlog) and not halted
        waits = backlog or self._scalars.more or any(file.more for file in files)
        return Progress(
            bytes_read=read,
            bytes_total=sum(file.reader.tail.size for file in files),
            caught_up=bool(self.folder_problem) or not (waits or (late is not None and not late.stuck)),
            halted=halted,
            rate=self._pace.rate(time.monotonic(), read),
        )

    def _freeze(self) -> Snapshot:
        table, columns = self._table, self._table.columns
        rows = columns.rows
        state = table.state[:rows]
        state.flags.writeable = False
        files = list(self._files.values())
        if self._bad_lines is None:
            self._bad_lines = tuple(bad for file in files for bad in file.bad)
        by_split = table.steps.freeze()
        split = default_of(by_split)
        return Snapshot(
            name=shown_name(self.name, split),
            version=self.version,
            rows=rows,
            split=split,
            steps=by_split.get(split, Steps()),
            state=state,
            files=tuple(self._files),
            bad_lines=(*self._bad_lines, *_of_scalars(self._scalars)),
            bad_count=sum(file.bad_count for file in files) + self._scalars.bad_count,
            blank_count=sum(file.blank_count for file in files),
            problems=self._problems(),
            unread=self._unread(),
            ranks=len(table.ranks),
            restarts=tuple(sorted({r.step for found in table.restarts.values() for r in found})),
            newest_line=self._newest_line,
            progress=self._progress(),
            scalars=self._scalars.freeze(),
            loose=dict(table.loose),
            _place={name: column.view(rows) for name, column in columns.place.items()},
            _numbers={name: column.view(rows) for name, column in columns.numbers.items()},
            constants=table.stage.constants,
            _by_split=by_split,
            _labels={name: (texts.codes.view(rows), texts.names) for name, texts in columns.labels.items()},
        )


def _of_scalars(log: ScalarLog) -> list[BadLineAt]:
    return [BadLineAt(name, bad.line, bad.offset, bad.reason) for name, bad in log.bad]
