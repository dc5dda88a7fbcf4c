"""Detects changes of a file that is written in one go, and reads it whole each time it changed.

Reads a JSON document, such as one indented object per file, as a file with one line.

Trainers write such a file in one go, which takes time. An incomplete document is read again when it changes;
its previous rows stay until then.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlpanel.errors import LineError, SourceUnready
from rlpanel.sources.files import file_access
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.readers.tail import ReadPosition, Tail, stamp_of
from rlpanel.sources.records.json_parser import parse
from rlpanel.sources.records.record_types import Chunk


class WholeFileTail(Tail):
    """Tail of a file that is read whole; ``offset`` is the file's size after it was read."""

    def read_changed(self) -> bytes | None:
        """Return the whole file if it changed since the last read, successful or not; else None.

        Raises
        ------
        OSError
            If the file cannot be opened or read, or has more than ``line_bytes`` bytes.
        """
        with self._file as file:
            status = file.stat()
            if stamp_of(status) == self._stamp:
                return None
            # The stamp is stored first: bytes written meanwhile change it, so the file is read again.
            self._stamp, self.size, self.modified = stamp_of(status), status.st_size, status.st_mtime
            if status.st_size > self.line_bytes:
                raise SourceUnready(f"has {status.st_size:,} bytes; the limit is {self.line_bytes:,}")
            try:
                return file.read(status.st_size, 0)
            except OSError:
                self._stamp = ()  # read it again although it did not change
                raise

    def _has_unread(self) -> bool:
        """Return False: an invalid file stays invalid until it changes, and its error stays reported."""
        return False

    def mark_read(self) -> None:
        """Mark the whole file as read, in a new generation if it had rows before: those are invalid."""
        # Discarding rows is expensive in a run of many small files, most of which are read once.
        if self.offset:
            self.generation += 1
        self.offset = self.size


SUFFIX = ".json"


class DocumentFile(JsonlFile):
    """Reads one JSON document; see `record_types.RolloutFile`. It is line 1, without the blanks around it."""

    tail: WholeFileTail
    grows = False

    def _open_tail(self, line_bytes: int, end: int | None) -> Tail:
        return WholeFileTail(self.path, line_bytes)

    def poll(self, budget: int) -> Iterator[Chunk]:
        """Yield the document's samples if the file changed; ``budget`` is ignored.

        Raises
        ------
        OSError
            If the file cannot be read, is incomplete or is too large.
        """
        content = self.tail.read_changed()
        if content is None:
            yield Chunk(self.generation)
            return
        document, chunk = content.strip(), Chunk(bytes=len(content))
        lines, self.lines = self.lines, 0
        self._add_line(document, content.find(document), chunk)
        if not chunk.good_lines:
            try:
                _check_complete(document)
            except SourceUnready:
                self.lines = lines
                raise
        self.tail.mark_read()
        self.generation = chunk.generation = self.tail.generation
        yield chunk

    def mark(self, generation: int) -> ReadPosition | None:
        """Return None: reading the file again is as fast as recognising it."""


def first_lines(path: str, most: int) -> list[bytes]:
    """Return the document as the only line.

    Raises
    ------
    OSError
        If the file cannot be read, is incomplete or has more than ``most`` bytes.
    """
    size = file_access.stat(path).st_size
    if size > most:
        raise SourceUnready(f"has {size:,} bytes; the limit is {most:,}")
    with file_access.stream(path) as file:
        document = file.read(size).strip()
    _check_complete(document)
    return [document]


def _check_complete(document: bytes) -> None:
    """Raise SourceUnready if the bytes are not a JSON object."""
    if not document:
        raise SourceUnready("is incomplete or damaged (it is empty)")
    try:
        parse(document)
    except LineError as error:
        raise SourceUnready(f"is incomplete or damaged ({str(error)[:120]})") from error
