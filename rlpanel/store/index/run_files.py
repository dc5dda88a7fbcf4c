"""The files of a run: the state of each, which to read next, and what was read of all of them together.

A round touches only files that changed or are due: a run may have tens of thousands of files.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, nsmallest
from itertools import islice
from operator import add, sub
from typing import NamedTuple

from rlpanel.sources.files.file_access import Unread
from rlpanel.sources.readers.jsonl import ChangedLine, JsonlFile
from rlpanel.sources.readers.tail import ReadPosition
from rlpanel.sources.records.record_types import NO_HOLE, BadLine, Hole
from rlpanel.store.backlog.backlog import reading_order
from rlpanel.store.backlog.range_reader import MAX_BAD_LINES
from rlpanel.store.cache.saved_state import FileState, OpenFileState
from rlpanel.store.snapshot.sample_places import BadLineAt


class ReadCounts(NamedTuple):
    """What was read of a file, or of several together.

    Attributes
    ----------
    read, size : int
        Bytes read, and bytes on disk when the file was last checked.
    bad, blank, empty : int
        Number of bad and of blank lines, and of lines without a sample.
    """

    read: int = 0
    size: int = 0
    bad: int = 0
    blank: int = 0
    empty: int = 0

    def __add__(self, other: ReadCounts) -> ReadCounts:  # type: ignore[override]
        """Return the sum."""
        return ReadCounts(*map(add, self, other))

    def __sub__(self, other: ReadCounts) -> ReadCounts:
        """Return the difference."""
        return ReadCounts(*map(sub, self, other))


@dataclass
class RunFile:
    """One file of a run.

    Attributes
    ----------
    number : int
    reader : JsonlFile
    generation : int
        Generation of the file's content whose rows are valid; it rises when the file is replaced.
    bad : list of BadLineAt
        The first bad lines; their line number is 0 while the number of lines before is unknown.
    more : bool
        True if there may be unread lines; `RunFiles.wait` sets it outside of the file's turn.
    modified : float
        Modification time, as of the last listing of the folder.
    problem : Unread or None
        Reason why the file cannot be read at the moment; None if it can.
    hole : Hole
        Zero bytes in or beside its lines.
    retry : bool
        True if the unchanged file is read again, because the problem may be temporary.
    gone : bool
    is_rewritten : bool
        True while new content is held back, see `RewrittenFiles`.
    read_anew : bool
        True if it is read from its start although it was not rewritten.
    """

    number: int
    reader: JsonlFile
    generation: int = 0
    bad: list[BadLineAt] = field(default_factory=list)
    bad_count: int = 0
    blank_count: int = 0
    empty_count: int = 0
    more: bool = True
    modified: float = 0.0
    problem: Unread | None = None
    hole: Hole = NO_HOLE
    retry: bool = False
    gone: bool = False
    is_rewritten: bool = False
    read_anew: bool = False

    @property
    def counts(self) -> ReadCounts:
        """What was read of the file; nothing once it is gone."""
        tail = self.reader.tail
        done, size = (0, 0) if self.gone else (tail.bytes_done, tail.size)
        return ReadCounts(done, size, self.bad_count, self.blank_count, self.empty_count)

    @property
    def unread(self) -> Unread | None:
        """Why a part of the file was not read; None if all was."""
        if self.problem is None and self.is_rewritten:
            kept = "its former rows are shown until it is complete or rests"
            return Unread(self.reader.name, "is being rewritten", kept)
        if self.problem is not None or not self.hole.bytes or self.gone:
            return self.problem
        return Unread(
            self.reader.name,
            f"{self.hole.bytes:,} zero bytes in or beside its lines, the first at byte {self.hole.offset:,}, "
            "as after a crash of the machine or a lost write",
            "whole lines beside them were read",
        )

    def update_generation(self) -> bool:
        """Adopt the reader's generation; return whether it changed, that is, the file was replaced."""
        before, self.generation, self.read_anew = self.generation, self.reader.generation, False
        return before != self.generation

    def reset(self) -> None:
        """Discard the bad lines and counts read so far."""
        self.bad, self.bad_count, self.blank_count, self.empty_count, self.hole = [], 0, 0, 0, NO_HOLE

    def mark_gone(self) -> None:
        """Mark the file as deleted, so that it is read from its start if it comes back."""
        self.gone, self.more, self.problem, self.retry = True, False, None, False
        self.reader.tail.reset()

    def add_bad_lines(self, bad: list[BadLine], count: int) -> None:
        """Count bad lines, and keep the first ones with their reason."""
        self.bad_count += count
        name, room = self.reader.name, MAX_BAD_LINES - len(self.bad)
        self.bad += [BadLineAt(name, line.line, line.offset, line.reason) for line in bad[:room]]

    def number_bad_lines(self, bad: list[BadLine]) -> None:
        """Replace the bad lines without a number by ``bad``, which have one."""
        counted, self.bad_count = self.bad_count, 0
        self.bad = [line for line in self.bad if line.line]
        self.add_bad_lines(bad, counted)

    def state(self, mark: ReadPosition, unsettled: OpenFileState | None) -> FileState:
        """Return the file's state for the cache."""
        bad = [(line.line, line.offset, line.reason) for line in self.bad]
        adapter = self.reader.adapter.name
        counts = self.bad_count, self.blank_count
        empty, name, number = self.empty_count, self.reader.name, self.number
        return FileState(name, number, adapter, mark, *counts, bad, unsettled, self.hole, empty)

    def restore(self, state: FileState) -> None:
        """Restore bad lines and counts from the cache."""
        self.bad = [BadLineAt(self.reader.name, *bad) for bad in state.bad]
        self.bad_count, self.blank_count, self.hole = state.bad_count, state.blank_count, state.hole
        self.empty_count = state.empty_count


