"""Backlog of a run: a queue of unread byte ranges, newest first, and the assembly of their results.

A file in the backlog is open: new lines at its end are read live, while the ranges before them are read in
any order. After its last range the file is finished: its lines get their numbers, and the result is the same
as if it had been read from the beginning.
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

from rlpanel.metrics.engine.constants import USUAL_CONSTANTS, Constants
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import BadLine
from rlpanel.store.backlog.range_reader import (
    MAX_BAD_LINES,
    ByteRange,
    RangeResult,
    index_range,
    last_line_start,
    split_into_ranges,
)
from rlpanel.store.backlog.workers import WorkerDied, WorkerPool
from rlpanel.store.cache.saved_state import OpenFileState

#: Modification times are rounded down to a multiple of this many seconds, to group files written together.
MTIME_BUCKET = 600.0
#: Bytes at the ends of all files together that are read before the backlog, and the least of one file.
_NEWEST_BYTES, _MIN_NEWEST_BYTES = 4 << 20, 64 << 10
#: Step number in the name of a file with one step, as in ``12.jsonl`` and ``train_data_step12.jsonl``.
_STEP = re.compile(r"(?:^|step_?)(\d{1,9})\.jsonl")
#: Ranges submitted per process: one in progress, and others so that it need not wait for the reader.
_QUEUED_PER_JOB = 4


def reading_order(name: str, modified: float) -> tuple[float, int]:
    """Return the sort key for reading order: newest files first, then those with the highest step."""
    return -(modified // MTIME_BUCKET), -_step_in_name(name)


@lru_cache(maxsize=1 << 16)
def _step_in_name(name: str) -> int:
    match = _STEP.search(name)
    return int(match[1]) if match else 0


@dataclass
class OpenFile:
    """A file that is read in ranges, in any order.

    Attributes
    ----------
    file : int
        File number in the run.
    reader : JsonlFile
        Reader of the new lines after ``limit``.
    start, limit : int
        Byte offsets between which the file is read in ranges.
    lines_before : int
        Number of lines before ``start``.
    modified : float
        Modification time of the file.
    """

    file: int
    reader: JsonlFile
    start: int
    limit: int
    lines_before: int
    modified: float
    waiting: int = 0
    bytes: int = 0
    newlines: dict[int, int] = field(default_factory=dict)  # lines of each range read so far, by start offset
    bad: dict[int, list[BadLine]] = field(default_factory=dict)

    def add_bad_lines(self, part: int, bad: list[BadLine]) -> None:
        """Add bad lines of the range that starts at ``part``; their numbers are relative to it."""
        kept = self.bad.setdefault(part, [])
        kept += bad[: MAX_BAD_LINES - len(kept)]

    def state(self, range_bytes: int) -> OpenFileState:
        """Return the file's progress for the cache."""
        bad = [
            (part, line.line, line.offset, line.reason) for part, lines in self.bad.items() for line in lines
        ]
        parts = sorted(self.newlines.items())
        return OpenFileState(self.start, self.limit, self.lines_before, range_bytes, parts, bad)


def restore_open_file(
    file: int, reader: JsonlFile, state: OpenFileState, modified: float, range_bytes: int
) -> OpenFile | None:
    """Restore a file from the cache; None if the size of ranges has changed since."""
    if state.range_bytes != range_bytes or type(reader) is not JsonlFile:
        return None
    open_file = OpenFile(file, reader, state.start, state.limit, state.lines_before, modified)
    open_file.newlines = dict(state.parts)
    for part, line, offset, reason in state.bad:
        open_file.add_bad_lines(part, [BadLine(line, offset, reason)])
    return open_file


