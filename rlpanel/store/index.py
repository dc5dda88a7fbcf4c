"""One run, indexed: its files, its columns, its statistics. Owned by a single thread.

Rows are a function of the files' bytes, whenever and in whatever pieces they were read. Only
`snapshot` is for others.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rlpanel.metrics.compute import derive_columns, reduce_tokens
from rlpanel.settings import Reading
from rlpanel.sources.base import Chunk, Locator, Record
from rlpanel.sources.directory import Directory, Found
from rlpanel.sources.jsonl import JsonlFile
from rlpanel.sources.tail import line_hash
from rlpanel.store.columns import Columns
from rlpanel.store.snapshot import BadLineAt, Progress, Snapshot
from rlpanel.store.steps import StepTable

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


class RunIndex:
    """Reads a run's files into columns and statistics.

    Parameters
    ----------
    path : path
        The run's folder.
    name : str
        What views call it.
    reading : Reading
        Budgets and bounds.
    """

    def __init__(self, path: str | os.PathLike[str], name: str, reading: Reading | None = None) -> None:
        self.path = Path(path)
        self.name = name
        self.reading = reading or Reading()
        self.version = 0
        self.snapshot = Snapshot(name)
        self.bytes_read = 0
        self._directory = Directory(self.path)
        self._files: dict[str, _File] = {}
        self._columns = Columns()
        self._steps = StepTable()
        self._alive = np.empty(0, bool)
        self._newest_line = 0.0
        self.folder_problem = ""

    # -- reading ---------------------------------------------------------------------------------

    def rescan(self) -> None:
        """Look for files that came or went."""
        self.folder_problem = "" if self.path.is_dir() else "the run's folder is gone; its last state is shown"
        if self.folder_problem:
            return
        seen = {found.name: found for found in self._directory.files(self.path)}
        for name, found in seen.items():
            self._file(name, found)
        for name, file in self._files.items():
            if name not in seen and not file.gone:
                self._remove(file)

    def read(self, only: set[str] | None = None) -> bool:
        """One turn: at most one budget from each file; True while whole lines may be waiting.

        Parameters
        ----------
        only : set of str, optional
            Paths on disk that changed; files with lines waiting are read as well. All by default.
        """
        before = self.version
        for file in list(self._files.values()):
            wanted = only is None or file.more or file.problem or file.reader.path in only
            if wanted and not file.gone and (file.more or file.reader.tail.changed()):
                self._turn(file)
        if self.version != before or self._news():
            self.commit()
        return any(file.more for file in self._files.values() if not file.gone)

    def commit(self) -> None:
        """Publish what was read."""
        self.version += 1
        self.snapshot = self._freeze()

    # -- inside ----------------------------------------------------------------------------------

    def _file(self, name: str, found: Found) -> None:
        file = self._files.get(name)
        if file is None:
            reader = JsonlFile(found.path, name, found.adapter, self.reading.line_bytes)
            self._files[name] = _File(len(self._files), reader)
        elif file.gone:
            file.gone, file.more = False, True

    def _remove(self, file: _File) -> None:
        """A file that was deleted takes its rows with it."""
        file.gone, file.more, file.problem = True, False, ""
        file.reader.tail.reset()
        self._bury(file)

    def _turn(self, file: _File) -> None:
        try:
            chunk = file.reader.poll(self.reading.turn_bytes)
        except OSError as error:
            problem = f"{file.reader.name}: {error.strerror or error}"
            if problem != file.problem:
                file.problem = problem
                self.version += 1
            file.more = False
            return
        if file.problem:
            file.problem = ""
            self.version += 1
        if chunk.generation != file.generation:
            file.generation = chunk.generation
            self._bury(file)
        file.more = chunk.more
        self._take(file, chunk)

    def _take(self, file: _File, chunk: Chunk) -> None:
        self.bytes_read += chunk.bytes
        file.blank_count += chunk.blank_lines
        file.bad_count += len(chunk.bad)
        room = BAD_KEPT - len(file.bad)
        name = file.reader.name
        file.bad += [BadLineAt(name, bad.line, bad.offset, bad.reason) for bad in chunk.bad[:room]]
        if chunk.records:
            self._append(file, chunk)
        if chunk.records or chunk.bad:
            self._newest_line = time.time()
            self.version += 1

    def _append(self, file: _File, chunk: Chunk) -> None:
        locators = [locator for locator, _ in chunk.records]
        records = [record for _, record in chunk.records]
        place = _places(file, locators, records)
        numbers = _numbers(records)
        numbers.update(reduce_tokens([record.arrays for record in records]))
        numbers.update(derive_columns(numbers))
        names = dict.fromkeys(name for record in records for name in record.labels)
        labels = {name: [record.labels.get(name) for record in records] for name in names}
        where = self._columns.append(place, numbers, labels)
        self._grow_alive(where)
        self._steps.add(place["step"], numbers, self.version + 1)

    def _grow_alive(self, where: slice) -> None:
        if where.stop > len(self._alive):
            grown = np.zeros(max(1024, where.stop + (where.stop >> 1)), bool)
            grown[: len(self._alive)] = self._alive
            self._alive = grown
        self._alive[where] = True

    def _bury(self, file: _File) -> None:
        """The rows of a file's earlier generation are dead; statistics of their steps begin anew."""
        rows = self._columns.rows
        file.bad, file.bad_count, file.blank_count = [], 0, 0
        self.version += 1
        dead = (self._columns.place["file"].view(rows) == file.number) & self._alive[:rows]
        if not dead.any():
            return
        steps = self._columns.place["step"].view(rows)
        touched = np.unique(steps[dead])
        # A copy: snapshots still look at the old mask.
        self._alive = self._alive.copy()
        self._alive[:rows][dead] = False
        self._steps.clear(touched, self.version)
        left = np.flatnonzero(np.isin(steps, touched) & self._alive[:rows])
        if len(left):
            values = {name: column.view(rows)[left] for name, column in self._columns.numbers.items()}
            self._steps.add(steps[left], values, self.version)

    def _news(self) -> bool:
        """Whether something besides rows differs from what was published."""
        return self._progress() != self.snapshot.progress or self._problems() != self.snapshot.problems

    def _problems(self) -> tuple[str, ...]:
        folder = [self.folder_problem] if self.folder_problem else []
        return (*folder, *(file.problem for file in self._files.values() if file.problem))

    def _progress(self) -> Progress:
        tails = [(file, file.reader.tail) for file in self._files.values() if not file.gone]
        return Progress(
            bytes_read=sum(tail.offset for _, tail in tails),
            bytes_total=sum(max(tail.size, tail.offset) for _, tail in tails),
            caught_up=not any(file.more for file, _ in tails),
        )

    def _freeze(self) -> Snapshot:
        rows = self._columns.rows
        place = {name: column.view(rows) for name, column in self._columns.place.items()}
        alive = self._alive[:rows]
        files = list(self._files.values())
        return Snapshot(
            name=self.name,
            version=self.version,
            rows=rows,
            steps=self._steps.freeze(),
            alive=alive,
            files=tuple(file.reader.name for file in files),
            bad_lines=tuple(bad for file in files for bad in file.bad),
            bad_count=sum(file.bad_count for file in files),
            blank_count=sum(file.blank_count for file in files),
            problems=self._problems(),
            ranks=len(np.unique(place["rank"][alive])) if rows else 0,
            newest_line=self._newest_line,
            progress=self._progress(),
            _place=place,
            _numbers={name: column.view(rows) for name, column in self._columns.numbers.items()},
            _labels={
                name: (labels.codes.view(rows), labels.names)
                for name, labels in self._columns.labels.items()
            },
        )

    def reader(self, name: str) -> JsonlFile:
        """The reader of a file, for `fetch` from any thread."""
        return self._files[name].reader


