"""Decompresses gzip and zstd incrementally, never more than the requested number of bytes at a time.

A file may consist of several gzip members or zstd frames in sequence. Reading can start at each of them, so a
file written in frames of about a megabyte allows random access at the cost of decompressing one frame.

UTF-16, as some shells and editors of Windows write it, is recoded as UTF-8 in the same way: in one frame.
"""

from __future__ import annotations

import codecs
import io
import sys
import zlib
from bisect import bisect_right
from collections.abc import Callable
from typing import Protocol

from rlpanel.errors import SourceDamaged
from rlpanel.sources.files.file_access import stream
from rlpanel.zstd import zstd

#: Suffixes of compressed files.
SUFFIXES = (".gz", ".zst")
#: How a file is packed if not by its suffix, and the first bytes of such a file.
UTF16 = "utf-16"
#: Byte order mark of UTF-16, and where a zero byte follows it if the first character is ASCII's.
_UTF16_ZEROS = {codecs.BOM_UTF16_LE: 3, codecs.BOM_UTF16_BE: 2}
#: Compressed bytes that are read at a time.
PIECE_BYTES = 64 << 10
#: Minimum distance in plain bytes between two remembered start positions.
_STRIDE = 256 << 10
#: Bytes requested at once from a remote file: about the length of a frame.
_AHEAD = 1 << 20


class _Frame(Protocol):
    """One gzip member or zstd frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Member:
    """Adapts a gzip member to `_Frame`; zlib's object leaves unconsumed input to the caller."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        plain = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = len(plain) < max_length
        return plain


class _Utf16:
    """Adapts UTF-16 with a byte order mark to `_Frame`; halves of surrogate pairs become U+FFFD."""

    eof, unused_data = False, b""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder(UTF16)("replace")
        self._plain = b""
        self.needs_input = True

    @property
    def is_cut(self) -> bool:
        """True if the last character is incomplete."""
        return bool(self._decoder.getstate()[0])

    def decompress(self, data: bytes, max_length: int) -> bytes:
        recoded = self._plain + self._decoder.decode(data).encode()
        self._plain = recoded[max_length:]
        self.needs_input = not self._plain
        return recoded[:max_length]


class Decompressor:
    """Incremental decompressor: `feed` takes compressed bytes, `take` returns plain bytes.

    Parameters
    ----------
    packing : str
        Suffix of a compressed file, or `UTF16`.
    compressed_offset, plain_offset : int
        Offsets in the compressed file and in the plain text at which to begin.

    Attributes
    ----------
    compressed_offset : int
        Offset in the file after the compressed bytes received so far.
    plain_offset : int
        Offset in the plain text after the bytes returned so far.
    starts : list of (int, int)
        Positions at which decompression can begin: (plain offset, compressed offset), ascending.
    """

    def __init__(self, packing: str, compressed_offset: int = 0, plain_offset: int = 0) -> None:
        self.compressed_offset = compressed_offset
        self.plain_offset = plain_offset
        self.starts: list[tuple[int, int]] = []
        self._packing = packing
        self._frame: _Frame | None = None
        self._pending = b""  # received, but not yet passed to a frame

    @property
    def at_frame_boundary(self) -> bool:
        """True between two frames: all received frames are complete and all their bytes were returned."""
        return self._frame is None and not self._pending

    @property
    def is_cut(self) -> bool:
        """True if the received bytes end inside of a frame, or of a character of UTF-16."""
        return self._frame.is_cut if isinstance(self._frame, _Utf16) else not self.at_frame_boundary

    def feed(self, data: bytes) -> None:
        """Add compressed bytes."""
        self._pending += data
        self.compressed_offset += len(data)

    def take(self, most: int) -> bytes:
        """Return at most ``most`` plain bytes; b"" if more compressed bytes must be fed first.

        Raises
        ------
        SourceDamaged
            If the compressed data is invalid.
        """
        try:
            while self._frame is not None or self._begin():
                plain = self._step(most)
                if plain:
                    self.plain_offset += len(plain)
                    return plain
                if self._frame is not None and not self._pending:
                    break
        except (zlib.error, zstd.ZstdError) as error:
            position = self.compressed_offset - len(self._pending)
            raise SourceDamaged(f"damaged near byte {position:,} ({error})") from error
        return b""

    def _step(self, most: int) -> bytes:
        frame = self._frame
        assert frame is not None
        data = b""
        if frame.needs_input:
            data, self._pending = self._pending, b""
        plain = frame.decompress(data, most)
        if frame.eof:
            self._pending, self._frame = frame.unused_data + self._pending, None
        return plain

    def _begin(self) -> bool:
        """Start the next frame; return False if there are no bytes for it."""
        if self._packing == ".gz" and self.plain_offset:
            self._pending = self._pending.lstrip(b"\0")  # gzip allows zeros after a member
        if not self._pending:
            return False
        self._frame = _FRAMES[self._packing]()
        if not self.starts or self.plain_offset - self.starts[-1][0] >= _STRIDE:
            self.starts.append((self.plain_offset, self.compressed_offset - len(self._pending)))
        return True

    def nearest_start(self, offset: int) -> tuple[int, int]:
        """Return the last start position at or before a plain offset, as (compressed, plain) offsets."""
        starts = self.starts
        index = bisect_right(starts, (offset, sys.maxsize)) - 1
        return (starts[index][1], starts[index][0]) if index >= 0 else (0, 0)


