"""Reads the traces in a SQLite file: a row of their table, written as JSON, is a line.

The file's bytes are read like those of any other file, and SQLite opens them in memory: it neither locks the
file nor writes beside it. Rows in a write-ahead log come when their writer has merged them into the file.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from functools import lru_cache

from rlpanel.errors import LineError, SourceUnready
from rlpanel.sources.files import file_access
from rlpanel.sources.readers.tail import stamp_of
from rlpanel.sources.readers.whole_file import Row, RowsFile

SUFFIX = ".db"
_MAGIC = b"SQLite format 3\0"
#: The table that is read: Trackio's.
TABLE = "traces"
#: Bytes of the header that say whether there is a write-ahead log; SQLite opens none in memory.
_VERSIONS, _NO_LOG = slice(18, 20), b"\x01\x01"
#: Most seconds that a reading may take, and steps of SQLite's machine between two looks at the clock.
_SECONDS, _STEPS = 30.0, 10_000


class SqliteFile(RowsFile):
    """Reads the traces of one SQLite file; see `record_types.RolloutFile`."""

    def rows_of(self, content: bytes) -> Iterable[Row]:
        """Return the rows; see `RowsFile.rows_of`."""
        return _rows(content, self.tail.line_bytes)

    def row_on_disk(self, number: int) -> bytes | LineError:
        """Return a row; see `RowsFile.row_on_disk`."""
        stamp = stamp_of(file_access.stat(self.path))
        return _rows_on_disk(self.path, stamp, self.tail.line_bytes).get(number, b"")


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
def _rows_on_disk(path: str, stamp: tuple[int, ...], most: int) -> dict[int, bytes | LineError]:
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


def _line(row: dict[str, object]) -> bytes | LineError:
    kept = {
        key: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for key, value in row.items()
        if value is not None
    }
    try:
        return json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError) as error:
        return LineError(f"the row cannot be written as JSON: {error}")
