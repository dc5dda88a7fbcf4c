"""Reads the traces in a SQLite file as a file of lines: a row of the table, written as JSON, is a line.

The file's bytes are read like those of any other file, and SQLite opens them in memory: it neither locks the
file nor writes beside it. Rows in a write-ahead log come when their writer has merged them into the file.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache

from rlpanel.errors import SourceChanged, SourceUnready
from rlpanel.sources.files import file_access
from rlpanel.sources.files.file_access import reason_of
from rlpanel.sources.readers.jsonl import CHUNK_RECORDS, REASON_CHARS, JsonlFile
from rlpanel.sources.readers.tail import ReadPosition, Tail, line_hash, stamp_of
from rlpanel.sources.readers.whole_file import WholeFileTail
from rlpanel.sources.records.record_types import BadLine, Chunk, Locator

SUFFIX = ".db"
_MAGIC = b"SQLite format 3\0"
#: The table that is read: Trackio's.
TABLE = "traces"
#: Bytes of the header that say whether there is a write-ahead log; SQLite opens none in memory.
_VERSIONS, _NO_LOG = slice(18, 20), b"\x01\x01"
#: Most seconds that a reading may take, and steps of SQLite's machine between two looks at the clock.
_SECONDS, _STEPS = 30.0, 10_000

#: Row number, and the row as JSON or the reason why it cannot be written as such.
Row = tuple[int, bytes | str]


class SqliteFile(JsonlFile):
    """Reads the traces of one SQLite file; a locator's offset is the row's number."""

    tail: WholeFileTail
    lines_on_disk = grows = False

    def _open_tail(self, line_bytes: int, end: int | None) -> Tail:
        return WholeFileTail(self.path, line_bytes)

    def poll(self, budget: int) -> Iterator[Chunk]:
        """Yield all rows if the file changed, in chunks of about a thousand; ``budget`` is ignored.

        Raises
        ------
        OSError
            If the file cannot be read, is damaged or is too large.
        """
        content = self.tail.read_changed()
        if content is None:
            yield Chunk(self.generation)
            return
        rows = _rows(content, self.tail.line_bytes)
        self.tail.mark_read()
        self.generation, self.lines = self.tail.generation, 0
        chunk = Chunk(self.generation, bytes=len(content))
        for number, line in rows:
            if isinstance(line, str):
                self.lines += 1
                chunk.bad.append(BadLine(self.lines, number, line[:REASON_CHARS]))
            else:
                self._add_line(line, number, chunk)
            if len(chunk) >= CHUNK_RECORDS:
                yield chunk
                chunk = Chunk(self.generation)
        yield chunk

    def mark(self, generation: int) -> ReadPosition | None:
        """Return None: the file is read from its start again."""

    def raw(self, locator: Locator) -> bytes:
        """Return a row as a JSON line; SourceChanged if the file has another row at this place now."""
        try:
            stamp = stamp_of(file_access.stat(self.path))
            line = _rows_on_disk(self.path, stamp, self.tail.line_bytes).get(locator.offset, "")
        except OSError as error:
            raise SourceChanged(f"{self.name}: row {locator.line}: {reason_of(error)}") from error
        if isinstance(line, str) or line_hash(line) != locator.hash:
            raise SourceChanged(f"{self.name}: row {locator.line} was rewritten since it was indexed")
        return line


def first_lines(path: str, rows: int, most: int) -> list[bytes]:
    """Return the first rows as lines; none if the file is not SQLite's or holds no traces.

    Raises
    ------
    OSError
        If the file cannot be read, is damaged, or holds traces in more than ``most`` bytes.
    """
    size = file_access.stat(path).st_size
    with file_access.stream(path) as file:
        head = file.read(len(_MAGIC))
        if head != _MAGIC:
            return []
        if size > most:
            raise SourceUnready(f"has {size:,} bytes; the limit is {most:,}")
        content = head + file.read(size - len(head))
    return [line for _, line in _rows(content, most, rows) if isinstance(line, bytes)]


@lru_cache(maxsize=2)
def _rows_on_disk(path: str, stamp: tuple[int, ...], most: int) -> dict[int, bytes | str]:
    """Read the rows of a file with this stamp, cached: a page of the grid requests single rows."""
    with file_access.stream(path, most) as file:
        return dict(_rows(file.read(most), most))


def _rows(content: bytes, line_bytes: int, most: int = -1) -> list[Row]:
    """Return the table's first rows, by default all; none if the file has no such table.

    Raises
    ------
    SourceUnready
        If the file is damaged, was being written, or its reading takes too long.
    """
    deadline = time.monotonic() + _SECONDS
    image = bytearray(content)
    image[_VERSIONS] = _NO_LOG
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(bytes(image))
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, line_bytes)
            connection.text_factory = lambda value: value.decode("utf-8", "replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            # A view or a virtual table of this name could run functions, so neither is read.
            found = connection.execute(
                "SELECT type, sql FROM sqlite_master WHERE name = ?", (TABLE,)
            ).fetchone()
            if found is None or found[0] != "table" or found[1].upper().startswith("CREATE VIRTUAL"):
                return []
            cursor = connection.execute(f"SELECT rowid, * FROM {TABLE} ORDER BY rowid LIMIT ?", (most,))
            names = [column[0] for column in cursor.description][1:]
            return [(number, _line(dict(zip(names, row, strict=True)))) for number, *row in cursor]
    except sqlite3.Error as error:
        if "interrupted" in str(error):
            raise SourceUnready(f"takes more than {_SECONDS:.0f} seconds to read") from error
        raise SourceUnready(f"is incomplete or damaged ({error})") from error


def _line(row: dict[str, object]) -> bytes | str:
    kept = {
        key: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for key, value in row.items()
        if value is not None
    }
    try:
        return json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError) as error:
        return f"the row cannot be written as JSON: {error}"
