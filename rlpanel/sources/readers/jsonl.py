"""Reads a rollout file of JSON lines: follows its tail and parses its lines with an adapter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import accumulate, chain, count, repeat
from operator import add

from xxhash import xxh3_64_intdigest

from rlpanel.errors import (
    LineError,
    LineTooLarge,
    RLPanelError,
    SourceChanged,
    SourceDamaged,
    SourceUnready,
    describe_error,
)
from rlpanel.sources.adapters.native import Native
from rlpanel.sources.files import file_access
from rlpanel.sources.files.file_access import reason_of
from rlpanel.sources.readers.tail import Block, ReadPosition, Tail, line_hash
from rlpanel.sources.records.adapter_calls import read_samples
from rlpanel.sources.records.column_batch import ColumnReader
from rlpanel.sources.records.fields import TEXT_KEYS, build_texts
from rlpanel.sources.records.json_parser import MAX_KEYS, is_whole, parse, parse_some
from rlpanel.sources.records.record_types import (
    MAX_SAMPLES,
    Adapter,
    BadLine,
    Chunk,
    Hole,
    Locator,
    Record,
    flat_format,
)

#: Bytes read at a time: they should still be in the CPU cache when they are parsed.
BLOCK_BYTES = 512 << 10
#: Lines that are parsed in one call, if they have no lists, and bytes that are split into lines at a time.
LINES_AT_ONCE, CACHED_BYTES = 128, 256 << 10
#: A chunk with this many records is yielded before more bytes are read.
CHUNK_RECORDS = 1024
#: The records of a shorter line with several samples are cached after one of them was fetched.
KEPT_BYTES = 8 << 20
#: Longest reason for a bad line, since a reason may quote the line.
REASON_CHARS = 300


#: A line that an adapter reads otherwise now, and texts that it holds.
ChangedLine = tuple[Locator, Collection[str]]


class JsonlFile:
    """Reads one ``.jsonl`` file; see `rlpanel.sources.records.record_types.RolloutFile`.

    Parameters
    ----------
    path : str
        Path on disk.
    name : str
        Path below the run with forward slashes, as shown in messages and uids.
    adapter : Adapter
        Parser for the log format of its lines.
    line_bytes : int
        Longest line that is read; longer ones count as bad.
    end : int, optional
        Offset at which reading stops; must be just after a newline.

    Attributes
    ----------
    generation, lines : int
        Generation of the chunk yielded last, and the number of its lines so far.
    lines_on_disk : bool
        Whether a line's bytes are in the file at its offset, unchanged.
    grows : bool
        Whether lines are read while the file is written; else it is read once it is whole.
    container : Container or None
        How the file holds its records, see `containers.open_reader`.
    most_keys : int
        Most keys of a line: those of a sample, or the ids of a document's samples.
    """

    lines_on_disk = grows = True
    most_keys = MAX_KEYS
    container: object = None

    def __init__(
        self, path: str, name: str, adapter: Adapter, line_bytes: int = 64 << 20, end: int | None = None
    ) -> None:
        self.path = path
        self.name = name
        self.adapter = adapter
        self.lines = 0
        self.tail = self._open_tail(line_bytes, end)
        self.generation = 0
        self._cached_line: tuple[int, list[Record]] | None = None
        self._column_reader = ColumnReader(name, flat_format(adapter))

    def _open_tail(self, line_bytes: int, end: int | None) -> Tail:
        return Tail(self.path, line_bytes, end)

    def poll(self, budget: int) -> Iterator[Chunk]:
        """Yield new records from about ``budget`` bytes; OSError if the file cannot be read.

        At least one chunk is yielded, and the caller must consume all of them. Short lines give several
        chunks, so that their records do not pile up in memory.
        """
        chunk = Chunk(self.generation)
        size = min(budget, BLOCK_BYTES)
        for _ in range(budget // size):
            try:
                block = self.tail.read(size)
            except OSError:
                if not (chunk.bytes or chunk.bad):
                    raise
                break  # the error is raised by the next call, after the lines read before it were delivered
            if block.generation != self.generation:
                self.generation, self.lines = block.generation, 0
                chunk = Chunk(block.generation)  # lines read before are invalid
            self.add_block(block, chunk)
            if not chunk.more:
                break
            if len(chunk) >= CHUNK_RECORDS:
                yield chunk
                chunk = Chunk(block.generation, more=True)
        yield chunk

    def read_end(self) -> Iterator[Chunk]:
        """Yield the samples of the last line although its newline is missing, if the line is whole.

        To be called when all complete lines were read. If the file has changed since, nothing is read, and
        the chunk that is yielded has ``more`` set.

        Raises
        ------
        OSError
            If the line is incomplete, the file is cut off or cannot be read.
        """
        tail, chunk = self.tail, Chunk(self.generation)
        line = tail.peek_end() if tail.partial <= tail.line_bytes else b"-"
        if line is None:
            chunk.more = True
            yield chunk
            return
        text = line.strip(b"\0")
        is_read = bool(text) and self._is_whole(text)
        if is_read:
            tail.take_end(line)
            self._add_end(line, tail.offset - len(line), chunk)
            chunk.bytes = len(line)
        yield chunk
        if tail.cut_off:
            raise SourceDamaged("is cut off, or still being written: its compressed data ends in the middle")
        if not is_read and tail.partial and not text:
            raise SourceUnready(f"it ends with {tail.partial:,} zero bytes")
        if not is_read and text.strip():
            raise SourceUnready(f"the last line is incomplete ({tail.partial:,} bytes)")

    def _is_whole(self, line: bytes) -> bool:
        """Return True if a last line without a newline is not the beginning of one."""
        return is_whole(line)

    def _add_end(self, line: bytes, offset: int, chunk: Chunk) -> None:
        self._add_line(line, offset, chunk)

    def use(self, adapter: Adapter) -> None:
        """Parse lines with another adapter from now on."""
        self.adapter, self._cached_line = adapter, None
        self._column_reader = ColumnReader(self.name, flat_format(adapter))

    def read_again(self, lines: Iterable[ChangedLine]) -> Chunk:
        """Return the samples of lines that were read before, as the adapter reads them now.

        Raises
        ------
        SourceChanged
            If a line is not there any more, or does not hold the texts that it should.
        """
        chunk, total = Chunk(self.generation), self.lines
        for locator, texts in lines:
            line = self.raw(locator)
            if any(text.encode() not in line for text in texts):
                raise SourceChanged(f"{self.name}:{locator.line}: another line was expected here")
            self.lines = locator.line - 1
            self._add_line(line, locator.offset, chunk, locator.length)
            chunk.bytes += len(line)
        self.lines = total
        return chunk

    def mark(self, generation: int) -> ReadPosition | None:
        """Return the reading position; None if it is not in ``generation`` or cannot be continued from."""
        return self.tail.mark(self.lines) if self.tail.generation == self.generation == generation else None

    def start_at(self, offset: int) -> bool:
        """Continue at ``offset`` and count lines from there; see `tail.Tail.start_at`."""
        if not self.tail.start_at(offset):
            return False
        self.generation, self.lines = self.tail.generation, 0
        return True

    def resume(self, mark: ReadPosition) -> bool:
        """Continue at a mark; False, and start at the beginning, if the file was replaced."""
        same_file = self.tail.resume(mark)
        self.lines = mark.lines if same_file else 0
        return same_file

    def fetch(self, locator: Locator) -> Record:
        """Read one sample again in full; SourceChanged if the file has other bytes there now."""
        return self.sample_of(self.raw(locator), locator)

    def sample_of(self, line: bytes, locator: Locator) -> Record:
        """Return the sample at a locator in full from its line, which `raw` has read."""
        cached = self._cached_line
        if cached is not None and cached[0] == locator.hash:
            return cached[1][locator.part]
        records = read_samples(
            self.adapter, parse(line, self.most_keys), self.name, full=True, offset=locator.offset
        )
        # A page of the grid requests the samples of one line one at a time.
        self._cached_line = (locator.hash, records) if len(records) > 1 and len(line) < KEPT_BYTES else None
        return records[locator.part]

    def texts(self, locator: Locator) -> dict[str, str]:
        """Read the texts of one sample as `fetch` does, with the same errors."""
        return self._texts_of(self.raw(locator), locator)

    def many_texts(self, locators: Iterable[Locator]) -> Iterator[dict[str, str] | None]:
        """Yield the texts of samples, or None where `texts` raises an error; a local file is opened once."""
        places = list(locators)
        for locator, line in zip(places, self.many_lines(places), strict=True):
            try:
                yield self._texts_of(line, locator) if line is not None else None
            except (RLPanelError, IndexError):
                yield None

    def many_lines(self, locators: Iterable[Locator]) -> Iterator[bytes | None]:
        """Yield the lines of samples, or None where `raw` raises an error; a local file is opened once."""
        with ExitStack() as stack:
            read_line = self.raw
            if self.lines_on_disk and not file_access.is_remote(self.path):
                with suppress(OSError):  # then each line is found to be gone
                    file = stack.enter_context(file_access.LocalFile(self.path))
                    read_line = partial(self._checked, file.read)
            for locator in locators:
                try:
                    yield read_line(locator)
                except (RLPanelError, IndexError):
                    yield None

    def _texts_of(self, line: bytes, locator: Locator) -> dict[str, str]:
        if isinstance(self.adapter, Native):
            return build_texts(parse_some(line, TEXT_KEYS).items())
        return self.sample_of(line, locator).texts

    def raw(self, locator: Locator) -> bytes:
        """Read a line's bytes; SourceChanged if the file has other bytes there now."""
        return self._checked(self._read_bytes, locator)

    def _checked(self, read: Callable[[int, int], bytes], locator: Locator) -> bytes:
        """Return a line that ``read`` gets by length and offset; SourceChanged as in `raw`."""
        try:
            line = read(locator.length, locator.offset)
        except OSError as error:
            raise SourceChanged(f"{self.name}:{locator.line}: {reason_of(error)}") from error
        if line_hash(line) != locator.hash:
            raise SourceChanged(
                f"{self.name}:{locator.line}: the file was rewritten since this sample was indexed; "
                "its new rows appear after they are read"
            )
        return line

    def _read_bytes(self, length: int, offset: int) -> bytes:
        """Return the bytes at ``offset``, fewer at the end of the file."""
        return file_access.read(self.path, length, offset)

    def add_block(self, block: Block, chunk: Chunk) -> None:
        """Add the lines of a block to the chunk."""
        if block.skipped:
            self.lines += 1
            chunk.bad.append(BadLine(self.lines, block.offset, self._too_long(block.skipped)))
        start = block.first_line
        while start < block.length:
            if not self._column_reader.takes_many:
                line = block.line_at(start)
                self._add_line(line, block.offset + start, chunk)
                start += len(line) + 1
                continue
            lines = block.lines_at(start, CACHED_BYTES)
            for first in range(0, len(lines), LINES_AT_ONCE):
                start += self._add_lines(lines[first : first + LINES_AT_ONCE], block.offset + start, chunk)
        chunk.bytes += block.length
        chunk.more = block.more

    def _add_lines(self, lines: Sequence[bytes], offset: int, chunk: Chunk) -> int:
        """Add consecutive lines to the chunk; return their length with their newlines."""
        lengths = list(map(len, lines))
        offsets = list(map(add, accumulate(lengths, initial=offset), count()))
        if len(lines) == 1 or not self._add_at_once(lines, offsets, lengths, chunk):
            for line, start in zip(lines, offsets, strict=False):
                self._add_line(line, start, chunk)
        return offsets[-1] - offset

    def _add_at_once(
        self, lines: Sequence[bytes], offsets: Sequence[int], lengths: Sequence[int], chunk: Chunk
    ) -> bool:
        """Add lines to the chunk in one go; return False if they must be added one by one."""
        reader = self._column_reader
        if not reader.takes_many or max(lengths) > self.tail.line_bytes or not reader.add_lines(lines, chunk):
            return False
        numbers = range(self.lines + 1, self.lines + len(lines) + 1)
        hashes = map(xxh3_64_intdigest, lines)  # `line_hash` without a call of Python code for each line
        locators = zip(offsets, lengths, numbers, repeat(0), hashes, strict=False)
        chunk.raw_locators.extend(chain.from_iterable(locators))
        chunk.good_lines += len(lines)
        self.lines += len(lines)
        return True

    def _add_line(self, line: bytes, offset: int, chunk: Chunk, length: int = 0) -> None:
        """Add one line to the chunk: as records, a bad line or a blank line.

        ``length`` is the number of bytes in the file that the line was made of, if it is not the line's own.
        """
        self.lines += 1
        number = self.lines
        if not line or line.isspace():
            chunk.blank_lines += 1
            return
        if len(line) <= self.tail.line_bytes and self._column_reader.add_line(line, chunk):
            chunk.good_lines += 1
            chunk.raw_locators.extend((offset, length or len(line), number, 0, line_hash(line)))
            return
        try:
            if len(line) > self.tail.line_bytes:
                raise LineError(self._too_long(len(line)))
            fields = parse(line, self.most_keys)
            records = read_samples(self.adapter, fields, self.name, full=False, offset=offset)
            if len(fields) > MAX_KEYS and len(records) < 2:  # its keys would be columns, not samples
                raise LineTooLarge(f"the line has {len(fields):,} keys; the limit is {MAX_KEYS:,}")
            if len(records) > MAX_SAMPLES:
                raise LineError(f"{len(records):,} samples in one line; the limit is {MAX_SAMPLES:,}")
        except MemoryError:  # the line may be good: it is read again later
            raise
        except Exception as error:  # no line may stop the reading of a run
            expected = isinstance(error, LineError)
            reason = str(error) if expected else f"cannot be read: {describe_error(error)}"
            if expected and b"\0" in line:
                bare = self._note_hole(line, offset, chunk)
                if len(bare) < len(line) and is_whole(bare):
                    self.lines -= 1
                    self._add_line(bare, offset + line.index(bare[:1]), chunk)
                    return
                reason = f"{line.count(0):,} zero bytes in the line; {reason}"
            chunk.bad.append(BadLine(number, offset, reason[:REASON_CHARS]))
            return
        chunk.good_lines += 1
        chunk.empty_lines += not records
        length, digest = length or len(line), line_hash(line)
        for part in range(len(records)):
            chunk.raw_locators.extend((offset, length, number, part, digest))
        if len(records) == 1 and self._column_reader.make_plan(fields, records[0]):
            del fields  # the parser cannot be used again while its document is alive
            if self._column_reader.add_line(line, chunk):
                return
        chunk.add(records)

    @staticmethod
    def _note_hole(line: bytes, offset: int, chunk: Chunk) -> bytes:
        """Note the zero bytes of a line, and return the line without those around it."""
        chunk.hole = chunk.hole.joined(Hole(line.count(0), offset))
        return line.strip(b"\0")

    def _too_long(self, length: int) -> str:
        return f"the line has {length:,} bytes; the limit is {self.tail.line_bytes:,}"