#: Seconds after which an end that cannot be read is reported. Writers keep half lines in memory for minutes.
QUIET = 600.0


class RestingFiles:
    """Files by the time at which their end is due.

    Parameters
    ----------
    rest : float
        Seconds for which a file must not grow until its end is read.
    """

    def __init__(self, rest: float) -> None:
        self._rest = rest
        self._due: dict[int, tuple[float, bool, RunFile]] = {}  # the newest entry of each file
        self._queue: list[tuple[float, int]] = []  # heap, also of entries that are outdated

    def note(self, file: RunFile) -> None:
        """Note a file after it was read: it waits if its end is incomplete."""
        tail = file.reader.tail
        if file.gone or file.more or file.problem is not None or not (tail.partial or tail.cut_off):
            self._due.pop(file.number, None)
        else:
            self._wait(file, self._rest, reported=False)

    def due(self, *, all_files: bool = False) -> Iterator[tuple[RunFile, bool]]:
        """Yield the files whose end is due, and whether it is reported if it cannot be read.

        Parameters
        ----------
        all_files : bool
            Whether the end of all files is due and reported now.
        """
        now, again = time.monotonic(), []
        while self._queue and (all_files or self._queue[0][0] <= now):
            at, number = heappop(self._queue)
            entry = self._due.get(number)
            if entry is None or entry[0] != at:
                continue
            _, reported, file = self._due.pop(number)
            if not file.gone:
                yield file, reported or all_files
                again += [] if reported or all_files else [file]
        for file in again:
            if file.problem is None and (file.reader.tail.partial or file.reader.tail.cut_off):
                self._wait(file, QUIET, reported=True)

    def _wait(self, file: RunFile, seconds: float, *, reported: bool) -> None:
        # The clock of another machine may have set the time of the change: it can only shorten the wait.
        age = max(0.0, time.time() - file.reader.tail.modified)
        at = time.monotonic() + max(0.0, seconds - age)
        self._due[file.number] = at, reported, file
        heappush(self._queue, (at, file.number))


#: Sort key of a waiting file, and its number.
_Entry = tuple[float, int, int, int]


