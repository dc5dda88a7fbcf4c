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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

from rlpanel.sources.files import files
from rlpanel.sources.files.files import Readable

#: Bytes of the head, and just before the offset, that tell a file from its successor.
HEAD = 1024
BEFORE = 128


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines: the first ``length`` bytes of ``data``, which stand at ``offset``.

    ``skipped`` is the length of one line, longer than may be held, that stands there instead; its
    newline counts in ``length`` alone. ``more`` says that bytes are left which were on disk at the
    last look.
    """

    generation: int
    offset: int
    data: bytes = b""
    length: int = 0
    skipped: int = 0
    more: bool = False

    def lines(self) -> Iterator[bytes]:
        """The lines without their newlines, cut off one at a time: so each is still in the cache."""
        start = 0 if not self.skipped else self.length
        while start < self.length:
            # The newline alone ends a line: str.splitlines also breaks at U+2028, which responses hold.
            end = self.data.index(b"\n", start)
            yield self.data[start:end]
            start = end + 1


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the reading of a file stands, and by what the file is known again.

    ``offset`` bytes and ``lines`` lines were handed out; ``stamp`` is of the file's stat, ``head`` and
    ``before`` are its bytes there. Of a compressed file, ``offset`` counts plain bytes, ``fed`` those on
    disk, and ``starts`` are places to begin at (see `rlpanel.sources.files.decompress.Decompressor`).
    """

    offset: int
    lines: int
    stamp: tuple[int, ...]
    head: bytes
    before: bytes
    fed: int = 0
    starts: tuple[tuple[int, int], ...] = ()

    def plain(self) -> tuple[int, int, tuple[int, ...], str, str, int, tuple[tuple[int, int], ...]]:
        """As JSON takes it."""
        return self.offset, self.lines, self.stamp, self.head.hex(), self.before.hex(), self.fed, self.starts

    @classmethod
    def of(cls, plain: Sequence[Any]) -> Mark:
        """What `plain` gave; ValueError or TypeError if it is something else."""
        offset, lines, stamp, head, before, fed, starts = plain
        return cls(
            int(offset),
            int(lines),
            tuple(map(int, stamp)),
            bytes.fromhex(head),
            bytes.fromhex(before),
            int(fed),
            tuple((int(plain), int(packed)) for plain, packed in starts),
        )


