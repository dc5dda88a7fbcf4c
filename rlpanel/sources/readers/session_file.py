"""Reads a file of events as one line, which grows: all events together are one sample.

The line is ``{"events": […]}``. Lines of the file that are not JSON are bad lines; the events around them are
read. The last line counts as soon as it is whole. A file may be a list of events, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlpanel.errors import LineError, SourceChanged, SourceUnready
from rlpanel.sources.files.file_access import reason_of
from rlpanel.sources.readers.json_places import BOM
from rlpanel.sources.readers.jsonl import REASON_CHARS
from rlpanel.sources.readers.tail import line_hash
from rlpanel.sources.readers.whole_file import WholeFile, read_whole
from rlpanel.sources.records.json_parser import is_whole, parse
from rlpanel.sources.records.record_types import Adapter, BadLine, Chunk, Locator


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
