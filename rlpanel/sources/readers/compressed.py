"""Compressed rollout files: the tail of their plain lines, and one sample again.

Offsets are those of the plain text. A file that still grows waits where its compressed bytes end; one
written in frames is followed frame by frame.
"""

from __future__ import annotations

import io
from dataclasses import replace

from rlpanel.errors import SourceDamaged
from rlpanel.sources.files.decompress import PIECE_BYTES, DecompressedStream, Decompressor
from rlpanel.sources.files.files import Readable
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.readers.tail import BEFORE, HEAD, Block, Mark, Tail

#: A line that is this many times longer than may be held is a bomb; reading ends there.
_BOMB = 4
#: So are this many plain bytes on end that take less than one in so many on disk: they are whole lines, but
#: each becomes a row in memory. Real logs shrink to a tenth, with arrays of zeros to a fiftieth.
_ON_END, _TIMES = 32 << 20, 256


class CompressedTail(Tail):
    """As `tail.Tail`; ``offset`` counts plain bytes, ``done`` and ``size`` those on disk."""

    def __init__(self, path: str, line_bytes: int = 64 << 20) -> None:
        super().__init__(path, line_bytes)
        self._clear()

    @property
    def done(self) -> int:
        """Compressed bytes taken in."""
        return self.inflater.fed

    @property
    def _mark(self) -> int:
        return self.inflater.fed

    def read(self, budget: int) -> Block:
        """The next whole lines, from about ``budget`` plain bytes.

        Raises
        ------
        OSError
            If the file cannot be opened or read.
        SourceDamaged
            If it makes no sense from here on, or holds a line of enormous length.
        """
        with self._file as file:
            self._check(file)
            if self._fault is not None:
                raise self._fault
            fresh, more = self._plain(file, budget)
        if fresh is None:
            return self._block(more=True)
        return self._lines(fresh, more)

    def reset(self) -> None:
        """Start a new generation: what was handed out is void."""
        super().reset()
        self._clear()

    def mark(self, lines: int) -> Mark | None:
        """Where it stands, if that is between two frames and two lines; elsewhere more would be needed."""
        inflater, mark = self.inflater, super().mark(lines)
        halfway = self._half_bytes or self._ready or self._fault is not None or not inflater.between
        if mark is None or halfway:
            return None
        return replace(mark, fed=inflater.fed, starts=tuple(inflater.starts))

    def resume(self, mark: Mark) -> bool:
        """As of any tail."""
        self.inflater = Decompressor(self.path, mark.fed, mark.offset)
        self.inflater.starts = list(mark.starts)
        self._weighed = mark.offset, mark.fed
        return super().resume(mark)

    def _clear(self) -> None:
        self.inflater = Decompressor(self.path)
        self._fault: SourceDamaged | None = None
        self._ready = b""  # plain bytes that were not looked at yet
        self._held: list[bytes] = []  # the half line, in pieces; nothing where it is too long to be held
        self._half_bytes = 0
        self._weighed = 0, 0  # plain bytes and bytes on disk that were seen to be those of a log

    def _plain(self, file: Readable, budget: int) -> tuple[bytes | None, bool]:
        """Plain bytes and whether there are more; None for bytes if what came before is void."""
        parts, got = [self._ready], len(self._ready)
        self._ready = b""
        try:
            while got < budget:
                plain = self.inflater.take(budget - got)
                if not plain and self.inflater.fed == self.size:
                    return b"".join(parts), False
                if not plain and not self._feed(file):
                    return None, True
                parts.append(plain)
                got += len(plain)
        except SourceDamaged as fault:
            self._fault = fault
            if not got:
                raise
        return b"".join(parts), True

    def _feed(self, file: Readable) -> bool:
        """Take in more of the file; False if it is another one now."""
        fed = self.inflater.fed
        piece = file.read(min(PIECE_BYTES, self.size - fed), fed)
        if self._check(file) or not piece:
            return False
        if len(self._head) < HEAD:
            self._head += piece[: HEAD - len(self._head)]
        self._before = (self._before + piece[-BEFORE:])[-BEFORE:]
        self.inflater.feed(piece)
        return True

    def _lines(self, fresh: bytes, more: bool) -> Block:
        """The whole lines among what is held and what is fresh."""
        too_long = self._half_bytes > self.line_bytes
        end = fresh.find(b"\n") if too_long else fresh.rfind(b"\n")
        if end < 0:
            self._hold(fresh)
            if self._half_bytes > _BOMB * self.line_bytes:
                self._fault = SourceDamaged("a line that is too long by far when decompressed")
                return Block(self.generation, self.offset, skipped=self._half_bytes, more=True)
            return self._block(more=more or self._fault is not None)
        half, offset = self._half_bytes, self.offset
        data = b"".join([*self._held, fresh[: end + 1]])
        self._held, self._half_bytes = [], 0
        self.offset += half + end + 1
        if too_long:
            self._ready = fresh[end + 1 :]
            self._weighed = self.offset, self.inflater.fed
            return Block(self.generation, offset, length=half + end + 1, skipped=half + end, more=True)
        self._hold(fresh[end + 1 :])
        self._weigh()
        return Block(self.generation, offset, data, len(data), more=more)

    def _weigh(self) -> None:
        """Read no further where the last whole lines took next to nothing on disk."""
        plain, packed = self.offset - self._weighed[0], self.inflater.fed - self._weighed[1]
        if plain < _ON_END:
            return
        self._weighed = self.offset, self.inflater.fed
        if packed * _TIMES < plain:
            times = plain // max(packed, 1)
            self._fault = SourceDamaged(f"it grows {times:,}-fold when decompressed, as no log does")

    def _hold(self, fresh: bytes) -> None:
        """Keep a half line, unless it grew too long."""
        self._half_bytes += len(fresh)
        if self._half_bytes <= self.line_bytes:
            self._held.append(fresh)
        else:
            self._held = []


class CompressedFile(JsonlFile):
    """Reads one ``.jsonl.gz`` or ``.jsonl.zst`` file; see `record_types.RolloutFile`."""

    tail: CompressedTail
    lines_on_disk = False

    def _tail(self, line_bytes: int, end: int | None) -> Tail:
        return CompressedTail(self.path, line_bytes)

    def _too_long(self, length: int) -> str:
        if length <= _BOMB * self.tail.line_bytes:
            return super()._too_long(length)
        return (
            f"the line has more than {length:,} bytes when decompressed, as no log's has; "
            f"at most {self.tail.line_bytes:,} are read, and the file no further"
        )

    def _bytes(self, offset: int, length: int) -> bytes:
        with DecompressedStream(self.path, *self.tail.inflater.nearest(offset)) as plain:
            plain.skip_to(offset)
            return io.BufferedReader(plain).read(length)
