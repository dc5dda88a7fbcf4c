"""The files of a run: which of them to read next, and what was read of all of them together.

A round touches only files that changed or are due: a run may have tens of thousands of files.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heappush

from rlpanel.sources.files.unreadable import Unread
from rlpanel.sources.readers.jsonl import ChangedLine, JsonlFile
from rlpanel.store.backlog.backlog import reading_order
from rlpanel.store.index.resting_files import RestingFiles
from rlpanel.store.index.run_file import ReadCounts, RunFile

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