def _places(file: _File, locators: list[Locator], records: list[Record]) -> dict[str, np.ndarray]:
    count = len(records)
    return {
        "step": np.fromiter((r.step for r in records), np.int64, count),
        "rank": np.fromiter((r.rank for r in records), np.int32, count),
        "file": np.full(count, file.number, np.int32),
        "generation": np.full(count, file.generation, np.int32),
        "offset": np.fromiter((at.offset for at in locators), np.int64, count),
        "length": np.fromiter((at.length for at in locators), np.int64, count),
        "line": np.fromiter((at.line for at in locators), np.int64, count),
        "part": np.fromiter((at.part for at in locators), np.int32, count),
        "hash": np.fromiter((at.hash for at in locators), np.uint64, count),
        "prompt_hash": np.fromiter((_prompt_hash(r) for r in records), np.uint64, count),
    }


def _prompt_hash(record: Record) -> int:
    return line_hash(record.texts.get("prompt", "").encode("utf-8", "replace"))


def _numbers(records: list[Record]) -> dict[str, np.ndarray]:
    """The records' numbers as columns; NaN where a record lacks one."""
    names = dict.fromkeys(name for record in records for name in record.numbers)
    count = len(records)
    return {
        name: np.fromiter((record.numbers.get(name, np.nan) for record in records), np.float64, count)
        for name in names
    }
