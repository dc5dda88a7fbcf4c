"""Files that are read again as a whole each time they changed: documents, and files of events."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from rlpanel.errors import LineError, LineTooLarge, SourceChanged, SourceDamaged, SourceUnready
from rlpanel.sources.files import file_access
from rlpanel.sources.files.decompress import DecompressedStream, open_plain
from rlpanel.sources.files.file_access import reason_of
from rlpanel.sources.readers.json_places import BOM, text_start
from rlpanel.sources.readers.jsonl import CHUNK_RECORDS, REASON_CHARS, JsonlFile
from rlpanel.sources.readers.tail import ReadPosition, Tail, line_hash, stamp_of
from rlpanel.sources.records.json_parser import is_whole, parse
from rlpanel.sources.records.record_types import MAX_SAMPLES, Adapter, BadLine, Chunk, Locator

# -- whole file ----------------------------------------------------------------------------------------
# Reads files that are written in one go, and reads them again each time they changed: JSON documents.
#
# A document is one line, as of trainers that write an indented object per file. `document_items` reads those
# with a list of samples.
#
# Trainers write such a file in one go, which takes time. An incomplete document is read again when it
# changes; its previous rows stay until then.


#: A row's number, and the row as JSON or the reason why it cannot be written as such.
Row = tuple[int, bytes | LineError]


class WholeFileTail(Tail):
    """Tail of a file that is read whole; ``offset`` is the file's size after it was read."""

    def note_change(self) -> bool:
        """Return True if the file changed since the last call.

        Raises
        ------
        OSError
            If the file cannot be opened.
        """
        with self._file as file:
            status = file.stat()
        if stamp_of(status) == self._stamp:
            return False
        # The stamp is stored first: bytes written meanwhile change it, so the file is read again.
        self._stamp, self.size, self.modified = stamp_of(status), status.st_size, status.st_mtime
        return True

    def read_changed(self) -> bytes | None:
        """Return the whole file, decompressed, if it changed since the last read; else None.

        A read that failed counts, unless another one may succeed.

        Raises
        ------
        OSError
            If the file cannot be opened or read, or has more than ``line_bytes`` bytes.
        """
        if not self.note_change():
            return None
        try:
            return read_whole(self.path, self.line_bytes)
        except (SourceDamaged, SourceUnready):
            raise
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


def read_whole(path: str, most: int) -> bytes:
    """Return a whole file, decompressed.

    Raises
    ------
    SourceUnready
        If it has more than ``most`` bytes.
    SourceDamaged
        If its compressed data is invalid or was cut off.
    """
    with open_plain(path) as file:
        packed = isinstance(file.raw, DecompressedStream)
        size = 0 if packed else file_access.stat(path).st_size
        if size <= most:
            content = file.read(most + 1)
            if len(content) <= most:
                _check_end(file)
                return content
    raise SourceUnready(f"has {f'{size:,}' if size else f'more than {most:,}'} bytes; the limit is {most:,}")


def _check_end(file: io.BufferedReader) -> None:
    """Raise SourceDamaged if the compressed data of a file that was read to its end was cut off."""
    if isinstance(file.raw, DecompressedStream) and file.raw.is_cut:
        raise SourceDamaged("is cut off, or still being written: its compressed data ends in the middle")


class WholeFile(JsonlFile):
    """Base of the readers of JSON documents; see `record_types.RolloutFile`."""

    tail: WholeFileTail
    grows = False

    def _open_tail(self, line_bytes: int, end: int | None) -> Tail:
        return WholeFileTail(self.path, line_bytes)

    def mark(self, generation: int) -> ReadPosition | None:
        """Return None: reading the file again is as fast as recognising it."""

    def _read_bytes(self, length: int, offset: int) -> bytes:
        with open_plain(self.path) as file:
            if isinstance(file.raw, DecompressedStream):
                file.raw.skip_to(offset)
            else:
                file.seek(offset)
            return file.read(length)

    def note_packing(self, file: io.BufferedReader) -> None:
        """Note whether the file's own bytes hold its texts."""
        self.lines_on_disk = not isinstance(file.raw, DecompressedStream)


