"""A rollout file of JSON lines: its tail, its dialect, its records."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from rlpanel.errors import LineError, SourceChanged
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.files import files
from rlpanel.sources.files.unread import reason_of
from rlpanel.sources.readers.tail import Block, Mark, Tail, line_hash
from rlpanel.sources.records.column_batch import ColumnReader
from rlpanel.sources.records.fields import texts_of
from rlpanel.sources.records.json_parser import parse
from rlpanel.sources.records.record_types import MOST_SAMPLES, Adapter, BadLine, Chunk, Locator, Record

#: Bytes read at a time: they should still be in the processor's cache when they are parsed.
BLOCK_BYTES = 512 << 10
#: A chunk with as many records is handed out before more is read.
CHUNK_RECORDS = 1024
#: A line of several samples is kept as records after one of them was fetched, if it is shorter than this.
KEPT_BYTES = 8 << 20
#: A reason may quote what the line holds.
REASON_CHARS = 300

log = logging.getLogger(__name__)


class JsonlFile:
    """Reads one ``.jsonl`` file; see `rlpanel.sources.records.record_types.RolloutFile`.

    Parameters
    ----------
    path : str
        On disk.
    name : str
        Below the run, with forward slashes; what messages and uids show.
    adapter : Adapter
        The dialect of its lines.
    line_bytes : int
        The longest line that is read; a longer one is counted as bad.
    end : int, optional
        Bytes from here on are not looked at; must stand just after a newline.

    Attributes
    ----------
    generation, lines : int
        The generation of what was handed out last, and its lines.
    lines_on_disk : bool
        Whether a line's bytes stand in the file at its offset, as they are.
    """

    lines_on_disk = True

    def __init__(
        self, path: str, name: str, adapter: Adapter, line_bytes: int = 64 << 20, end: int | None = None
    ) -> None:
        self.path = path
        self.name = name
        self.adapter = adapter
        self.lines = 0
        self.tail = self._tail(line_bytes, end)
        self.generation = 0
        self._kept: tuple[int, list[Record]] | None = None
        self._sheets = ColumnReader(name)

    def _tail(self, line_bytes: int, end: int | None) -> Tail:
        return Tail(self.path, line_bytes, end)

    def poll(self, budget: int) -> Iterator[Chunk]:
        """New records, reading about ``budget`` bytes; OSError if the file cannot be read.

        At least one chunk comes, and all must be taken. There are several where lines are short, so that
        their records do not pile up.
        """
        chunk = Chunk(self.generation)
        size = min(budget, BLOCK_BYTES)
        for _ in range(budget // size):
            try:
                block = self.tail.read(size)
            except OSError:
                if not (chunk.bytes or chunk.bad):
                    raise
                break  # it comes again at the next look, after what was read before it
            if block.generation != self.generation:
                self.generation, self.lines = block.generation, 0
                chunk = Chunk(block.generation)  # what came before is void
            self._read(block, chunk)
            if not chunk.more:
                break
            if len(chunk) >= CHUNK_RECORDS:
                yield chunk
                chunk = Chunk(block.generation, more=True)
        yield chunk

    def mark(self, generation: int) -> Mark | None:
        """Where the reading stands; None if that is not in ``generation``, or cannot be gone on with."""
        return self.tail.mark(self.lines) if self.tail.generation == self.generation == generation else None

    def begin(self, offset: int) -> bool:
        """Go on at ``offset``, lines counted from there; see `rlpanel.sources.readers.tail.Tail.begin`."""
        if not self.tail.begin(offset):
            return False
        self.generation, self.lines = self.tail.generation, 0
        return True

    def resume(self, mark: Mark) -> bool:
        """Go on at a mark; False, and begin at the beginning, if that is another file."""
        known = self.tail.resume(mark)
        self.lines = mark.lines if known else 0
        return known

    def fetch(self, locator: Locator) -> Record:
        """One sample again, in full; SourceChanged if other bytes stand there now."""
        kept, line = self._kept, self.raw(locator)
        if kept is not None and kept[0] == locator.hash:
            return kept[1][locator.part]
        records = self.adapter.read(parse(line), self.name, full=True)
        # A page of the grid asks for the samples of one line one by one.
        self._kept = (locator.hash, records) if len(records) > 1 and len(line) < KEPT_BYTES else None
        return records[locator.part]

    def texts(self, locator: Locator) -> dict[str, str]:
        """The texts of one sample, as `fetch` finds them; SourceChanged if other bytes stand there now."""
        if isinstance(self.adapter, Native):
            return texts_of(parse(self.raw(locator)).items())
        return self.fetch(locator).texts

    def raw(self, locator: Locator) -> bytes:
        """The line itself; SourceChanged if other bytes stand there now."""
        try:
            line = self._bytes(locator.offset, locator.length)
        except OSError as error:
            raise SourceChanged(f"{self.name}:{locator.line}: {reason_of(error)}") from error
        if line_hash(line) != locator.hash:
            raise SourceChanged(
                f"{self.name}:{locator.line}: the file was rewritten since this sample was indexed; "
                "its new rows appear when they are read"
            )
        return line

    def _bytes(self, offset: int, length: int) -> bytes:
        """What stands at ``offset``, fewer bytes at the file's end."""
        return files.read(self.path, length, offset)

    def _read(self, block: Block, chunk: Chunk) -> None:
        """The lines of a block to the chunk."""
        if block.skipped:
            self.lines += 1
            chunk.bad.append(BadLine(self.lines, block.offset, self._too_long(block.skipped)))
        offset = block.offset
        for line in block.lines():
            self._line(line, offset, chunk)
            offset += len(line) + 1
        chunk.bytes += block.length
        chunk.more = block.more

    def _line(self, line: bytes, offset: int, chunk: Chunk) -> None:
        """One line to the chunk: records, a bad line, or a blank one."""
        self.lines += 1
        number = self.lines
        if not line or line.isspace():
            chunk.blank_lines += 1
            return
        native = isinstance(self.adapter, Native)
        if native and len(line) <= self.tail.line_bytes and self._sheets.take(line, chunk):
            chunk.good_lines += 1
            chunk.places.append((offset, len(line), number, 0, line_hash(line)))
            return
        try:
            if len(line) > self.tail.line_bytes:
                raise LineError(self._too_long(len(line)))
            fields = parse(line)
            records = self.adapter.read(fields, self.name, full=False)
            if len(records) > MOST_SAMPLES:
                raise LineError(f"{len(records):,} samples in one line; at most {MOST_SAMPLES:,} are read")
        except LineError as error:
            chunk.bad.append(BadLine(number, offset, str(error)[:REASON_CHARS]))
            return
        except Exception as error:  # one odd line must not end the reading of a run
            log.exception("%s:%d could not be read", self.name, number)
            reason = f"could not be read: {type(error).__name__}: {error}"
            chunk.bad.append(BadLine(number, offset, reason[:REASON_CHARS]))
            return
        chunk.good_lines += 1
        length, digest = len(line), line_hash(line)
        chunk.places += [(offset, length, number, part, digest) for part in range(len(records))]
        if native and self._sheets.learn(fields, records[0]):
            del fields  # the parser cannot be used again before
            if self._sheets.take(line, chunk):
                return
        chunk.add(records)

    def _too_long(self, length: int) -> str:
        return f"the line has {length:,} bytes; at most {self.tail.line_bytes:,} are read"