def open_near_end(
    file: int, reader: JsonlFile, status: os.stat_result, n_files: int, range_bytes: int
) -> OpenFile | None:
    """Move a reader to near the file's end; None if too little is unread, or the file is being replaced.

    The last bytes, a share of those of ``n_files`` files, are left to the reader: it has read the newest step
    before the first process has started.
    """
    start = reader.tail.offset
    lines = reader.lines if start else 0
    if status.st_size - start < range_bytes or type(reader) is not JsonlFile:
        return None  # other formats cannot be read from the middle
    share = max(_NEWEST_BYTES // n_files, _MIN_NEWEST_BYTES)
    newest = min(share, range_bytes // 2)
    try:
        limit = last_line_start(reader.path, status.st_size - newest, reader.tail.line_bytes)
        if limit - start < range_bytes or not reader.start_at(limit):
            return None
    except OSError:
        return None  # the normal reading of the file will report the error
    return OpenFile(file, reader, start, limit, lines, status.st_mtime)


@dataclass(frozen=True)
class FinishedFile:
    """A file whose ranges have all been read.

    Attributes
    ----------
    starts, before : ndarray of int, shape (P,)
        Start offsets of its ranges, ascending, and the number of lines before each.
    bad : list of BadLine
    lines_before_end : int
        Number of lines before the offset from which the file was read live.
    """

    starts: np.ndarray
    before: np.ndarray
    bad: list[BadLine]
    lines_before_end: int


class Backlog:
    """Distributes ranges to worker processes, or reads them in the calling thread without workers.

    Parameters
    ----------
    workers : WorkerPool or None
    range_bytes : int
        Bytes per range.

    Attributes
    ----------
    constants : Constants
        Training constants that rows are computed with.
    halted : bool
        True if the user paused it; ranges in progress are still completed.
    """

    def __init__(self, workers: WorkerPool | None, range_bytes: int) -> None:
        self.range_bytes = range_bytes
        self._workers = workers if workers is not None and workers.jobs else None
        self.halted = False
        self.constants: Constants = USUAL_CONSTANTS
        self._open_files: dict[int, OpenFile] = {}
        self._queue: deque[ByteRange] = deque()
        self._running: dict[Future[RangeResult], ByteRange] = {}

    def __contains__(self, file: int) -> bool:
        return file in self._open_files

    def __bool__(self) -> bool:
        return bool(self._open_files)

    @property
    def bytes(self) -> int:
        """Bytes of the unread ranges."""
        return sum(open_file.bytes for open_file in self._open_files.values())

    @property
    def busy(self) -> bool:
        """True if `results` would make progress at once instead of waiting for a process."""
        if self._workers is None:
            return bool(self._queue) and not self.halted
        # All running ranges may finish in one turn; then no callback would wake the reader to submit more.
        return self._can_submit or any(future.done() for future in self._running)

    @property
    def needs_no_workers(self) -> bool:
        """True if no process is needed: the backlog is empty or paused."""
        return not self._running and (self.halted or not self._open_files)

    def add(self, files: list[OpenFile]) -> None:
        """Queue the unread ranges of files; of files written together, the last range of each comes first."""
        queued: list[tuple[tuple[float, int], int, ByteRange]] = []
        for file in files:
            all_parts = split_into_ranges(
                file.file, file.reader, file.start, file.limit, self.range_bytes, self.constants
            )
            parts = [part for part in all_parts if part.start not in file.newlines]
            file.waiting, file.bytes = len(parts), sum(part.end - part.start for part in parts)
            self._open_files[file.file] = file
            queued += [
                (reading_order(file.reader.name, file.modified), i, part) for i, part in enumerate(parts)
            ]
        queued.sort(key=lambda item: item[:2])
        self._queue.extend(part for *_, part in queued)

    def drop(self, file: int) -> None:
        """Remove a file and its ranges, because the file was replaced."""
        if self._open_files.pop(file, None) is None:
            return
        self.halted &= bool(self._open_files)
        self._queue = deque(item for item in self._queue if item.file != file)
        self._running = {future: item for future, item in self._running.items() if item.file != file}

    def cancel(self) -> None:
        """Remove all files and ranges, because the run was closed."""
        for future in self._running:
            future.cancel()
        self._open_files, self._queue, self._running = {}, deque(), {}

    def add_live_bad_lines(self, file: int, bad: list[BadLine]) -> None:
        """Add bad lines that were read live at the end of an open file."""
        open_file = self._open_files[file]
        open_file.add_bad_lines(open_file.limit, bad)

    def state(self, file: int) -> OpenFileState | None:
        """Return a file's progress for the cache; None if it is not in the backlog."""
        open_file = self._open_files.get(file)
        return None if open_file is None else open_file.state(self.range_bytes)

    def results(self) -> Iterator[tuple[ByteRange, RangeResult | OSError]]:
        """Submit ranges and yield finished results; without workers, read one range here and yield it."""
        if self._workers is None:
            if self._queue and not self.halted:
                yield self._index_here(self._queue.popleft())
            return
        self._submit_ranges(self._workers)
        done = [future for future in self._running if future.done()]
        for future in done:
            byte_range = self._running.pop(future, None)
            if byte_range is not None:  # the caller may have dropped the file since the last yield
                yield self._result(byte_range, future)

    def add_result(self, byte_range: ByteRange, result: RangeResult) -> bool:
        """Record the result of a range; True if it was the last one of its file."""
        open_file = self._open_files[byte_range.file]
        open_file.waiting -= 1
        open_file.bytes -= byte_range.end - byte_range.start
        open_file.newlines[byte_range.start] = result.newlines
        open_file.add_bad_lines(byte_range.start, result.bad)
        return open_file.waiting == 0

    def finish_file(self, file: int) -> FinishedFile:
        """Remove a file whose ranges have all been read, and return its line counts and bad lines."""
        open_file = self._open_files.pop(file)
        self.halted &= bool(self._open_files)
        parts = [*sorted(open_file.newlines), open_file.limit]
        lines = [open_file.newlines.get(part, 0) for part in parts]
        before = open_file.lines_before + np.cumsum([0, *lines[:-1]])
        bad = [
            BadLine(line.line + lines_before, line.offset, line.reason)
            for part, lines_before in zip(parts, before.tolist(), strict=True)
            for line in open_file.bad.get(part, [])
        ]
        return FinishedFile(np.array(parts, np.int64), before, bad, int(before[-1]))

    @property
    def _can_submit(self) -> bool:
        """True if a range is queued and the processes can accept it."""
        room = self._workers is not None and len(self._running) < _QUEUED_PER_JOB * self._workers.jobs
        return room and bool(self._queue) and not self.halted

    def _submit_ranges(self, workers: WorkerPool) -> None:
        while self._can_submit:
            byte_range = self._queue.popleft()
            self._running[workers.submit(byte_range)] = byte_range

    def _result(
        self, byte_range: ByteRange, future: Future[RangeResult]
    ) -> tuple[ByteRange, RangeResult | OSError]:
        try:
            return byte_range, future.result()
        except OSError as error:
            return byte_range, error
        except (WorkerDied, RuntimeError):  # no process could read the range, so read it here
            return self._index_here(byte_range)

    def _index_here(self, byte_range: ByteRange) -> tuple[ByteRange, RangeResult | OSError]:
        try:
            return byte_range, index_range(byte_range)
        except OSError as error:
            return byte_range, error