class RowsFile(WholeFile):
    """Base of the readers of tables: a row, written as JSON, is a line.

    A locator's offset is the row's number.
    """

    lines_on_disk = False

    def rows_of(self, content: bytes) -> Iterable[Row]:
        """Return the rows of a file's bytes.

        Raises
        ------
        OSError
            If the file is damaged or too large.
        """
        raise NotImplementedError

    def row_on_disk(self, number: int) -> bytes | LineError:
        """Return a row of the file as it is now; empty if there is none. Raises OSError as `rows_of` does."""
        raise NotImplementedError

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
        rows = self.rows_of(content)
        self.tail.mark_read()
        self.generation, self.lines = self.tail.generation, 0
        chunk = Chunk(self.generation, bytes=len(content))
        for number, line in rows:
            if isinstance(line, LineError):
                self.lines += 1
                chunk.bad.append(BadLine(self.lines, number, str(line)[:REASON_CHARS]))
            else:
                self._add_line(line, number, chunk)
            if len(chunk) >= CHUNK_RECORDS:
                yield chunk
                chunk = Chunk(self.generation)
        yield chunk

    def raw(self, locator: Locator) -> bytes:
        """Return a row as a JSON line; SourceChanged if the row is a different one now."""
        try:
            line = self.row_on_disk(locator.offset)
        except OSError as error:
            raise SourceChanged(f"{self.name}: row {locator.line}: {reason_of(error)}") from error
        if isinstance(line, LineError) or line_hash(line) != locator.hash:
            raise SourceChanged(f"{self.name}: row {locator.line} was rewritten since it was indexed")
        return line


class DocumentFile(WholeFile):
    """Reads one JSON document. It is line 1, without the blanks around it."""

    most_keys = MAX_SAMPLES

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
        with open_plain(self.path) as file:
            self.note_packing(file)
        start = text_start(content)
        document, chunk = content[start:].strip(), Chunk(bytes=self.tail.size)
        lines, self.lines = self.lines, 0
        self._add_line(document, start, chunk)
        if not chunk.good_lines:
            try:
                check_complete(document)
            except SourceUnready:
                self.lines = lines
                raise
        self.tail.mark_read()
        self.generation = chunk.generation = self.tail.generation
        yield chunk


def check_complete(document: bytes) -> None:
    """Raise SourceUnready if the bytes are not a JSON object, or hold more than is read."""
    if not document:
        raise SourceUnready("is incomplete or damaged (it is empty)")
    try:
        parse(document, MAX_SAMPLES)
    except LineTooLarge as error:
        raise SourceUnready(f"is too large: {str(error).replace('the line', 'the document')}") from None
    except LineError as error:
        raise SourceUnready(f"is incomplete or damaged ({str(error)[:120]})") from error


# -- session file --------------------------------------------------------------------------------------
# Reads a file of events as one line, which grows: all events together are one sample.
#
# The line is ``{"events": […]}``. Lines of the file that are not JSON are bad lines; the events around them
# are read. The last line counts as soon as it is whole. A file may be a list of events, too.


def is_session(adapter: Adapter) -> bool:
    """Return True if all lines of a file of this format are one sample."""
    return bool(getattr(adapter, "whole_session", False))


def events_line(items: bytes) -> bytes:
    """Return the line for a list of events, given as JSON."""
    return b'{"events":%b}' % items


class SessionFile(WholeFile):
    """Reads one session; see `record_types.RolloutFile`. It is line 1."""

    lines_on_disk = False

    def poll(self, budget: int) -> Iterator[Chunk]:
        """Yield the session if the file changed; ``budget`` is ignored.

        Raises
        ------
        OSError
            If the file cannot be read, is too large, or ends with an incomplete line.
        """
        content = self.tail.read_changed()
        if content is None:
            yield Chunk(self.generation)
            return
        line, bad, rest = _joined(content)
        chunk, self.lines = Chunk(bytes=self.tail.size), 0
        self._add_line(line, 0, chunk)
        chunk.bad += bad
        self.tail.mark_read()
        self.generation = chunk.generation = self.tail.generation
        yield chunk
        if rest:
            raise SourceUnready(f"the last line is incomplete ({rest:,} bytes)")

    def raw(self, locator: Locator) -> bytes:
        """Return the session as a line; SourceChanged if it has gone on since it was indexed."""
        try:
            line, *_ = _joined(read_whole(self.path, self.tail.line_bytes))
        except OSError as error:
            raise SourceChanged(f"{self.name}: {reason_of(error)}") from error
        if line_hash(line) != locator.hash:
            raise SourceChanged(f"{self.name}: the session has gone on since it was indexed")
        return line


def _joined(content: bytes) -> tuple[bytes, list[BadLine], int]:
    """Return all events as one line, the lines that are not JSON, and the bytes of an incomplete last one."""
    offset = len(BOM) if content.startswith(BOM) else 0
    content = content[offset:]
    if content.lstrip()[:1] == b"[":
        return events_line(content.strip()), [], 0
    events, bad, rest = list[bytes](), list[BadLine](), 0
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        text = line.strip().strip(b"\0")
        reason = _refused(text) if text else ""
        if text and not reason:
            events.append(text)
        elif number == len(lines) and not is_whole(text):
            rest = len(text)
        elif text:
            bad.append(BadLine(number, offset, reason))
        offset += len(line) + 1
    return events_line(b"[%b]" % b",".join(events)), bad, rest


def _refused(line: bytes) -> str:
    """Return why a line cannot be an event; empty if it is one."""
    try:
        parse(line)
    except LineError as error:
        return str(error)[:REASON_CHARS]
    return ""