class Tail:
    """Reads a file's new lines.

    Parameters
    ----------
    path : str
    line_bytes : int
        The longest line that is held in memory; a longer one is skipped and reported.
    end : int, optional
        Bytes from here on are not looked at; must stand just after a newline.

    Attributes
    ----------
    generation : int
        Counts how often the file was replaced.
    offset, size : int
        Where the next line starts; the file's size at the last look.
    modified : float
        When the file was last written, as of the last look; seconds since the epoch.
    """

    def __init__(self, path: str, line_bytes: int = 64 << 20, end: int | None = None) -> None:
        self.path = path
        self._file = files.file(path)
        self.line_bytes = line_bytes
        self._end = end
        self.generation = 0
        self.offset = 0
        self.size = 0
        self.modified = 0.0
        self._scanned = 0  # bytes behind offset that were seen to hold no newline
        self._stamp: tuple[int, ...] = ()
        self._head = b""
        self._before = b""
        self._half = b""  # the last scanned bytes of the half line

    def read(self, budget: int) -> Block:
        """The next whole lines.

        Raises
        ------
        OSError
            If the file cannot be opened or read.
        """
        with self._file as file:
            self._check(file)
            position = self.offset + self._scanned
            # Never past the size at the check: bytes beyond it are for the next look.
            fresh = file.read(min(budget, self.size - position), position)
            end = fresh.rfind(b"\n")
            held = b""
            if end >= 0 and 0 < self._scanned <= self.line_bytes:
                held = file.read(self._scanned, self.offset)
            # What was just read may be a successor's bytes, written since the check.
            if self._check(file):
                return self._block(more=True)
            if end < 0:
                return self._wait(fresh)
            if self._scanned > self.line_bytes:
                return self._skip(file, fresh)
            return self._cut(held + fresh, len(held) + end + 1)

    @property
    def done(self) -> int:
        """How much of `size` was handed out."""
        return self.offset

    @property
    def _mark(self) -> int:
        """Up to where on disk the file is known."""
        return self.offset

    def begin(self, offset: int) -> bool:
        """Go on at ``offset``, just after a newline; others read what is before it.

        False if this is not the file that was read before, or there is no newline: it was replaced.

        Raises
        ------
        OSError
            If the file cannot be read.
        """
        with self._file as file:
            if self._check(file):
                return False
            self._advance(offset - self.offset)
            self._sign(file)
            if offset and (offset > self.size or self._before[-1:] != b"\n"):
                self.reset()
                return False
            return True

    def changed(self) -> bool:
        """Whether the file's stat differs from the last look, or what it told of was not read to its end."""
        try:
            status = files.stat(self.path)
        except OSError:
            return self._stamp != ()
        return stamp_of(status) != self._stamp or self._unread()

    def reset(self) -> None:
        """Start a new generation: what was handed out is void."""
        self.generation += 1
        self.offset = self.size = self._scanned = 0
        self._head = self._before = self._half = b""
        self._stamp = ()

    def mark(self, lines: int) -> Mark | None:
        """Where it stands after ``lines`` lines; None where more than a mark is needed to go on."""
        if not self._stamp:
            return None
        return Mark(self.offset, lines, self._stamp, self._head, self._before)

    def resume(self, mark: Mark) -> bool:
        """Go on at a mark; False if the file that it was made of is no longer there, as it was or longer."""
        try:
            with self._file as file:
                # The number of a device may be another one after the machine was started again.
                self._stamp = (file.stat().st_dev, *mark.stamp[1:])
                self.offset, self._head, self._before = mark.offset, mark.head, mark.before
                self.size, self.modified = mark.stamp[2], mark.stamp[3] / 1e9
                known = not self._check(file)
        except OSError:
            known = False
        if not known:
            self.reset()
            self.generation = 0
        return known

    def _check(self, file: Readable) -> bool:
        """Begin again when this is no longer the file we know; True if bytes read before are void."""
        status = file.stat()
        stamp = stamp_of(status)
        if stamp == self._stamp:
            return False
        moved = bool(self._stamp) and self._stamp[:2] != stamp[:2]
        void = moved or status.st_size < self._mark or not self._same(file)
        if void:
            self.reset()
        elif self._scanned and not self._same_half(file, status.st_size):
            self._scanned, self._half, void = 0, b"", True
        self._stamp, self.size, self.modified = stamp, self._bound(status.st_size), status.st_mtime
        return void

    def _bound(self, size: int) -> int:
        return size if self._end is None else min(size, self._end)

    def _sign(self, file: Readable) -> None:
        """Note by what bytes before ``offset`` this file is known again."""
        self._head = file.read(min(HEAD, self.offset), 0)
        self._before = file.read(min(BEFORE, self.offset), max(0, self.offset - BEFORE))

    def _same(self, file: Readable) -> bool:
        """Whether the bytes at the head and before `_mark` are what they were."""
        if file.read(len(self._head), 0) != self._head:
            return False
        return file.read(len(self._before), self._mark - len(self._before)) == self._before

    def _same_half(self, file: Readable, size: int) -> bool:
        """Whether the half line still ends as it did where scanning stopped."""
        end = self.offset + self._scanned
        return size >= end and file.read(len(self._half), end - len(self._half)) == self._half

    def _wait(self, fresh: bytes) -> Block:
        """No newline yet: remember how far was looked."""
        self._scanned += len(fresh)
        self._half = (self._half + fresh[-BEFORE:])[-BEFORE:]
        return self._block(more=self._unread())

    def _cut(self, data: bytes, length: int) -> Block:
        """The whole lines in ``data``, which starts at ``offset``: ``length`` bytes."""
        offset = self.offset
        if len(self._head) < HEAD:
            self._head += data[: min(length, HEAD - len(self._head))]
        self._before = (self._before + data[max(0, length - BEFORE) : length])[-BEFORE:]
        self._advance(length)
        return Block(self.generation, offset, data, length, more=self._unread())

    def _skip(self, file: Readable, fresh: bytes) -> Block:
        """Step over one line that is too long to be held; ``fresh`` has its end."""
        offset = self.offset
        skipped = self._scanned + fresh.index(b"\n")
        self._advance(skipped + 1)
        self._sign(file)
        return Block(self.generation, offset, length=skipped + 1, skipped=skipped, more=self._unread())

    def _advance(self, length: int) -> None:
        self.offset += length
        self._scanned, self._half = 0, b""

    def _block(self, *, more: bool) -> Block:
        """Nothing to hand out."""
        return Block(self.generation, self.offset, more=more)

    def _unread(self) -> bool:
        return self.size > self.offset + self._scanned


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """What changes whenever a file does."""
    # ctime too: some tools that rewrite a file put its old mtime back
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def line_hash(line: bytes) -> int:
    """xxh3 of a line without its newline, 64 bits."""
    return xxhash.xxh3_64_intdigest(line)
