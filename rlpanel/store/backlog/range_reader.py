"""A backlog in pieces: what one range of a file's bytes holds is a pure function of those bytes.

Whoever runs it, in whatever order, the pieces put together are what reading the file from its beginning
gives. A range owns the lines that start in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rlpanel.metrics.engine.constants import USUAL, Constants
from rlpanel.sources.files import files
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import Adapter, BadLine
from rlpanel.store.columns.row_builder import RowBuilder, Rows

#: Bytes of a range: short enough to be read between two live lines, long enough to be worth the sending.
RANGE_BYTES = 8 << 20
#: Bytes read at a time where an end of a line is sought.
_STEP = 64 << 10
#: Bad lines that a piece keeps with their reason; all are counted.
BAD_KEPT = 1000


@dataclass(frozen=True)
class ByteRange:
    """Bytes of a file to index.

    Attributes
    ----------
    file : int
        The file's number in its run.
    path, name : str
        Where it is, and what messages call it.
    adapter : Adapter
        Its dialect; it goes to the processes, so it must be one that pickle can send.
    start, end : int
        The range.
    limit : int
        Up to where the file is indexed in ranges; stands just after a newline.
    line_bytes : int
        Longest line that is read.
    constants : Constants
        What is known of the training.
    """

    file: int
    path: str
    name: str
    adapter: Adapter
    start: int
    end: int
    limit: int
    line_bytes: int
    constants: Constants = USUAL


@dataclass
class RangeResult:
    """What a range holds.

    Attributes
    ----------
    rows : Rows or None
        Their lines are counted from the first of this piece.
    bad : list of BadLine
        The first of them; numbered likewise.
    newlines, bad_count, blank_count, bytes : int
    left_out : str
        A logged column for which there was no room.
    void : bool
        Whether the file was replaced meanwhile; the rest means nothing then.
    """

    rows: Rows | None = None
    bad: list[BadLine] = field(default_factory=list)
    newlines: int = 0
    bad_count: int = 0
    blank_count: int = 0
    bytes: int = 0
    left_out: str = ""
    void: bool = False


def index_chunk(where: ByteRange) -> RangeResult:
    """The samples and bad lines whose lines start in a range.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    start, end = _owned(where)
    piece = RangeResult(bytes=end - start)
    if start == end:
        return piece
    file = JsonlFile(where.path, where.name, where.adapter, where.line_bytes, end)
    file.tail.begin(start)
    stage, more = RowBuilder(), True
    stage.constants = where.constants
    while more:
        for chunk in file.poll(end - start):
            if chunk.generation:
                return RangeResult(void=True)
            more = chunk.more
            stage.take(where.file, chunk)
            piece.bad += chunk.bad[: BAD_KEPT - len(piece.bad)]
            piece.bad_count += len(chunk.bad)
            piece.blank_count += chunk.blank_lines
    piece.newlines = file.lines
    piece.void = file.tail.offset != end
    piece.rows = stage.gathered()
    piece.left_out = stage.left_out
    return piece


def _owned(where: ByteRange) -> tuple[int, int]:
    """From the first line that starts in a range to the first that starts behind it."""
    with files.file(where.path, _STEP) as file:
        start = _line_start(file, where.start, where.limit)
        return start, max(start, _line_start(file, where.end, where.limit))


def _line_start(file: files.Readable, at: int, limit: int) -> int:
    """The first line start that is not before ``at``; ``limit`` where none is found before it."""
    if at == 0:
        return 0
    place = at - 1
    while place < limit and (data := file.read(_STEP, place)):
        found = data.find(b"\n")
        if found >= 0:
            return min(place + found + 1, limit)
        place += len(data)
    return limit


def last_line_start(path: str, size: int, farthest: int) -> int:
    """The end of the last whole line in a file's first ``size`` bytes, sought ``farthest`` bytes back.

    0 if there is none.
    """
    with files.file(path, _STEP) as file:
        end = size
        while end > max(0, size - farthest):
            start = max(0, end - _STEP)
            found = file.read(end - start, start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def ranges(
    file: int, reader: JsonlFile, start: int, limit: int, constants: Constants = USUAL
) -> Iterator[ByteRange]:
    """The ranges from ``start`` to ``limit``, both just after a newline, the last bytes first."""
    for at in reversed(range(start, limit, RANGE_BYTES)):
        yield ByteRange(
            file,
            reader.path,
            reader.name,
            reader.adapter,
            at,
            min(at + RANGE_BYTES, limit),
            limit,
            reader.tail.line_bytes,
            constants,
        )
