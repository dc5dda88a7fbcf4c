"""Reads the new lines of one file beside prime-rl's stream, plain or compressed, and notes the bad ones."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from rlpanel.sources.files.decompress import DecompressedStream
from rlpanel.sources.files.file_access import read, reason_of, stat, stream
from rlpanel.sources.records.record_types import BadLine, BesideFile

PACKED = ".zst"
#: Longest line that is read, and bytes that are kept of a file for the lines that follow.
_LINE_BYTES, _WINDOW = 64 << 20, 4 << 20
#: Bad lines that are kept with their reasons, and the longest reason, which may quote the line.
_MAX_BAD, _REASON_CHARS = 100, 300
#: Seconds after which a last line without a newline is reported.
_REST = 3.0


@dataclass
class AnnotationFile:
    """A file that grows, and how much of it was read, in plain bytes.

    Attributes
    ----------
    path : str
    offset, lines : int
        Plain bytes and lines that were read.
    bad, bad_count
        The first lines that could not be read, and the number of all.
    problem : str
        Reason why the file, or its end, is not read at the moment; empty if all was.
    """

    path: str
    offset: int = 0
    lines: int = 0
    bad: list[BadLine] = field(default_factory=list)
    bad_count: int = 0
    problem: str = ""
    _stamp: tuple[int, int] = (-1, -1)
    _starts: list[tuple[int, int]] | None = None
    _window: tuple[int, bytes] = (0, b"")
    _open_end: int = 0

    @property
    def packed(self) -> bool:
        """True if the file is compressed."""
        return self.path.endswith(PACKED)

    @property
    def state(self) -> BesideFile:
        """Bad lines and problem, as they are reported."""
        return BesideFile(self.bad_count, tuple(self.bad), self.problem)

    def shrank(self) -> bool:
        """Return True if the file has fewer bytes than were read."""
        try:
            return self.offset > 0 and not self.packed and stat(self.path).st_size < self.offset
        except OSError:
            return False

    def new_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the new complete lines with their offsets; `problem` says why there may be more."""
        try:
            status = stat(self.path)
            before, self._stamp = self._stamp, (status.st_size, status.st_mtime_ns)
            if before != self._stamp:
                self.problem = ""
                yield from self._read_lines()
        except OSError as error:
            self._stamp = (-1, -1)  # it is read later
            gone = isinstance(error, FileNotFoundError)
            self.problem = "" if gone else reason_of(error)
            return
        if self._open_end and time.time() - status.st_mtime > _REST:
            self.problem = f"its last line is incomplete ({self._open_end:,} bytes)"

    def _read_lines(self) -> Iterator[tuple[int, bytes]]:
        self._open_end = 0
        with self._opened(self.offset) as opened:
            while line := opened.readline(_LINE_BYTES):
                start, whole = self.offset, line.endswith(b"\n")
                if not whole and len(line) < _LINE_BYTES:
                    self._open_end = len(line)
                    return
                self.offset += len(line)
                if whole:
                    self.lines += 1
                    yield start, line

    def add_bad(self, offset: int, reason: str) -> None:
        """Note that the line that was yielded last cannot be read."""
        self.bad_count += 1
        if len(self.bad) < _MAX_BAD:
            self.bad.append(BadLine(self.lines, offset, reason[:_REASON_CHARS]))

    def line_at(self, offset: int, length: int) -> bytes:
        """Return a line that was read before; neighbouring lines are read together."""
        start, data = self._window
        if not start <= offset <= offset + length <= start + len(data):
            start, data = self._window = offset, self._read(max(length, _WINDOW), offset)
        return data[offset - start : offset - start + length]

    def _read(self, length: int, offset: int) -> bytes:
        if not self.packed:
            try:
                return read(self.path, length, offset)
            except FileNotFoundError:
                self.path += PACKED  # it is full by now
        with self._opened(offset) as opened:
            return opened.read(length)

    def _opened(self, offset: int) -> BinaryIO:
        if not self.packed:
            opened = stream(self.path)
            opened.seek(offset)
            return opened
        if self._starts is None:
            with DecompressedStream(self.path) as whole:
                whole.skip_to(1 << 62)
                self._starts = whole.starts
        before = max((each for each in self._starts if each[0] <= offset), default=(0, 0))
        plain = DecompressedStream(self.path, before[1], before[0])
        plain.skip_to(offset)
        return io.BufferedReader(plain)
