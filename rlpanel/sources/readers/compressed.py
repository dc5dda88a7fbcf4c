"""Follows compressed rollout files line by line and reads single samples again.

Offsets count decompressed (plain) bytes. For a growing file, reading stops at the end of the compressed bytes
and continues when more arrive; a file written in frames is followed frame by frame.
"""

from __future__ import annotations

import io
from dataclasses import replace

from rlpanel.errors import SourceDamaged
from rlpanel.sources.files.decompress import (
    PIECE_BYTES,
    UTF16,
    DecompressedStream,
    Decompressor,
    packing_of,
)
from rlpanel.sources.files.file_access import Readable
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.readers.tail import BEFORE, HEAD, Block, ReadPosition, Tail, stamp_of

#: A line more than this many times longer than ``line_bytes`` is a decompression bomb; reading stops there.
_BOMB = 4
#: Reading also stops if this many consecutive plain bytes took less than 1/256 of that on disk. They are
#: complete lines, but each becomes a row in memory. Real logs shrink to a tenth, with arrays of zeros to a
#: fiftieth.
_WINDOW_BYTES, _MAX_RATIO = 32 << 20, 256


class CompressedTail(Tail):
    """Tail of a compressed file: ``offset`` counts plain bytes, ``done`` and ``size`` bytes on disk."""

    def __init__(self, path: str, line_bytes: int = 64 << 20, packing: str = "") -> None:
        super().__init__(path, line_bytes)
        self._packing = packing or packing_of(path)
        self._clear()

    @property
    def done(self) -> int:
        """Number of compressed bytes read."""
        return self.decompressor.compressed_offset

    @property
    def partial(self) -> int:
        """Number of plain bytes of the incomplete line at the end."""
        return self._partial_bytes

    @property
    def cut_off(self) -> bool:
        """True if a frame is incomplete, once all bytes were read."""
        return self._fault is None and self.decompressor.is_cut

    def peek_end(self) -> bytes | None:
        """Return the incomplete line at the end; None if the file has changed since it was read."""
        with self._file as file:
            return b"".join(self._held) if stamp_of(file.stat()) == self._stamp else None

    def take_end(self, line: bytes) -> None:
        """Continue after the incomplete line, which `peek_end` has returned."""
        self.offset += len(line)
        self._held.clear()
        self._partial_bytes, self.open_end = 0, True

    @property
    def _verified_end(self) -> int:
        return self.decompressor.compressed_offset

    def read(self, budget: int) -> Block:
        """Read the next complete lines from about ``budget`` plain bytes.

        Raises
        ------
        OSError
            If the file cannot be opened or read.
        SourceDamaged
            If the data is invalid from here on, or contains an extremely long line.
        """
        with self._file as file:
            self._check(file)
            if self._fault is not None:
                raise self._fault
            fresh, more = self._plain(file, budget)
        if fresh is not None and fresh and self.open_end:
            if fresh[:1] != b"\n":  # the line that was taken continues
                self.reset()
                return self._empty_block(more=True)
            self.open_end, self.offset, fresh = False, self.offset + 1, fresh[1:]
        if fresh is None:
            return self._empty_block(more=True)
        return self._lines(fresh, more)

    def reset(self) -> None:
        """Start a new generation: rows returned before are invalid."""
        super().reset()
        self._clear()

    def mark(self, lines: int) -> ReadPosition | None:
        """Return the position if it is between two frames and two lines; elsewhere a mark is not enough."""
        decompressor, mark = self.decompressor, super().mark(lines)
        unfinished = (
            self._partial_bytes
            or self._ready
            or self._fault is not None
            or not decompressor.at_frame_boundary
        )
        if mark is None or unfinished:
            return None
        offset, starts = decompressor.compressed_offset, tuple(decompressor.starts)
        return replace(mark, compressed_offset=offset, starts=starts)

    def resume(self, mark: ReadPosition) -> bool:
        """Continue at a mark; False if the marked file was replaced or truncated."""
        self.decompressor = Decompressor(self._packing, mark.compressed_offset, mark.offset)
        self.decompressor.starts = list(mark.starts)
        self._window_start = mark.offset, mark.compressed_offset
        return super().resume(mark)

    def _goes_on(self, file: Readable) -> bool:
        """Return False: what comes after the offset is known once it is decompressed."""
        return False

    def _clear(self) -> None:
        self.decompressor = Decompressor(self._packing)
        self._fault: SourceDamaged | None = None
        self._ready = b""  # plain bytes that were not split into lines yet
        self._held: list[bytes] = []  # pieces of the incomplete line; empty if it is too long to be held
        self._partial_bytes = 0
        self._window_start = 0, 0  # plain and compressed bytes up to which the ratio was checked

    def _plain(self, file: Readable, budget: int) -> tuple[bytes | None, bool]:
        """Return plain bytes and whether there are more; None for bytes if the file was replaced."""
        parts, got = [self._ready], len(self._ready)
        self._ready = b""
        try:
            while got < budget:
                plain = self.decompressor.take(budget - got)
                if not plain and self.decompressor.compressed_offset == self.size:
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
        """Read more of the file into the decompressor; False if the file was replaced."""
        offset = self.decompressor.compressed_offset
        data = file.read(min(PIECE_BYTES, self.size - offset), offset)
        if self._check(file) or not data:
            return False
        if len(self._head) < HEAD:
            self._head += data[: HEAD - len(self._head)]
        self._before = (self._before + data[-BEFORE:])[-BEFORE:]
        self.decompressor.feed(data)
        return True

    def _lines(self, fresh: bytes, more: bool) -> Block:
        """Return the complete lines in the held and the fresh bytes."""
        too_long = self._partial_bytes > self.line_bytes
        end = fresh.find(b"\n") if too_long else self._last_end(fresh)
        if end < 0:
            self._hold(fresh)
            if self._partial_bytes > _BOMB * self.line_bytes:
                self._fault = SourceDamaged("a line is far too long when decompressed")
                return Block(self.generation, self.offset, skipped=self._partial_bytes, more=True)
            return self._empty_block(more=more or self._fault is not None)
        partial, offset = self._partial_bytes, self.offset
        data = b"".join([*self._held, fresh[: end + 1]])
        self._held, self._partial_bytes = [], 0
        self.offset += partial + end + 1
        if too_long:
            self._ready = fresh[end + 1 :]
            self._window_start = self.offset, self.decompressor.compressed_offset
            return Block(self.generation, offset, length=partial + end + 1, skipped=partial + end, more=True)
        self._hold(fresh[end + 1 :])
        self._check_ratio()
        return Block(self.generation, offset, data, len(data), more=more)

    def _check_ratio(self) -> None:
        """Stop reading if the last complete lines took almost no bytes on disk."""
        plain = self.offset - self._window_start[0]
        packed = self.decompressor.compressed_offset - self._window_start[1]
        if plain < _WINDOW_BYTES:
            return
        self._window_start = self.offset, self.decompressor.compressed_offset
        if packed * _MAX_RATIO < plain:
            times = plain // max(packed, 1)
            self._fault = SourceDamaged(f"it grows {times:,}-fold when decompressed, unlike any log")

    def _hold(self, fresh: bytes) -> None:
        """Keep the bytes of an incomplete line, unless it became too long."""
        self._partial_bytes += len(fresh)
        if self._partial_bytes <= self.line_bytes:
            self._held.append(fresh)
        else:
            self._held = []


class CompressedFile(JsonlFile):
    """Reads one ``.jsonl.gz`` or ``.jsonl.zst`` file; see `record_types.RolloutFile`.

    Attributes
    ----------
    packing : str
        As in `Decompressor`; from the file's suffix if it is empty.
    """

    tail: CompressedTail
    lines_on_disk = False
    packing = ""

    def _open_tail(self, line_bytes: int, end: int | None) -> Tail:
        return CompressedTail(self.path, line_bytes, self.packing)

    def _too_long(self, length: int) -> str:
        if length <= _BOMB * self.tail.line_bytes:
            return super()._too_long(length)
        return (
            f"the line has more than {length:,} bytes when decompressed, far more than in any log; "
            f"the limit is {self.tail.line_bytes:,}, and the rest of the file is not read"
        )

    def _read_bytes(self, length: int, offset: int) -> bytes:
        start = self.tail.decompressor.nearest_start(offset)
        with DecompressedStream(self.path, *start, packing=self.packing) as plain:
            plain.skip_to(offset)
            return io.BufferedReader(plain).read(length)


class Utf16File(CompressedFile):
    """Reads one file of JSON lines in UTF-16."""

    packing = UTF16
