"""Append-only line files, plain or zstd-compressed, that never hold a line broken by a failed write.

Bounded queue of rows to write; if the disk is too slow, rows are dropped, and training never waits.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rlpanel.safe_files import SafeFolder

#: Bytes of lines in one compressed frame.
FRAME_BYTES = 1 << 20


class Sink(Protocol):
    """Interface of a destination for lines."""

    def write(self, lines: bytes) -> None:
        """Append whole lines; raise OSError if the disk refuses them."""

    def flush(self) -> None:
        """Write buffered lines to the file."""

    def close(self) -> None:
        """Flush and close the file."""


class PlainSink:
    """Appends lines to a file, with a single write per call, so that other writers' lines stay whole.

    The file is created with the first line: a rank that records nothing leaves no file. The folder's path
    must be resolved. A link in it, or in place of the file, raises `UnsafePath` at the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._rest = b""  # the remaining bytes of a write that the disk took only in part

    def write(self, lines: bytes) -> None:
        """Append whole lines; raise OSError if the disk refuses them. The next call ends a partial write."""
        if self._descriptor < 0:
            self._open()
        self._finish()
        written = os.write(self._descriptor, lines)
        self._rest = lines[written:]
        self._finish()

    def flush(self) -> None:
        """Do nothing: no lines are buffered."""

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _finish(self) -> None:
        """Write the remaining bytes of a partial write before any other line."""
        while self._rest:
            written = os.write(self._descriptor, self._rest)
            self._rest = self._rest[written:]

    def _open(self) -> None:
        with SafeFolder.open(self.path.parent) as folder:
            self._descriptor = folder.open_to_write(self.path.name, append=True)
        size = os.fstat(self._descriptor).st_size
        if size:
            os.lseek(self._descriptor, size - 1, os.SEEK_SET)
            # A killed process may have left half a line: end it, so that the next line is not joined to it.
            # Compressed files need no such check, because they are never opened twice.
            if os.read(self._descriptor, 1) != b"\n":
                self._rest = b"\n"


class ZstandardSink:
    """Compresses lines into zstd frames of about a megabyte; each holds whole lines and can be read alone."""

    def __init__(self, path: Path) -> None:
        from rlpanel.zstd import zstd  # not installed where only the recorder is, and needed only here

        self._compressor: Any = zstd.ZstdCompressor(level=3)
        self._end = zstd.ZstdCompressor.FLUSH_FRAME
        self._file = PlainSink(path)
        self._buffer: list[bytes] = []
        self._buffer_bytes = 0

    def write(self, lines: bytes) -> None:
        """Buffer lines; write a frame when they fill one."""
        self._buffer.append(lines)
        self._buffer_bytes += len(lines)
        if self._buffer_bytes >= FRAME_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines as one frame."""
        if self._buffer:
            lines, self._buffer, self._buffer_bytes = b"".join(self._buffer), [], 0
            self._file.write(self._compressor.compress(lines, mode=self._end))

    def close(self) -> None:
        """Write the last frame."""
        self.flush()
        self._file.close()


T = TypeVar("T")


class WriteQueue(Generic[T]):
    """Bounded queue between training and the writer's thread.

    Parameters
    ----------
    rows, numbers : int
        Maximum length of the queue, in rows and in their total weight (see `put`).
    """

    def __init__(self, rows: int, numbers: int) -> None:
        self._rows, self._numbers = rows, numbers
        self._entries: deque[tuple[T, int]] = deque()
        self._weight = 0
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()

    def put(self, item: T, weight: int) -> bool:
        """Add an item, or return False at once if the queue is full; an empty queue accepts any item."""
        with self._changed:
            full = len(self._entries) >= self._rows or self._weight + weight > self._numbers
            if self._closed or (full and self._entries):
                return False
            self._entries.append((item, weight))
            self._weight += weight
            self._changed.notify_all()
            return True

    def take(self, most: int, timeout: float | None = None) -> list[T] | None:
        """Wait for an item and return up to ``most``; [] after the timeout, None once closed and empty."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._entries or self._closed, timeout)
            if not self._entries:
                return None if self._closed else []
            entries = [self._entries.popleft() for _ in range(min(most, len(self._entries)))]
            self._weight -= sum(weight for _, weight in entries)
            self._busy = True
            return [item for item, _ in entries]

    def wait_idle(self, timeout: float) -> bool:
        """Wait until all items are taken and processed; return False after ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._entries and not self._busy, timeout)

    def close(self) -> None:
        """Accept no more items; `take` still returns the queued ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
