"""Indexes one byte range of a file. The result depends only on the bytes, so any process can do it.

A range owns the lines that start in it. The results of all ranges, read in any order, merge into the same
rows as reading the file from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rlpanel.metrics.engine.constants import USUAL_CONSTANTS, Constants
from rlpanel.sources.files import file_access
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import NO_HOLE, Adapter, BadLine, Hole
from rlpanel.store.columns.row_builder import RowBuilder, Rows

#: Bytes read at a time when searching for the end of a line.
_STEP = 64 << 10
#: Number of bad lines kept with their reason; all are counted.
MAX_BAD_LINES = 1000


@dataclass(frozen=True)
class ByteRange:
    """Bytes of a file to index.

    Attributes
    ----------
    file : int
        The file's number in its run.
    path, name : str
        Path of the file, and its name in messages.
    adapter : Adapter
        Adapter for the file's lines; must be picklable, because it is sent to the processes.
    start, end : int
        Byte offsets of the range.
    limit : int
        End of the last range of the file; just after a newline.
    line_bytes : int
        Length limit for lines.
    constants : Constants
        Training constants that rows are computed with.
    """

    file: int
    path: str
    name: str
    adapter: Adapter
    start: int
    end: int
    limit: int
    line_bytes: int
    constants: Constants = USUAL_CONSTANTS


@dataclass
class RangeResult:
    """Rows and bad lines of a range.

    Attributes
    ----------
    rows : Rows or None
        Their line numbers are relative to the range.
    bad : list of BadLine
        The first bad lines; their line numbers are relative to the range.
    newlines, bad_count, blank_count, empty_count, bytes : int
    hole : Hole
    left_out : str
        The first logged column beyond the limit on columns; empty if all fit.
    outdated : bool
        True if the file was replaced while it was read; the other fields are invalid then.
    """

    rows: Rows | None = None
    bad: list[BadLine] = field(default_factory=list)
    newlines: int = 0
    bad_count: int = 0
    blank_count: int = 0
    empty_count: int = 0
    bytes: int = 0
    left_out: str = ""
    outdated: bool = False
    hole: Hole = NO_HOLE


def index_range(byte_range: ByteRange) -> RangeResult:
    """Read the samples and bad lines whose lines start in a range.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    start, end = _owned_offsets(byte_range)
    result = RangeResult(bytes=end - start)
    if start == end:
        return result
    file = JsonlFile(byte_range.path, byte_range.name, byte_range.adapter, byte_range.line_bytes, end)
    file.tail.start_at(start)
    builder, more = RowBuilder(), True
    builder.constants = byte_range.constants
    while more:
        for chunk in file.poll(end - start):
            if chunk.generation:
                return RangeResult(outdated=True)
            more = chunk.more
            builder.add_chunk(byte_range.file, chunk)
            result.bad += chunk.bad[: MAX_BAD_LINES - len(result.bad)]
            result.bad_count += len(chunk.bad)
            result.blank_count += chunk.blank_lines
            result.empty_count += chunk.empty_lines
            result.hole = result.hole.joined(chunk.hole)
    result.newlines = file.lines
    result.outdated = file.tail.offset != end
    result.rows = builder.flush_raw()
    rejected = [line for _, line in builder.rejected]
    result.bad += rejected[: MAX_BAD_LINES - len(result.bad)]
    result.bad_count += len(rejected)
    result.left_out = builder.left_out
    return result


def _owned_offsets(byte_range: ByteRange) -> tuple[int, int]:
    """Return the offsets of the first line that starts in a range and of the first one after it."""
    with file_access.follow_file(byte_range.path, _STEP) as file:
        start = _line_start(file, byte_range.start, byte_range.limit)
        return start, max(start, _line_start(file, byte_range.end, byte_range.limit))


def _line_start(file: file_access.Readable, offset: int, limit: int) -> int:
    """Return the first line start at or after ``offset``, at most ``limit``."""
    if offset == 0:
        return 0
    position = offset - 1
    while position < limit and (data := file.read(_STEP, position)):
        newline = data.find(b"\n")
        if newline >= 0:
            return min(position + newline + 1, limit)
        position += len(data)
    return limit


def first_line_start(path: str, offset: int, limit: int) -> int:
    """Return the first line start at or after ``offset``; ``limit`` if there is none before it."""
    with file_access.follow_file(path, _STEP) as file:
        return _line_start(file, offset, limit)


def last_line_start(path: str, size: int, farthest: int) -> int:
    """Return the end of the last whole line in the first ``size`` bytes, searching ``farthest`` bytes back.

    Returns 0 if no newline is found.
    """
    with file_access.follow_file(path, _STEP) as file:
        end = size
        while end > max(0, size - farthest):
            start = max(0, end - _STEP)
            newline = file.read(end - start, start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0


def split_into_ranges(
    file: int,
    reader: JsonlFile,
    start: int,
    limit: int,
    range_bytes: int,
    constants: Constants = USUAL_CONSTANTS,
) -> Iterator[ByteRange]:
    """Yield the ranges from ``start`` to ``limit``, both just after a newline, the last range first."""
    for range_start in reversed(range(start, limit, range_bytes)):
        yield ByteRange(
            file,
            reader.path,
            reader.name,
            reader.adapter,
            range_start,
            min(range_start + range_bytes, limit),
            limit,
            reader.tail.line_bytes,
            constants,
        )
