"""A parquet file as a file of lines: row i, written as JSON, is line i + 1.

Trainers write such a file whole and not at once. One that makes no sense yet is read again when it changed,
and its rows of before stay until then; pyarrow is imported when the first such file is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from rlpanel.errors import RemoteError, SourceChanged, SourceUnready
from rlpanel.sources.files import files
from rlpanel.sources.files.unread import reason_of
from rlpanel.sources.readers.jsonl import CHUNK_RECORDS, JsonlFile
from rlpanel.sources.readers.tail import Mark, Tail, line_hash, stamp_of
from rlpanel.sources.records.record_types import Adapter, Chunk, Locator

SUFFIX = ".parquet"
#: Rows written as JSON at a time.
_BATCH_ROWS = 256
#: A first group of rows that is larger when unpacked is not looked into: it is a data set.
_SNIFF_BYTES = 64 << 20


class ParquetTail(Tail):
    """Knows whether the file changed; ``offset`` is all of it, once it was read."""

    def content(self) -> bytes | None:
        """The whole file, where it differs from what was read last, whether or not that made sense.

        Raises
        ------
        OSError
            If the file cannot be opened or read.
        """
        with self._file as file:
            status = file.stat()
            if stamp_of(status) == self._stamp:
                return None
            # Noted first: what is written meanwhile makes another stamp, and is looked at again.
            self._stamp, self.size, self.modified = stamp_of(status), status.st_size, status.st_mtime
            if status.st_size > self.line_bytes:
                raise SourceUnready(f"has {status.st_size:,} bytes; at most {self.line_bytes:,} are read")
            try:
                return file.read(status.st_size, 0)
            except OSError:
                self._stamp = ()  # it is tried again although it does not change
                raise

    def _unread(self) -> bool:
        """Never: a file that made no sense makes none until it changes; that it did not stays said."""
        return False

    def taken(self) -> None:
        """All of the file stands for itself now; what it held before is void."""
        self.generation += 1
        self.offset = self.size


class ParquetFile(JsonlFile):
    """Reads one parquet file; see `record_types.RolloutFile`. A locator's offset is the row."""

    tail: ParquetTail
    lines_on_disk = False

    def __init__(self, path: str, name: str, adapter: Adapter, line_bytes: int = 64 << 20) -> None:
        super().__init__(path, name, adapter, line_bytes)
        self.tail = ParquetTail(path, line_bytes)

    def poll(self, budget: int) -> Iterator[Chunk]:
        """All rows where the file was written anew, at most about a thousand a chunk.

        Raises
        ------
        OSError
            If the file cannot be read, or is not whole yet.
        """
        content = self.tail.content()
        if content is None:
            yield Chunk(self.generation)
            return
        table = _table_of(content, self.tail.line_bytes)
        self.tail.taken()
        self.generation, self.lines = self.tail.generation, 0
        chunk = Chunk(self.generation, bytes=len(content))
        for row, line in enumerate(_lines_of(table)):
            self._line(line, row, chunk)
            if len(chunk) >= CHUNK_RECORDS:
                yield chunk
                chunk = Chunk(self.generation)
        yield chunk

    def mark(self, generation: int) -> Mark | None:
        """None: reading it again is as fast as knowing it again."""

    def raw(self, locator: Locator) -> bytes:
        """The row as its line; SourceChanged if another one stands there now."""
        try:
            table = _table_on_disk(self.path, stamp_of(files.stat(self.path)), self.tail.line_bytes)
            line = next(_lines_of(table.slice(locator.offset, 1)), b"")
        except OSError as error:
            raise SourceChanged(f"{self.name}: row {locator.line}: {reason_of(error)}") from error
        if line_hash(line) != locator.hash:
            raise SourceChanged(f"{self.name}: row {locator.line} was rewritten since it was indexed")
        return line


@lru_cache(maxsize=4)
def _table_on_disk(path: str, stamp: tuple[int, ...], most: int) -> Any:
    """The table in a file of this stamp, kept: a page of the grid asks for its rows one by one."""
    with files.stream(path, most) as file:
        return _table_of(file.read(), most)


def first_lines(path: str, most: int) -> list[bytes]:
    """The first rows as lines; none where that would unpack a file too large to be a step's samples.

    Raises
    ------
    OSError
        If the file cannot be read, or is not whole yet.
    """
    parquet = _pyarrow().parquet
    try:
        with files.stream(path) as content, parquet.ParquetFile(content) as file:
            metadata = file.metadata
            if metadata.num_row_groups and metadata.row_group(0).total_byte_size <= _SNIFF_BYTES:
                for batch in file.iter_batches(most, row_groups=[0]):
                    return list(_lines_of(batch))
    except RemoteError:
        raise
    except _faults() as error:
        raise SourceUnready(_not_whole(error)) from error
    return []


def _table_of(content: bytes, most: int) -> Any:
    """The table in a file's bytes, of at most ``most`` bytes when it is unpacked."""
    pyarrow = _pyarrow()
    try:
        with pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content)) as file:
            parts, size = [], 0
            for batch in file.iter_batches(_BATCH_ROWS):
                size += batch.nbytes  # what the file says of it leaves out what a dictionary stands for
                if size > most:
                    raise SourceUnready(f"has more than {most:,} bytes when unpacked, which is not read")
                parts.append(batch)
            return pyarrow.Table.from_batches(parts, file.schema_arrow)
    except SourceUnready:
        raise
    except _faults() as error:
        raise SourceUnready(_not_whole(error)) from error


def _lines_of(table: Any) -> Iterator[bytes]:
    """Each row as JSON. A null is left out, but in a column of floats, where it is a missing number."""
    import pyarrow.types as kinds

    floats = {field.name for field in table.schema if kinds.is_floating(field.type)}
    for start in range(0, table.num_rows, _BATCH_ROWS):
        for row in table.slice(start, _BATCH_ROWS).to_pylist():
            kept = {key: value for key, value in row.items() if value is not None or key in floats}
            yield json.dumps(kept, ensure_ascii=False, default=str).encode()


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise SourceUnready("parquet needs pyarrow: pip install pyarrow, then start rlpanel again") from error
    return pyarrow


def _faults() -> tuple[type[Exception], ...]:
    """What pyarrow raises over bytes that are no parquet; ArrowInvalid, for one, is a ValueError."""
    return (_pyarrow().ArrowException, ValueError, OSError)


def _not_whole(error: Exception) -> str:
    return f"is not whole yet, or damaged ({str(error).splitlines()[0][:80] if str(error) else 'no reason'})"
