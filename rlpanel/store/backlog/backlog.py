"""A run's backlog: which ranges of its files wait, newest first, and what putting them together takes.

A file in here is loose: its end is followed live while ranges before it come in any order. When the last
one is in, the file is settled: lines get their numbers, and it is as if it had been read from the beginning.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from rlpanel.metrics.engine.constants import USUAL, Constants
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import BadLine
from rlpanel.store.backlog import range_reader
from rlpanel.store.backlog.range_reader import (
    BAD_KEPT,
    ByteRange,
    RangeResult,
    index_chunk,
    last_line_start,
    ranges,
)
from rlpanel.store.backlog.workers import WorkerDied, WorkerPool
from rlpanel.store.cache.run_cache import OpenFileState

#: Files last written within so many seconds of one another grew together.
TOGETHER = 600.0
#: The step that the name of a file with one step tells, as in ``12.jsonl`` and ``train_data_step12.jsonl``.
_STEP = re.compile(r"(?:^|step_?)(\d{1,9})\.jsonl")
#: Ranges handed out for each process: one in work, others so that it need not wait for the reader.
_AHEAD = 4


@lru_cache(maxsize=1 << 16)
def age(name: str, modified: float) -> tuple[float, int]:
    """By what files are read, small ones first: when they grew, and the steps that their names tell."""
    step = _STEP.search(name)
    return -(modified // TOGETHER), -int(step[1]) if step else 0


@dataclass
class OpenFile:
    """A file whose ranges come in any order.

    Attributes
    ----------
    file : int
        Its number in the run.
    reader : JsonlFile
        Follows what comes after ``limit``.
    start, limit : int
        The bytes that are read in ranges.
    lines_before : int
        Lines before ``start``.
    modified : float
        When the file was last written.
    """

    file: int
    reader: JsonlFile
    start: int
    limit: int
    lines_before: int
    modified: float
    waiting: int = 0
    bytes: int = 0
    newlines: dict[int, int] = field(default_factory=dict)  # of the parts that are in, by where they begin
    bad: dict[int, list[BadLine]] = field(default_factory=dict)

    def note(self, part: int, bad: list[BadLine]) -> None:
        """Bad lines of the part that begins at ``part``, numbered from its first."""
        kept = self.bad.setdefault(part, [])
        kept += bad[: BAD_KEPT - len(kept)]

    def state(self) -> OpenFileState:
        """As it is saved."""
        bad = [
            (part, line.line, line.offset, line.reason) for part, found in self.bad.items() for line in found
        ]
        parts = sorted(self.newlines.items())
        return OpenFileState(self.start, self.limit, self.lines_before, range_reader.RANGE_BYTES, parts, bad)


def restored(file: int, reader: JsonlFile, state: OpenFileState, modified: float) -> OpenFile | None:
    """A file as it was saved; None if its parts are cut in another way now."""
    if state.range_bytes != range_reader.RANGE_BYTES or type(reader) is not JsonlFile:
        return None
    loose = OpenFile(file, reader, state.start, state.limit, state.lines_before, modified)
    loose.newlines = dict(state.parts)
    for part, line, offset, reason in state.bad:
        loose.note(part, [BadLine(line, offset, reason)])
    return loose


def open_at_end(file: int, reader: JsonlFile, status: os.stat_result) -> OpenFile | None:
    """Let a reader go on at the file's end; None if too little is unread, or the file is in motion."""
    start = reader.tail.offset
    lines = reader.lines if start else 0
    if status.st_size - start < range_reader.RANGE_BYTES or type(reader) is not JsonlFile:
        return None  # other files cannot be begun in their middle
    try:
        limit = last_line_start(reader.path, status.st_size, reader.tail.line_bytes)
        if limit - start < range_reader.RANGE_BYTES or not reader.begin(limit):
            return None
    except OSError:
        return None  # reading it tells why
    return OpenFile(file, reader, start, limit, lines, status.st_mtime)


@dataclass(frozen=True)
class FinishedFile:
    """A file put together.

    Attributes
    ----------
    starts, before : ndarray of int, shape (P,)
        Where its parts begin, ascending, and how many lines stand before each.
    bad : list of BadLine
    lines_before_end : int
        Lines before the place from which the file was followed live.
    """

    starts: np.ndarray
    before: np.ndarray
    bad: list[BadLine]
    lines_before_end: int


