"""Follows one growing file by complete lines, even if the file is truncated, rewritten or replaced.

Writers may append, truncate, rewrite or replace the file at any moment. The rules:

- A line counts once its newline is written; the incomplete line at the end waits. The caller may take it as
  it is (`Tail.take_end`) if the file does not grow any more. If its newline is written later, nothing else
  changes; if the line goes on, a new generation starts.
- ``offset`` is just after a newline or a line that was taken. Each byte before it was returned exactly once
  in this generation.
- Another inode, a smaller size, or other bytes at the head or just before ``offset`` start a new generation:
  all rows returned before are invalid, and reading starts again at 0.
- One call reads about ``budget`` bytes. A longer line is scanned over several calls, so each call makes
  progress, and the line is loaded into memory only when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import repeat
from typing import Any

import xxhash

from rlpanel.sources.files import file_access
from rlpanel.sources.files.file_access import Readable
from rlpanel.sources.files.storage_requests import Span

#: Bytes at the head and just before the offset that are compared to recognise a replaced file.
HEAD = 1024
BEFORE = 128


@dataclass(frozen=True, slots=True)
class Block:
    """Complete lines: the first ``length`` bytes of ``data``, found at ``offset`` in the file.

    ``skipped`` is the length of one line that is too long to be held and is passed over instead; its newline
    counts in ``length`` only. ``more`` means that the file had further unread bytes when it was last checked.
    """

    generation: int
    offset: int
    data: bytes = b""
    length: int = 0
    skipped: int = 0
    more: bool = False

    @property
    def first_line(self) -> int:
        """Position of the first line in `data`."""
        return self.length if self.skipped else 0

    def lines(self) -> Iterator[bytes]:
        """Yield the lines without newlines, one slice at a time, so that each is still in the CPU cache."""
        start = self.first_line
        while start < self.length:
            yield (line := self.line_at(start))
            start += len(line) + 1

    def line_at(self, start: int) -> bytes:
        """Return the line that begins at ``start`` of `data`."""
        # Only the newline ends a line: str.splitlines also splits at U+2028, which responses contain.
        return self.data[start : self.data.index(b"\n", start)]

    def lines_at(self, start: int, size: int) -> list[bytes]:
        """Return the lines from ``start`` of `data` on, until they have ``size`` bytes or more."""
        # `bytes.split` compares byte by byte; `BytesIO` searches newlines many times as fast.
        stream = BytesIO(self.data)
        stream.seek(start)
        return list(map(bytes.rstrip, stream.readlines(min(size, self.length - start)), repeat(b"\n")))


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """Saved reading position of a file, with bytes to recognise the file.

    ``offset`` bytes and ``lines`` lines were returned. ``stamp`` comes from the file's stat; ``head`` and
    ``before`` are its bytes at the head and before the position. For a compressed file ``offset`` counts
    plain bytes, ``compressed_offset`` counts bytes on disk, and ``starts`` are positions where decompression
    can begin (see `rlpanel.sources.files.decompress.Decompressor`). ``open_end`` as in `Tail`.
    """

    offset: int
    lines: int
    stamp: tuple[int, ...]
    head: bytes
    before: bytes
    compressed_offset: int = 0
    starts: tuple[tuple[int, int], ...] = ()
    open_end: bool = False

    def plain(self) -> tuple[int, int, tuple[int, ...], str, str, int, tuple[tuple[int, int], ...], bool]:
        """Return the fields as JSON values."""
        return (
            self.offset,
            self.lines,
            self.stamp,
            self.head.hex(),
            self.before.hex(),
            self.compressed_offset,
            self.starts,
            self.open_end,
        )

    @classmethod
    def from_json(cls, plain: Sequence[Any]) -> ReadPosition:
        """Create a mark from the result of `plain`; ValueError or TypeError if it is invalid."""
        offset, lines, stamp, head, before, compressed_offset, starts, open_end = plain
        return cls(
            int(offset),
            int(lines),
            tuple(map(int, stamp)),
            bytes.fromhex(head),
            bytes.fromhex(before),
            int(compressed_offset),
            tuple((int(plain), int(packed)) for plain, packed in starts),
            bool(open_end),
        )


class Tail:
    """Reads the new lines of a file.

    Parameters
    ----------
    path : str
    line_bytes : int
        Longest line that is held in memory; longer ones are skipped and reported.
    end : int, optional
        Offset at which reading stops; must be just after a newline.

    Attributes
    ----------
    generation : int
        Counts how often the file was replaced.
    offset, size : int
        Offset of the next line; size of the file when it was last checked.
    modified : float
        Modification time when the file was last checked, in seconds since the epoch.
    open_end : bool
        True if the line before ``offset`` was taken although its newline was not written yet.
    """

    def __init__(self, path: str, line_bytes: int = 64 << 20, end: int | None = None) -> None:
        self.path = path
        self._file = file_access.follow_file(path)
        self.line_bytes = line_bytes
        self._end = end
        self.generation = 0
        self.offset = 0
        self.size = 0
        self.modified = 0.0
        self.open_end = False
        self._scanned = 0  # bytes after offset that are known to contain no newline
        self._stamp: tuple[int, ...] = ()
        self._head = b""
        self._before = b""
        self._partial_end = b""  # the last scanned bytes of the incomplete line

    def read(self, budget: int) -> Block:
        """Read the next complete lines.

        Raises
        ------
        OSError
            If the file cannot be opened or read.
        """
        with self._file as file:
            self._check(file)
            if self._goes_on(file):
                return self._empty_block(more=True)
            position = self.offset + self._scanned
            # Never read past the checked size: later bytes belong to the next call.
            fresh = file.read(min(budget, self.size - position), position)
            end = self._last_end(fresh)
            held = b""
            if end >= 0 and 0 < self._scanned <= self.line_bytes:
                held = file.read(self._scanned, self.offset)
            # Check again: the bytes just read may belong to a file that replaced this one after the check.
            if self._check(file):
                return self._empty_block(more=True)
            if end < 0:
                return self._note_partial(fresh)
            if self._scanned > self.line_bytes:
                return self._skip_line(file, fresh)
            return self._take_lines(held + fresh, len(held) + end + 1)

    def _last_end(self, fresh: bytes) -> int:
        """Return the position of the last newline that ends a line, or -1; the incomplete line goes on."""
        return fresh.rfind(b"\n")

    @property
    def bytes_done(self) -> int:
        """Number of bytes of `size` that were read."""
        return self.offset

    @property
    def partial(self) -> int:
        """Number of bytes of the incomplete line at the end, once all complete lines were read."""
        return self._scanned

    @property
    def cut_off(self) -> bool:
        """True if the last bytes of the file cannot be decoded without further ones."""
        return False

    def peek_end(self) -> bytes | None:
        """Return the incomplete line at the end; None if the file has changed since it was read.

        Raises
        ------
        OSError
            If the file cannot be opened or read.
        """
        with self._file as file:
            if stamp_of(file.stat()) != self._stamp:
                return None
            line = file.read(self._scanned, self.offset)
            return line if stamp_of(file.stat()) == self._stamp else None

    def take_end(self, line: bytes) -> None:
        """Continue after the incomplete line, which `peek_end` has returned."""
        self._take_lines(line, len(line))
        self.open_end = True

    @property
    def _verified_end(self) -> int:
        """Offset on disk up to which the file's bytes are known."""
        return self.offset

    def start_at(self, offset: int) -> bool:
        """Continue at ``offset``, just after a newline, when other workers read the bytes before it.

        Returns False if the file was replaced: it is not the one read before, or has no newline there.

        Raises
        ------
        OSError
            If the file cannot be read.
        """
        with self._file as file:
            if self._check(file):
                return False
            self.open_end = False
            self._advance(offset - self.offset)
            self._record_signature(file)
            if offset and (offset > self.size or self._before[-1:] != b"\n"):
                self.reset()
                return False
            return True

    def next_spans(self, budget: int) -> list[Span]:
        """Return the ranges that the next call of `read` will read if the file goes on as it was."""
        try:
            status = file_access.stat(self.path)
        except OSError:
            return []
        start, size = self._verified_end, self._bound(status.st_size)
        spans = []
        if start and stamp_of(status) != self._stamp:
            before = max(0, min(start, size) - BEFORE)
            spans = [Span(self.path, 0, min(HEAD, size)), Span(self.path, before, min(start, size))]
        start += self._scanned
        return [*spans, Span(self.path, start, min(size, start + budget))]

    def changed(self) -> bool:
        """Return True if the file's stat differs from the last check, or known bytes are still unread."""
        try:
            status = file_access.stat(self.path)
        except OSError:
            return self._stamp != ()
        return stamp_of(status) != self._stamp or self._has_unread()

    def reset(self) -> None:
        """Start a new generation: rows returned before are invalid."""
        self.generation += 1
        self.offset = self.size = self._scanned = 0
        self.open_end = False
        self._head = self._before = self._partial_end = b""
        self._stamp = ()

    def mark(self, lines: int) -> ReadPosition | None:
        """Return the position after ``lines`` lines; None if a mark is not enough to continue from there."""
        if not self._stamp:
            return None
        return ReadPosition(self.offset, lines, self._stamp, self._head, self._before, open_end=self.open_end)

    def resume(self, mark: ReadPosition) -> bool:
        """Continue at a mark; False if the marked file was replaced or truncated."""
        try:
            with self._file as file:
                # The device number may differ after a reboot, so it is not compared.
                self._stamp = (file.stat().st_dev, *mark.stamp[1:])
                self.offset, self._head, self._before = mark.offset, mark.head, mark.before
                self.size, self.modified = mark.stamp[2], mark.stamp[3] / 1e9
                self.open_end = mark.open_end
                same_file = not self._check(file) and not self._goes_on(file)
        except OSError:
            same_file = False
        if not same_file:
            self.reset()
            self.generation = 0
        return same_file

    def _check(self, file: Readable) -> bool:
        """Start again if the file was replaced; return True if bytes read before the check are invalid."""
        status = file.stat()
        stamp = stamp_of(status)
        if stamp == self._stamp:
            return False
        replaced = bool(self._stamp) and self._stamp[:2] != stamp[:2]
        invalid = replaced or status.st_size < self._verified_end or not self._signature_matches(file)
        if invalid:
            self.reset()
        elif self._scanned and not self._partial_matches(file, status.st_size):
            self._scanned, self._partial_end, invalid = 0, b"", True
        self._stamp, self.size, self.modified = stamp, self._bound(status.st_size), status.st_mtime
        return invalid

    def _goes_on(self, file: Readable) -> bool:
        """Start again if a line that was taken continues; pass over its newline once that is written.

        Returns True if the bytes read before are invalid.
        """
        after = file.read(1, self.offset) if self.open_end else b""
        if not after:
            return False
        if after != b"\n":
            self.reset()
            return True
        self._take_lines(after, 1)
        self.open_end = False
        return False

    def _bound(self, size: int) -> int:
        return size if self._end is None else min(size, self._end)

    def _record_signature(self, file: Readable) -> None:
        """Remember the bytes at the head and before ``offset`` by which this file is recognised."""
        self._head = file.read(min(HEAD, self.offset), 0)
        self._before = file.read(min(BEFORE, self.offset), max(0, self.offset - BEFORE))

    def _signature_matches(self, file: Readable) -> bool:
        """Return True if the bytes at the head and before `_verified_end` are unchanged."""
        if file.read(len(self._head), 0) != self._head:
            return False
        return file.read(len(self._before), self._verified_end - len(self._before)) == self._before

    def _partial_matches(self, file: Readable, size: int) -> bool:
        """Return True if the scanned part of the incomplete line still ends with the same bytes."""
        end = self.offset + self._scanned
        if size < end:
            return False
        return file.read(len(self._partial_end), end - len(self._partial_end)) == self._partial_end

    def _note_partial(self, fresh: bytes) -> Block:
        """Remember how far the incomplete line was scanned for a newline."""
        self._scanned += len(fresh)
        self._partial_end = (self._partial_end + fresh[-BEFORE:])[-BEFORE:]
        return self._empty_block(more=self._has_unread())

    def _take_lines(self, data: bytes, length: int) -> Block:
        """Return the first ``length`` bytes of ``data``, complete lines; ``data`` starts at ``offset``."""
        offset = self.offset
        if len(self._head) < HEAD:
            self._head += data[: min(length, HEAD - len(self._head))]
        self._before = (self._before + data[max(0, length - BEFORE) : length])[-BEFORE:]
        self._advance(length)
        return Block(self.generation, offset, data, length, more=self._has_unread())

    def _skip_line(self, file: Readable, fresh: bytes) -> Block:
        """Skip one line that is too long to be held; ``fresh`` contains its end."""
        offset = self.offset
        skipped = self._scanned + fresh.index(b"\n")  # any newline: where the next line begins is unsure
        self._advance(skipped + 1)
        self._record_signature(file)
        more = self._has_unread()
        return Block(self.generation, offset, length=skipped + 1, skipped=skipped, more=more)

    def _advance(self, length: int) -> None:
        self.offset += length
        self._scanned, self._partial_end = 0, b""

    def _empty_block(self, *, more: bool) -> Block:
        """Return a block without lines."""
        return Block(self.generation, self.offset, more=more)

    def _has_unread(self) -> bool:
        return self.size > self.offset + self._scanned


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """Return the fields of a stat that change whenever the file changes."""
    # ctime is included because some tools that rewrite a file restore its old mtime.
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def line_hash(line: bytes) -> int:
    """Return the 64-bit xxh3 hash of a line without its newline."""
    return xxhash.xxh3_64_intdigest(line)
