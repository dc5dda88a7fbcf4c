"""A rollout file of JSON lines: its tail, its dialect, its records."""

from __future__ import annotations

import os

from rlpanel.errors import LineError, SourceChanged
from rlpanel.sources.base import Adapter, BadLine, Chunk, Locator, Record
from rlpanel.sources.parse import parse
from rlpanel.sources.tail import Block, Tail, line_hash

_BOM = b"\xef\xbb\xbf"


class JsonlFile:
    """Reads one ``.jsonl`` file; see `rlpanel.sources.base.RolloutFile`.

    Parameters
    ----------
    path : str
        On disk.
    name : str
        Below the run, with forward slashes; what messages and uids show.
    adapter : Adapter
        The dialect of its lines.
    """

    def __init__(self, path: str, name: str, adapter: Adapter, line_bytes: int = 256 << 20) -> None:
        self.path = path
        self.name = name
        self.adapter = adapter
        self.tail = Tail(path, line_bytes)

    def poll(self, budget: int) -> Chunk:
        """New records, reading about ``budget`` bytes; OSError if the file cannot be read."""
        block = self.tail.read(budget)
        chunk = Chunk(block.generation, bytes=len(block.data) or block.skipped, more=block.more)
        if block.skipped:
            reason = f"the line has {block.skipped:,} bytes; at most {self.tail.line_bytes:,} are read"
            chunk.bad.append(BadLine(block.line, block.offset, reason))
        else:
            self._split(block, chunk)
        return chunk

    def fetch(self, locator: Locator) -> Record:
        """One sample again, in full; SourceChanged if other bytes stand there now."""
        line = self._bytes(locator)
        return self.adapter.read(parse(line), self.name, full=True)[locator.part]

    def raw(self, locator: Locator) -> bytes:
        """The line itself, checked."""
        return self._bytes(locator)

    def _bytes(self, locator: Locator) -> bytes:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise SourceChanged(f"{self.name}:{locator.line}: {error.strerror}") from error
        try:
            line = os.pread(descriptor, locator.length, locator.offset)
        except OSError as error:
            raise SourceChanged(f"{self.name}:{locator.line}: {error.strerror}") from error
        finally:
            os.close(descriptor)
        if line_hash(line) != locator.hash:
            raise SourceChanged(
                f"{self.name}:{locator.line}: the file was rewritten since this sample was indexed; "
                "its new rows appear when they are read"
            )
        return line

    def _split(self, block: Block, chunk: Chunk) -> None:
        """Each line of the block to the chunk: a record, a bad line, or a blank one."""
        offset, number = block.offset, block.line
        # bytes.split on the newline alone: str.splitlines also breaks at U+2028, which responses hold
        for line in block.data.split(b"\n")[:-1]:
            self._line(line, offset, number, chunk)
            offset += len(line) + 1
            number += 1

    def _line(self, line: bytes, offset: int, number: int, chunk: Chunk) -> None:
        text = line.removeprefix(_BOM) if offset == 0 else line
        if not text.strip():
            chunk.blank_lines += 1
            return
        start = offset + len(line) - len(text)
        try:
            records = self.adapter.read(parse(text), self.name, full=False)
        except LineError as error:
            chunk.bad.append(BadLine(number, offset, str(error)))
            return
        digest = line_hash(text)
        chunk.good_lines += 1
        chunk.records += [
            (Locator(start, len(text), number, part, digest), record) for part, record in enumerate(records)
        ]