_FRAMES: dict[str, Callable[[], _Frame]] = {
    ".gz": _Member,
    ".zst": zstd.ZstdDecompressor,
    UTF16: _Utf16,
}


def packing_of(path: str) -> str:
    """Return the suffix of a compressed file; empty for other files."""
    return next((suffix for suffix in SUFFIXES if path.endswith(suffix)), "")


class DecompressedStream(io.RawIOBase):
    """Plain stream of a compressed file; a truncated file ends where it was cut.

    Parameters
    ----------
    path : str
    compressed_offset, plain_offset : int
        Offsets in the compressed file and in the plain text at which to begin.
    packing : str
        As in `Decompressor`; from the file's suffix if it is empty.
    """

    def __init__(
        self, path: str, compressed_offset: int = 0, plain_offset: int = 0, packing: str = ""
    ) -> None:
        self._file = stream(path, _AHEAD)
        self._file.seek(compressed_offset)
        self._decompressor = Decompressor(packing or packing_of(path), compressed_offset, plain_offset)

    @property
    def starts(self) -> list[tuple[int, int]]:
        """Positions at which decompression can begin, as far as the file was read; see `Decompressor`."""
        return self._decompressor.starts

    @property
    def is_cut(self) -> bool:
        """True if the bytes read so far end inside of a frame."""
        return self._decompressor.is_cut

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill a part of the buffer; return 0 at the end of the file."""
        while not (plain := self._decompressor.take(len(buffer))):
            data = self._file.read(PIECE_BYTES)
            if not data:
                return 0
            self._decompressor.feed(data)
        buffer[: len(plain)] = plain
        return len(plain)

    def skip_to(self, offset: int) -> None:
        """Read and discard bytes up to a plain offset."""
        decompressor = self._decompressor
        while (remaining := offset - decompressor.plain_offset) > 0 and self.read(min(remaining, 1 << 20)):
            pass

    def close(self) -> None:
        """Close the stream and the file."""
        self._file.close()
        super().close()


def _begins_as_utf16(head: bytes) -> bool:
    """Return True for a byte order mark before an ASCII character, with which all records begin."""
    zero = _UTF16_ZEROS.get(head[:2])
    return zero is not None and head[zero : zero + 1] == b"\0"


def open_plain(path: str) -> io.BufferedReader:
    """Open a rollout file at its beginning, as plain UTF-8.

    It is decompressed if its suffix says that it is compressed, and recoded if it begins as UTF-16 does.
    """
    if path.endswith(SUFFIXES):
        return io.BufferedReader(DecompressedStream(path))
    file = stream(path)
    if not _begins_as_utf16(file.peek(4)[:4]):
        return file
    file.close()
    return io.BufferedReader(DecompressedStream(path, packing=UTF16))
