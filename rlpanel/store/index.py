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
from rlpanel.sources.run_file import RunFile
from rlpanel.store.pooled import Pooled
from rlpanel.store.quantiles import Quantiles
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
        self._directory = Directory(root or self.path)
        self._files: dict[str, _File] = {}
        self._table = Table()
        self._quantiles = Quantiles()
        self._pooled = Pooled()
        self._run_file = RunFile(self.path)
        self._training = Training.from_environment().given()
        self._learn()
        self._bad_lines: tuple[BadLineAt, ...] | None = ()
        self._newest_line = 0.0
        self._changed = False

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
        if self._run_file.changed():
            self._learn()
        for name, found in seen.items():
            self._meet(name, found)
        gone = [file for name, file in self._files.items() if name not in seen and not file.gone]
        for file in gone:
            file.gone, file.more, file.problem = True, False, ""
            file.reader.tail.reset()
        self._void(gone)

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
        if self._changed or self._news():
            self.commit()
        return not self.snapshot.progress.caught_up

    def commit(self) -> None:
        """Publish what was read."""
        self._table.add_staged(self._next)
        self.version += 1
        self._changed = False
        self.snapshot = self._freeze()

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
            reader = JsonlFile(found.path, name, found.adapter, self.reading.line_bytes)
            self._files[name] = _File(len(self._files), reader)
            self._changed = True
        elif file.gone:
            file.gone, file.more = False, True

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
        problems = [file.problem for file in self._files.values() if file.problem]
        if self._table.stage.left_out:
            problems.append(
                f"the log makes up columns: the first {MOST_COLUMNS} are shown, "
                f"{self._table.stage.left_out!r} and later ones are left out"
            )
        return tuple(problems)

    def _progress(self) -> Progress:
        files = [file for file in self._files.values() if not file.gone]
        return Progress(
            bytes_read=sum(file.reader.tail.offset for file in files),
            bytes_total=sum(file.reader.tail.size for file in files),
            caught_up=bool(self.folder_problem) or not any(file.more for file in files),
        )

    def _freeze(self) -> Snapshot:
        table, columns = self._table, self._table.columns
        rows = columns.rows
        alive = table.alive[:rows]
        alive.flags.writeable = False
        files = list(self._files.values())
        if self._bad_lines is None:
            self._bad_lines = tuple(bad for file in files for bad in file.bad)
        return Snapshot(
            name=self.name,
            version=self.version,
            rows=rows,
            steps=table.steps.freeze(),
            alive=alive,
            files=tuple(self._files),
            bad_lines=self._bad_lines,
            bad_count=sum(file.bad_count for file in files),
            blank_count=sum(file.blank_count for file in files),
            problems=self._problems(),
            ranks=len(table.ranks),
            newest_line=self._newest_line,
            progress=self._progress(),
            _place={name: column.view(rows) for name, column in columns.place.items()},
            _numbers={name: column.view(rows) for name, column in columns.numbers.items()},
            constants=table.stage.constants,
            _quantiles=self._quantiles,
            _pooled=self._pooled,
            _labels={name: (texts.codes.view(rows), texts.names) for name, texts in columns.labels.items()},
        )
