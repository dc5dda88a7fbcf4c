"""Reads tables as files of lines: parquet, Arrow and SQLite; a row, written as JSON, is a line."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import lru_cache
from typing import Any

from rlpanel.errors import LineError, RemoteError, SourceUnready, describe_error
from rlpanel.sources.files import file_access
from rlpanel.sources.readers.tail import stamp_of
from rlpanel.sources.readers.whole_file import Row, RowsFile

# -- parquet -------------------------------------------------------------------------------------------
# Reads a parquet or Arrow file as a file of lines: row i, written as JSON, is line i + 1.
#
# Trainers write such a file in one go, which takes time. An incomplete file is read again when it changes;
# its previous rows stay until then. pyarrow is imported when the first such file is read.


SUFFIX, ARROW_SUFFIXES = ".parquet", (".arrow", ".feather")
#: Rows converted to JSON at a time.
_BATCH_ROWS = 256
#: A file whose first row group is larger than this when decompressed is taken for a data set and skipped.
_SNIFF_BYTES = 64 << 20
_ARROW_MAGIC = b"ARROW1"


class ParquetFile(RowsFile):
    """Reads one parquet file; see `record_types.RolloutFile`."""

    def rows_of(self, content: bytes) -> Iterable[Row]:
        """Return the rows; see `RowsFile.rows_of`."""
        return enumerate(_lines_of(self._table_of(content, self.tail.line_bytes)))

    def row_on_disk(self, number: int) -> bytes | LineError:
        """Return a row; see `RowsFile.row_on_disk`."""
        stamp = stamp_of(file_access.stat(self.path))
        table = _table_on_disk(self._table_of, self.path, stamp, self.tail.line_bytes)
        return next(_lines_of(table.slice(number, 1)), b"")

    @staticmethod
    def _table_of(content: bytes, most: int) -> Any:
        return _parquet_table(content, most)


class ArrowFile(ParquetFile):
    """Reads one file in Arrow's format for files (Feather), or for streams, which `datasets` writes."""

    @staticmethod
    def _table_of(content: bytes, most: int) -> Any:
        return _arrow_table(content, most)


@lru_cache(maxsize=4)
def _table_on_disk(
    table_of: Callable[[bytes, int], Any], path: str, stamp: tuple[int, ...], most: int
) -> Any:
    """Read the table of a file with this stamp, cached: a page of the grid requests single rows."""
    with file_access.stream(path, most) as file:
        return table_of(file.read(), most)


def first_lines(path: str, most: int) -> list[bytes]:
    """Return the first rows as lines; none if the file is too large to hold the samples of one step.

    Raises
    ------
    OSError
        If the file cannot be read or is incomplete.
    """
    if path.endswith(ARROW_SUFFIXES):
        return _first_arrow_lines(path, most)
    parquet = _pyarrow().parquet
    try:
        with file_access.stream(path) as content, parquet.ParquetFile(content) as file:
            metadata = file.metadata
            if metadata.num_row_groups and metadata.row_group(0).total_byte_size <= _SNIFF_BYTES:
                for batch in file.iter_batches(most, row_groups=[0]):
                    return _good_lines(batch)
    except (RemoteError, SourceUnready):
        raise
    except _read_errors() as error:
        raise SourceUnready(_incomplete(error)) from error
    return []


def _first_arrow_lines(path: str, most: int) -> list[bytes]:
    size = file_access.stat(path).st_size
    if size > _SNIFF_BYTES:
        return []
    with file_access.stream(path, size) as file:
        content = file.read()
    return _good_lines(_arrow_table(content, _SNIFF_BYTES).slice(0, most)) if content else []


def _good_lines(table: Any) -> list[bytes]:
    """Return the rows that can be read as lines; SourceUnready if none can."""
    lines = list(_lines_of(table))
    bad = [line for line in lines if isinstance(line, LineError)]
    if bad and len(bad) == len(lines):
        raise SourceUnready(f"has no row that can be read: {bad[0]}")
    return [line for line in lines if isinstance(line, bytes)]


def _arrow_table(content: bytes, most: int) -> Any:
    """Parse the table in a file's bytes; SourceUnready if it has more than ``most`` bytes decompressed."""
    pyarrow = _pyarrow()
    try:
        buffer = pyarrow.BufferReader(content)
        is_file = content.startswith(_ARROW_MAGIC)
        with (pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream)(buffer) as file:
            batches = map(file.get_batch, range(file.num_record_batches)) if is_file else file
            return _joined(batches, file.schema, most)
    except SourceUnready:
        raise
    except _read_errors() as error:
        raise SourceUnready(_incomplete(error)) from error


