"""Follow one growing file by whole lines, whatever happens to it.

Writers append, truncate, rewrite or replace the file at any moment and never ask. The rules:

- a line counts when its newline is there; the half line at the end waits;
- ``offset`` stands just after a newline, and each byte before it was handed out exactly once in this
  generation;
- another inode, a smaller size, or other bytes at the head or just before ``offset`` start a new
  generation: everything handed out before is void and reading begins at 0;
- one call reads about ``budget`` bytes; a line longer than that is scanned over several calls, so it
  advances too, and is only held once it is whole.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import xxhash

#: Bytes of the head, and just before the offset, that tell a file from its successor.
HEAD = 1024
BEFORE = 128


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines: ``data`` starts at ``offset`` and ends with a newline (or is empty).

    ``line`` is the number of the first line, from 1. ``skipped`` is the length of one line, longer
    than may be held, that stands at ``offset`` in place of ``data``.
    """

    generation: int
    offset: int
    line: int
    data: bytes = b""
    skipped: int = 0
    more: bool = False


class Tail:
    """Reads a file's new lines.

    Parameters
    ----------
    path : str
    line_bytes : int
        The longest line that is held in memory; a longer one is skipped and reported.
    """

    def __init__(self, path: str, line_bytes: int = 256 << 20) -> None:
        self.path = path
        self.line_bytes = line_bytes
        self.generation = 0
        self.offset = 0
        self.size = 0
        self._scanned = 0
        self._lines = 0
        self._identity: tuple[int, int] | None = None
        self._stamp: tuple[int, ...] = ()
        self._head = b""
        self._before = b""

    @property
    def waiting(self) -> int:
        """Bytes behind the last newline handed out."""
        return max(0, self.size - self.offset)

    def read(self, budget: int) -> Block:
        """The next whole lines.

        Raises
        ------
        OSError
            If the file cannot be opened or read.
        """
        descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            self._check(descriptor)
            return self._next(descriptor, budget)
        finally:
            os.close(descriptor)

    def changed(self) -> bool:
        """Whether a look is worth it: something of the file's stat differs, or lines are waiting."""
        try:
            status = os.stat(self.path)
        except OSError:
            return self._stamp != ()
        return _stamp(status) != self._stamp

    def reset(self) -> None:
        """Start a new generation: what was handed out is void."""
        self.generation += 1
        self.offset = self._scanned = self._lines = 0
        self._head = self._before = b""
        self._stamp = ()

    def _check(self, descriptor: int) -> None:
        """Begin again when this is no longer the file we know."""
        status = os.fstat(descriptor)
        stamp = _stamp(status)
        if stamp != self._stamp:
            identity = (status.st_dev, status.st_ino)
            if self._identity not in (None, identity) or status.st_size < self.offset + self._scanned:
                self.reset()
            elif self.offset and not self._same(descriptor):
                self.reset()
            self._identity = identity
            self._stamp = stamp
            self.size = status.st_size

    def _same(self, descriptor: int) -> bool:
        """Whether head and the bytes before ``offset`` are what they were."""
        if os.pread(descriptor, len(self._head), 0) != self._head:
            return False
        return os.pread(descriptor, len(self._before), self.offset - len(self._before)) == self._before

    def _next(self, descriptor: int, budget: int) -> Block:
        # Never past the size at which the file was checked: bytes beyond may be a successor's.
        fresh = os.pread(
            descriptor, min(budget, self.size - self.offset - self._scanned), self.offset + self._scanned
        )
        end = fresh.rfind(b"\n")
        if end < 0:
            self._scanned += len(fresh)
            return Block(self.generation, self.offset, self._lines + 1, more=self._unread())
        if self._scanned > self.line_bytes:
            return self._skip(descriptor, self._scanned + fresh.index(b"\n") + 1)
        held = os.pread(descriptor, self._scanned, self.offset) if self._scanned else b""
        data = held + fresh[: end + 1]
        offset, line = self.offset, self._lines + 1
        self._advance(descriptor, len(data), data.count(b"\n"))
        return Block(self.generation, offset, line, data, more=self._unread())

    def _skip(self, descriptor: int, length: int) -> Block:
        offset, line = self.offset, self._lines + 1
        self._advance(descriptor, length, 1)
        return Block(self.generation, offset, line, skipped=length, more=self._unread())

    def _advance(self, descriptor: int, length: int, lines: int) -> None:
        self.offset += length
        self._lines += lines
        self._scanned = 0
        if len(self._head) < HEAD:
            self._head = os.pread(descriptor, min(HEAD, self.offset), 0)
        self._before = os.pread(descriptor, min(BEFORE, self.offset), max(0, self.offset - BEFORE))

    def _unread(self) -> bool:
        return self.size > self.offset + self._scanned


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def line_hash(line: bytes) -> int:
    """xxh3 of a line without its newline, 64 bits."""
    return xxhash.xxh3_64_intdigest(line)