class Backlog:
    """Hands out ranges to processes, or to the calling thread where there are none.

    Parameters
    ----------
    workers : WorkerPool, optional

    Attributes
    ----------
    constants : Constants
        What is known of the training.
    halted : bool
        Whether somebody stopped it; what processes have in work still comes in.
    """

    def __init__(self, workers: WorkerPool | None) -> None:
        self._workers = workers if workers is not None and workers.jobs else None
        self.halted = False
        self.constants: Constants = USUAL
        self._loose: dict[int, OpenFile] = {}
        self._queue: deque[ByteRange] = deque()
        self._running: dict[Future[RangeResult], ByteRange] = {}

    def __contains__(self, file: int) -> bool:
        return file in self._loose

    def __bool__(self) -> bool:
        return bool(self._loose)

    @property
    def bytes(self) -> int:
        """Bytes of the ranges that are not in."""
        return sum(loose.bytes for loose in self._loose.values())

    @property
    def busy(self) -> bool:
        """Whether a turn would do something at once, rather than wait for a process."""
        if self._workers is None:
            return bool(self._queue) and not self.halted
        # All that ran may be taken in one turn: nobody would wake the reader to hand out more.
        return self._may_hand_out or any(future.done() for future in self._running)

    @property
    def at_rest(self) -> bool:
        """Whether no process is needed: nothing waits, or it was stopped."""
        return not self._running and (self.halted or not self._loose)

    def add(self, files: list[OpenFile]) -> None:
        """Take in files; of those that grew together the ends come first, then what is before them."""
        found: list[tuple[tuple[float, int], int, ByteRange]] = []
        for loose in files:
            every = ranges(loose.file, loose.reader, loose.start, loose.limit, self.constants)
            parts = [part for part in every if part.start not in loose.newlines]
            loose.waiting, loose.bytes = len(parts), sum(part.end - part.start for part in parts)
            self._loose[loose.file] = loose
            found += [(age(loose.reader.name, loose.modified), at, part) for at, part in enumerate(parts)]
        found.sort(key=lambda item: item[:2])
        self._queue.extend(part for *_, part in found)

    def drop(self, file: int) -> None:
        """The file was replaced: its ranges mean nothing any more."""
        if self._loose.pop(file, None) is None:
            return
        self.halted &= bool(self._loose)
        self._queue = deque(where for where in self._queue if where.file != file)
        self._running = {future: where for future, where in self._running.items() if where.file != file}

    def cancel(self) -> None:
        """Forget all ranges that are not in: nobody looks at the run any more."""
        for future in self._running:
            future.cancel()
        self._loose, self._queue, self._running = {}, deque(), {}

    def live(self, file: int, bad: list[BadLine]) -> None:
        """Note bad lines that came at the end of a loose file meanwhile."""
        loose = self._loose[file]
        loose.note(loose.limit, bad)

    def state(self, file: int) -> OpenFileState | None:
        """How far a file is, as it is saved; None if it is not loose."""
        loose = self._loose.get(file)
        return None if loose is None else loose.state()

    def turn(self) -> Iterator[tuple[ByteRange, RangeResult | OSError]]:
        """The pieces that are in, and one made here where no process does it."""
        if self._workers is None:
            if self._queue and not self.halted:
                yield self._here(self._queue.popleft())
            return
        self._hand_out(self._workers)
        done = [future for future in self._running if future.done()]
        for future in done:
            where = self._running.pop(future, None)
            if where is not None:  # the file may have been dropped by whoever took the last piece
                yield self._result(where, future)

    def take(self, where: ByteRange, piece: RangeResult) -> bool:
        """Note a piece; True if its file is whole now."""
        loose = self._loose[where.file]
        loose.waiting -= 1
        loose.bytes -= where.end - where.start
        loose.newlines[where.start] = piece.newlines
        loose.note(where.start, piece.bad)
        return loose.waiting == 0

    def settle(self, file: int) -> FinishedFile:
        """Put a whole file together and forget it."""
        loose = self._loose.pop(file)
        self.halted &= bool(self._loose)
        parts = [*sorted(loose.newlines), loose.limit]
        lines = [loose.newlines.get(part, 0) for part in parts]
        before = loose.lines_before + np.cumsum([0, *lines[:-1]])
        bad = [
            BadLine(line.line + lines_before, line.offset, line.reason)
            for part, lines_before in zip(parts, before.tolist(), strict=True)
            for line in loose.bad.get(part, [])
        ]
        return FinishedFile(np.array(parts, np.int64), before, bad, int(before[-1]))

    @property
    def _may_hand_out(self) -> bool:
        """Whether a range waits, and the processes have room for it."""
        room = self._workers is not None and len(self._running) < _AHEAD * self._workers.jobs
        return room and bool(self._queue) and not self.halted

    def _hand_out(self, workers: WorkerPool) -> None:
        while self._may_hand_out:
            where = self._queue.popleft()
            self._running[workers.submit(where)] = where

    def _result(
        self, where: ByteRange, future: Future[RangeResult]
    ) -> tuple[ByteRange, RangeResult | OSError]:
        try:
            return where, future.result()
        except OSError as error:
            return where, error
        except (WorkerDied, RuntimeError):  # the reader does what no process could
            return self._here(where)

    def _here(self, where: ByteRange) -> tuple[ByteRange, RangeResult | OSError]:
        try:
            return where, index_chunk(where)
        except OSError as error:
            return where, error