class RunFiles:
    """Files by name and by number; `turns` chooses those to read.

    Parameters
    ----------
    rest : float
        Seconds for which a file must not grow until its last line is read without a newline.

    Attributes
    ----------
    by_name : dict of str to RunFile
    numbered : list of RunFile
        All files in the order of their numbers.
    resting : RestingFiles
    again : dict of int to list of ChangedLine
        Lines that are to be read again, by file number.
    """

    def __init__(self, rest: float) -> None:
        self.by_name: dict[str, RunFile] = {}
        self.numbered: list[RunFile] = []
        self._by_path: dict[str, list[RunFile]] = {}
        self._waiting: list[_Entry] = []  # heap of the files with unread lines, and of some without
        self._in_heap: set[int] = set()
        self._changed: dict[int, RunFile] = {}  # changed files that were not read yet
        self._touched: set[int] = set()  # files whose counts or problem may differ from what was added up
        self._counted: list[ReadCounts] = []
        self._total = ReadCounts()
        self._problems: dict[int, Unread] = {}
        self.resting = RestingFiles(rest)
        self.again: dict[int, list[ChangedLine]] = {}

    def add(self, name: str, reader: JsonlFile) -> RunFile:
        """Add a file, which has unread lines."""
        file = self.by_name[name] = RunFile(len(self.numbered), reader)
        self.numbered.append(file)
        self._by_path.setdefault(reader.path, []).append(file)
        self._counted.append(ReadCounts())
        self.wait(file)
        return file

    def wait(self, file: RunFile) -> None:
        """Note that a file may have unread lines; outside of its turn, nothing else lets it be read."""
        file.more = True
        self.touch(file)
        self._queue(file)

    def touch(self, file: RunFile) -> None:
        """Note that a file's counts or its problem may have changed."""
        self._touched.add(file.number)

    def sort(self) -> None:
        """Sort the files with unread lines again, because modification times may have changed."""
        files = [self.numbered[number] for number in self._in_heap]
        self._waiting = [_entry(file) for file in files if _waits(file)]
        self._in_heap = {entry[-1] for entry in self._waiting}
        heapify(self._waiting)

    def turns(self, only: Collection[str] | None, seconds: float = math.inf) -> Iterator[RunFile]:
        """Yield changed files, then unchanged ones with unread lines, newest first; the caller reads each.

        Each file is yielded once. At least one of both kinds is yielded, whatever the time limit.

        Parameters
        ----------
        only : collection of str or None
            Paths that may have changed; None checks all files.
        seconds : float
            Time limit for starting on further files, from when the changed ones are known.
        """
        self._note_changed(only)
        deadline = time.monotonic() + seconds
        taken: dict[int, RunFile] = {}
        try:
            for source in (self._next_changed, self._next_waiting):
                while (file := source()) is not None:
                    if file.number in taken:
                        continue
                    taken[file.number] = file
                    yield file
                    if time.monotonic() > deadline:
                        break
        finally:  # also if reading failed
            for file in taken.values():
                self.touch(file)
                self._queue(file)
                self.resting.note(file)

    def upcoming(self, most: int) -> list[RunFile]:
        """Return files that `turns` would yield next."""
        files = list(islice((file for file in self._changed.values() if not file.gone), most))
        if len(files) < most:
            numbers = (entry[-1] for entry in nsmallest(most - len(files), self._waiting))
            files += [file for number in numbers if _waits(file := self.numbered[number])]
        return files

    @property
    def has_waiting(self) -> bool:
        """True if a file has unread lines."""
        while self._waiting and not _waits(self.numbered[self._waiting[0][-1]]):
            self._in_heap.discard(heappop(self._waiting)[-1])
        return bool(self._waiting or self._changed or self.again)

    @property
    def total(self) -> ReadCounts:
        """What was read of all files that exist."""
        self._add_up()
        return self._total

    @property
    def problems(self) -> list[Unread]:
        """Why files were not read, or not as a whole, in the order of their numbers."""
        self._add_up()
        return [self._problems[number] for number in sorted(self._problems)]

    def _add_up(self) -> None:
        for number in self._touched:
            file = self.numbered[number]
            counts = file.counts
            self._total += counts - self._counted[number]
            self._counted[number] = counts
            if (unread := file.unread) is not None:
                self._problems[number] = unread
            else:
                self._problems.pop(number, None)
        self._touched.clear()

    def _note_changed(self, only: Collection[str] | None) -> None:
        """Find the files that changed; those that cannot be read are tried again if they did."""
        self._add_up()
        if only is None:
            candidates = self.numbered
        else:
            listed = {file.number for path in only for file in self._by_path.get(path, ())}
            candidates = [self.numbered[number] for number in sorted(listed | self._problems.keys())]
        for file in candidates:
            if file.gone:
                continue
            if file.more:
                # Its lines are new if its path was named, else they wait since earlier.
                is_changed = only is not None and file.reader.path in only
            else:
                is_changed = file.retry or file.reader.tail.changed()
            if is_changed:
                self._changed[file.number] = file

    def _next_changed(self) -> RunFile | None:
        """Remove and return the first changed file; None without one."""
        while self._changed:
            file = self._changed.pop(next(iter(self._changed)))
            if not file.gone:
                return file
        return None

    def _queue(self, file: RunFile) -> None:
        if _waits(file) and file.number not in self._in_heap:
            self._in_heap.add(file.number)
            heappush(self._waiting, _entry(file))

    def _next_waiting(self) -> RunFile | None:
        """Remove and return the first file with unread lines; None without one."""
        while self._waiting:
            number = heappop(self._waiting)[-1]
            self._in_heap.discard(number)
            file = self.numbered[number]
            if _waits(file):
                return file
        return None


def _waits(file: RunFile) -> bool:
    return file.more and not file.gone


def _entry(file: RunFile) -> _Entry:
    """Return the place of a file in reading order.

    Files written at about the same time take turns: the one with fewer bytes read goes first.
    """
    return (*reading_order(file.reader.name, file.modified), file.reader.tail.bytes_done, file.number)
