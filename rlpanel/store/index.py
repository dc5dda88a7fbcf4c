"""One run, indexed: its files, its rows, its statistics. Owned by a single thread.

Rows are a function of the files' bytes, whenever and in whatever pieces they were read. Only
`snapshot` is for others.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from rlpanel.metrics.constants import gather
from rlpanel.settings import Reading, Training
from rlpanel.sources.base import Chunk
from rlpanel.sources.directory import Directory, Found
from rlpanel.sources.jsonl import JsonlFile
from rlpanel.sources.opening import open_file
from rlpanel.sources.run_file import RunFile
from rlpanel.sources.tail import Mark
from rlpanel.store.cache import WORTH_BYTES, Cache, FileState, Saved
from rlpanel.store.histograms import Histograms
from rlpanel.store.kept import first_living, kept_rows
from rlpanel.store.late import LateColumns
from rlpanel.store.pooled import Pooled
from rlpanel.store.quantiles import Quantiles
from rlpanel.store.scalars import ScalarLog
from rlpanel.store.snapshot import BadLineAt, Progress, Snapshot
from rlpanel.store.stage import MOST_COLUMNS
from rlpanel.store.table import Table

#: Bad lines kept with their reason for each file; all are counted.
BAD_KEPT = 1000


@dataclass
class _File:
    """What the index knows of one file."""

    number: int
    reader: JsonlFile
    generation: int = 0
    bad: list[BadLineAt] = field(default_factory=list)
    bad_count: int = 0
    blank_count: int = 0
    more: bool = True
    problem: str = ""
    gone: bool = False

    def forget(self) -> None:
        """What was read of it is void."""
        self.bad, self.bad_count, self.blank_count = [], 0, 0

    def state(self, since: int, mark: Mark) -> FileState:
        """As it is saved."""
        bad = [(line.line, line.offset, line.reason) for line in self.bad]
        adapter = self.reader.adapter.name
        counts = self.bad_count, self.blank_count
        return FileState(self.reader.name, self.number, adapter, since, mark, *counts, bad)

    def restore(self, state: FileState) -> None:
        """As it was saved."""
        self.bad = [BadLineAt(self.reader.name, *bad) for bad in state.bad]
        self.bad_count, self.blank_count = state.bad_count, state.blank_count


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
    ) -> None:
        self.path = Path(path)
        self.name = name
        self.reading = reading or Reading()
        self.snapshot = Snapshot(name)
        self.version = 0
        self.bytes_read = 0
        self.folder_problem = ""
        self._said = ""  # why what somebody said of these files is not followed
        self._directory = Directory(root or self.path, self.reading)
        self._scalars = ScalarLog(self.path, Path(root or self.path))
        self._files: dict[str, _File] = {}
        self._table = Table()
        self._quantiles, self._histograms = Quantiles(), Histograms()
        self._pooled = Pooled()
        self._run_file = RunFile(self.path)
        self._training = Training.from_environment().given()
        self._learn()
        self._bad_lines: tuple[BadLineAt, ...] | None = ()
        self._newest_line = 0.0
        self._changed = False
        self._cache = Cache(self.path, self.reading.line_bytes) if self.reading.cache else None
        self._resumed = False
        self._late: LateColumns | None = None
        self._saved = 0  # version

    # -- reading ---------------------------------------------------------------------------------

    def rescan(self) -> None:
        """Look for files that came or went. While the folder cannot be read its last state stays."""
        try:
            seen = {found.name: found for found in self._directory.files(self.path)}
        except FileNotFoundError:
            self.folder_problem = "the run's folder is gone; its last state is shown"
            return
        except OSError as error:
            self.folder_problem = (
                f"the run's folder cannot be read: {error.strerror}; its last state is shown"
            )
            return
        self.folder_problem = ""
        self._said = self._directory.said.of(self.path).problem
        if self._run_file.changed():
            self._learn()
        if not self._resumed:
            self._resume(seen)
        for name, found in seen.items():
            self._meet(name, found)
        gone = [file for name, file in self._files.items() if name not in seen and not file.gone]
        for file in gone:
            file.gone, file.more, file.problem = True, False, ""
            file.reader.tail.reset()
        self._void(gone)
        if self._late is not None:
            self._late.stuck = False
        self._scalars.rescan()

    def read(self, only: set[str] | None = None) -> bool:
        """One turn: at most one budget from each file; True while whole lines may be waiting.

        Parameters
        ----------
        only : set of str, optional
            Paths on disk that changed; files with lines waiting are read as well. All by default.
        """
        if not self.folder_problem:
            for file in self._files.values():
                wanted = only is None or file.more or file.problem or file.reader.path in only
                if wanted and not file.gone and (file.more or file.reader.tail.changed()):
                    self._turn(file)
            self._add_late()
            self._changed |= self._scalars.read(only, self.reading.turn_bytes)
        if self._changed or self._news():
            self.commit()
        return not self.snapshot.progress.caught_up

    def commit(self) -> None:
        """Publish what was read."""
        self._table.add_staged(self._next)
        self.version += 1
        self._changed = False
        self.snapshot = self._freeze()

    def save(self, *, last: bool = False) -> None:
        """Bring the index on disk up to date, at most every few seconds or for the ``last`` time."""
        cache, progress = self._cache, self.snapshot.progress
        whole = self._late is None and progress.bytes_read >= WORTH_BYTES
        if cache is not None and whole and self._saved != self.version:
            if self._changed:
                self.commit()
            if (last or cache.due) and cache.save(self._state()):
                self._saved = self.version
        if last and cache is not None:
            cache.close()

    def reader(self, name: str) -> JsonlFile:
        """The reader of a file, for `fetch` from any thread."""
        return self._files[name].reader

    # -- inside ----------------------------------------------------------------------------------

    @property
    def _next(self) -> int:
        """The version that the next commit will have."""
        return self.version + 1

    def _meet(self, name: str, found: Found) -> None:
        file = self._files.get(name)
        if file is None:
            reader = open_file(found, self.reading)
            self._files[name] = _File(len(self._files), reader)
            self._table.files.append(name)
            self._changed = True
        elif file.gone:
            file.gone, file.more = False, True
        if file is not None and found.adapter.name != file.reader.adapter.name:
            # Somebody said meanwhile how the file is to be read.
            file.reader.adapter, file.more = found.adapter, True
            file.reader.tail.reset()

    def _learn(self) -> None:
        """What is known of the training; where rows were made with other constants, they are made again."""
        constants = gather(self._run_file.content, self._training)
        before, self._table.stage.constants = self._table.stage.constants, constants
        self._changed = True
        if before.at_ingest != constants.at_ingest:
            files = [file for file in self._files.values() if not file.gone]
            for file in files:
                file.reader.tail.reset()
                file.more = True
            self._void(files)

    def _resume(self, seen: dict[str, Found]) -> None:
        """Begin with the rows that are on disk, of files that are still what they were."""
        self._resumed = True
        saved = self._cache.load() if self._cache is not None else None
        constants = list(self._table.stage.constants.at_ingest)
        if saved is None or saved.constants != constants:
            return
        kept: dict[int, tuple[int, int]] = {}
        for state in saved.files:
            found = seen.get(state.name)
            if found is not None and found.adapter.name == state.adapter:
                self._meet(state.name, found)
                file = self._files[state.name]
                if file.reader.resume(state.mark):
                    file.restore(state)
                    kept[state.number] = file.number, state.since
        self._table.adopt(kept_rows(saved.columns, kept), self._next)
        self._table.stage.left_out = saved.left_out
        self._newest_line, self._bad_lines = saved.newest_line, None
        if saved.missing:
            self._late = LateColumns(self._table, saved.missing)

    def _add_late(self) -> None:
        """Columns of metrics that are new, for the rows that were saved without."""
        if self._late is None:
            return
        files = list(self._files.values())
        if self._late.turn(lambda number: files[number].reader, self._next):
            self._late, self._changed = None, True

    def _state(self) -> Saved:
        """What is to be saved. A file that was replaced and not read again yet is left out."""
        table, files = self._table, []
        since = first_living(table.columns, table.state, len(self._files))
        for file in self._files.values():
            mark = None if file.gone else file.reader.mark(file.generation)
            if mark is not None:
                files.append(file.state(since[file.number], mark))
        constants = list(table.stage.constants.at_ingest)
        return Saved(table.columns, files, self._newest_line, table.stage.left_out, constants)

    def _turn(self, file: _File) -> None:
        """Read a budget's worth of one file."""
        try:
            for chunk in file.reader.poll(self.reading.turn_bytes):
                self._take(file, chunk)
            file.problem = ""
        except OSError as error:
            file.problem = f"{file.reader.name}: {error.strerror or error}; it is read when that is over"
            file.more = False
        except BaseException:
            file.reader.tail.reset()  # what was read and not taken must come again
            raise

    def _void(self, files: list[_File]) -> None:
        """These files were replaced or deleted: what was read of them no longer counts."""
        if not files:
            return
        for file in files:
            file.forget()
        self._bad_lines = None
        self._changed = True
        self._table.bury([file.number for file in files], self._next)

    def _take(self, file: _File, chunk: Chunk) -> None:
        if chunk.generation != file.generation:
            file.generation = chunk.generation
            self._void([file])
        file.more = chunk.more
        self.bytes_read += chunk.bytes
        file.blank_count += chunk.blank_lines
        if chunk.records:
            self._table.take(file.number, chunk, self._next)
        if chunk.bad:
            file.bad_count += len(chunk.bad)
            room = BAD_KEPT - len(file.bad)
            file.bad += [
                BadLineAt(file.reader.name, bad.line, bad.offset, bad.reason) for bad in chunk.bad[:room]
            ]
            self._bad_lines = None
        if chunk.records or chunk.bad:
            self._newest_line = max(self._newest_line, min(file.reader.tail.modified, time.time()))
            self._changed = True

    def _news(self) -> bool:
        """Whether something besides rows differs from what was published."""
        return self._progress() != self.snapshot.progress or self._problems() != self.snapshot.problems

    def _problems(self) -> tuple[str, ...]:
        if self.folder_problem:
            return (self.folder_problem,)
        problems = [self._said] * bool(self._said)
        problems += [file.problem for file in self._files.values() if file.problem]
        if self._table.stage.left_out:
            problems.append(
                f"the log makes up columns: the first {MOST_COLUMNS} are shown, "
                f"{self._table.stage.left_out!r} and later ones are left out"
            )
        return (*problems, *self._scalars.problems)

    def _progress(self) -> Progress:
        files = [file for file in self._files.values() if not file.gone]
        late = self._late
        waits = any(file.more for file in files) or self._scalars.more
        waits |= late is not None and not late.stuck
        return Progress(
            bytes_read=sum(file.reader.tail.offset for file in files) - (late.waiting if late else 0),
            bytes_total=sum(file.reader.tail.size for file in files),
            caught_up=bool(self.folder_problem) or not waits,
        )

    def _freeze(self) -> Snapshot:
        table, columns = self._table, self._table.columns
        rows = columns.rows
        state = table.state[:rows]
        state.flags.writeable = False
        files = list(self._files.values())
        if self._bad_lines is None:
            self._bad_lines = tuple(bad for file in files for bad in file.bad)
        return Snapshot(
            name=self.name,
            version=self.version,
            rows=rows,
            steps=table.steps.freeze(),
            state=state,
            files=tuple(self._files),
            bad_lines=(*self._bad_lines, *_of_scalars(self._scalars)),
            bad_count=sum(file.bad_count for file in files) + self._scalars.bad_count,
            blank_count=sum(file.blank_count for file in files),
            problems=self._problems(),
            ranks=len(table.ranks),
            restarts=tuple(sorted({r.step for found in table.restarts.values() for r in found})),
            newest_line=self._newest_line,
            progress=self._progress(),
            scalars=self._scalars.freeze(),
            _place={name: column.view(rows) for name, column in columns.place.items()},
            _numbers={name: column.view(rows) for name, column in columns.numbers.items()},
            constants=table.stage.constants,
            _quantiles=self._quantiles,
            _histograms=self._histograms,
            _pooled=self._pooled,
            _labels={name: (texts.codes.view(rows), texts.names) for name, texts in columns.labels.items()},
        )


def _of_scalars(log: ScalarLog) -> list[BadLineAt]:
    return [BadLineAt(name, bad.line, bad.offset, bad.reason) for name, bad in log.bad]