def _joined(batches: Iterable[Any], schema: Any, most: int) -> Any:
    """Return batches as one table; SourceUnready if they have more than ``most`` bytes."""
    parts, size = [], 0
    for batch in batches:
        size += batch.nbytes  # the file's metadata does not count values expanded from dictionaries
        if size > most:
            raise SourceUnready(f"has more than {most:,} bytes when unpacked, which is the limit")
        parts.append(batch)
    table = _pyarrow().Table.from_batches(parts, schema)
    _ = table.schema.names  # ValueError if a name is not UTF-8
    return table


def _parquet_table(content: bytes, most: int) -> Any:
    """Parse the table in a file's bytes; SourceUnready if it has more than ``most`` bytes decompressed."""
    pyarrow = _pyarrow()
    try:
        with pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content)) as file:
            return _joined(file.iter_batches(_BATCH_ROWS), file.schema_arrow, most)
    except SourceUnready:
        raise
    except _read_errors() as error:
        raise SourceUnready(_incomplete(error)) from error


def _lines_of(table: Any) -> Iterator[bytes | LineError]:
    """Yield each row as JSON, or what is wrong with it.

    Nulls are dropped, except in float columns, where they are missing numbers.
    """
    import pyarrow.types as kinds

    floats = {field.name for field in table.schema if kinds.is_floating(field.type)}
    for start in range(0, table.num_rows, _BATCH_ROWS):
        batch = table.slice(start, _BATCH_ROWS)
        try:
            rows = batch.to_pylist()
        except MemoryError:
            raise
        except Exception:  # one value in one row is enough, such as a text that is not UTF-8
            for row in range(batch.num_rows):
                yield _line_of_values(batch.slice(row, 1), floats)
        else:
            yield from (_line(row, floats) for row in rows)


def _line_of_values(row: Any, floats: set[str]) -> bytes | LineError:
    """Return the only row of a table as JSON; the first value that cannot be read makes the row bad."""
    values = {}
    for name in row.schema.names:
        try:
            values[name] = row.column(name)[0].as_py()
        except MemoryError:
            raise
        except Exception as error:
            return LineError(f"the value of {name[:40]!r} cannot be read: {describe_error(error)}")
    return _line(values, floats)


def _line(row: dict[str, Any], floats: set[str]) -> bytes | LineError:
    fields = {key: value for key, value in row.items() if value is not None or key in floats}
    try:
        return json.dumps(fields, ensure_ascii=False, default=str).encode()
    except MemoryError:
        raise
    except Exception as error:  # a value without a text, or nested too deeply
        return LineError(f"the row cannot be written as JSON: {describe_error(error)}")


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise SourceUnready("parquet needs pyarrow: pip install pyarrow, then start rlpanel again") from error
    return pyarrow


def _read_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that pyarrow raises for invalid parquet; ArrowInvalid is a ValueError."""
    return (_pyarrow().ArrowException, ValueError, OSError)


def _incomplete(error: Exception) -> str:
    reason = str(error).splitlines()[0][:80] if str(error) else "no reason given"
    return f"is incomplete or damaged ({reason})"


# -- sqlite --------------------------------------------------------------------------------------------
# Reads the traces in a SQLite file: a row of their table, written as JSON, is a line.
#
# The file's bytes are read like those of any other file, and SQLite opens them in memory: it neither locks
# the file nor writes beside it. Rows in a write-ahead log come when their writer has merged them into the
# file.


SQLITE_SUFFIX = ".db"
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


def first_traces(path: str, rows: int, most: int) -> list[bytes]:
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
            return [(number, _trace_line(dict(zip(names, row, strict=True)))) for number, *row in cursor]
    except sqlite3.Error as error:
        if "interrupted" in str(error):
            raise SourceUnready(f"takes more than {_SECONDS:.0f} seconds to read") from error
        raise SourceUnready(f"is incomplete or damaged ({error})") from error


def _trace_line(row: dict[str, object]) -> bytes | LineError:
    kept = {
        key: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for key, value in row.items()
        if value is not None
    }
    try:
        return json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError) as error:
        return LineError(f"the row cannot be written as JSON: {error}")
