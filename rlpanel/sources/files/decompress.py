"""Compressed bytes in, plain bytes out, never more of them at a time than was asked for.

A file may hold several gzip members or zstd frames, one after the other. Each begins anew, so each is a
place from which reading can start; files written in frames of about a megabyte are read at random for
the price of one frame.
"""

from __future__ import annotations

import io
import sys
import zlib
from bisect import bisect_right
from typing import TYPE_CHECKING, BinaryIO, Protocol

from rlpanel.errors import SourceDamaged
from rlpanel.sources.files.files import stream

if TYPE_CHECKING or sys.version_info < (3, 14):
    from backports import zstd
else:
    from compression import zstd

#: Suffixes of compressed files.
SUFFIXES = (".gz", ".zst")
#: Compressed bytes read at a time.
PIECE_BYTES = 64 << 10
#: Plain bytes between two places that are remembered as starts.
_STRIDE = 256 << 10
#: Asked for at once from another machine: a frame is about as long.
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
    """A gzip member as a `_Frame`; zlib's own object leaves what it did not take to its caller."""

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


class Decompressor:
    """Decompresses what it is fed.

    Parameters
    ----------
    path : str
        Its suffix tells the format.
    fed, given : int
        Where in the compressed and in the plain bytes to begin.

    Attributes
    ----------
    fed : int
        Compressed bytes taken in.
    given : int
        Plain bytes handed out.
    starts : list of (int, int)
        Places to begin at: plain offset, compressed offset; ascending.
    """

    def __init__(self, path: str, fed: int = 0, given: int = 0) -> None:
        self.fed = fed
        self.given = given
        self.starts: list[tuple[int, int]] = []
        self._gzip = path.endswith(".gz")
        self._frame: _Frame | None = None
        self._rest = b""  # taken in, and seen by no frame yet

    @property
    def between(self) -> bool:
        """Whether all that was taken in are whole frames, and all they hold was handed out."""
        return self._frame is None and not self._rest

    def feed(self, data: bytes) -> None:
        """Take in compressed bytes."""
        self._rest += data
        self.fed += len(data)

    def take(self, most: int) -> bytes:
        """At most ``most`` plain bytes; none where more compressed ones are needed first.

        Raises
        ------
        SourceDamaged
            If the compressed bytes make no sense.
        """
        try:
            while self._frame is not None or self._begin():
                plain = self._step(most)
                if plain:
                    self.given += len(plain)
                    return plain
                if self._frame is not None and not self._rest:
                    break
        except (zlib.error, zstd.ZstdError) as error:
            raise SourceDamaged(f"damaged near byte {self.fed - len(self._rest):,} ({error})") from error
        return b""

    def _step(self, most: int) -> bytes:
        frame = self._frame
        assert frame is not None
        data = b""
        if frame.needs_input:
            data, self._rest = self._rest, b""
        plain = frame.decompress(data, most)
        if frame.eof:
            self._rest, self._frame = frame.unused_data + self._rest, None
        return plain

    def _begin(self) -> bool:
        """Begin a frame if there is one."""
        if self._gzip and self.given:
            self._rest = self._rest.lstrip(b"\0")  # gzip allows zeros behind a member
        if not self._rest:
            return False
        self._frame = _Member() if self._gzip else zstd.ZstdDecompressor()
        if not self.starts or self.given - self.starts[-1][0] >= _STRIDE:
            self.starts.append((self.given, self.fed - len(self._rest)))
        return True

    def nearest(self, offset: int) -> tuple[int, int]:
        """The last place to begin at that is not behind a plain offset: compressed, plain."""
        starts = self.starts
        at = bisect_right(starts, (offset, sys.maxsize)) - 1
        return (starts[at][1], starts[at][0]) if at >= 0 else (0, 0)


class DecompressedStream(io.RawIOBase):
    """A compressed file to read from, plain; a truncated one ends where it was cut.

    Parameters
    ----------
    path : str
    fed, given : int
        Where in the compressed and in the plain bytes to begin.
    """

    def __init__(self, path: str, fed: int = 0, given: int = 0) -> None:
        self._file = stream(path, _AHEAD)
        self._file.seek(fed)
        self._inflater = Decompressor(path, fed, given)

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill a part of the buffer; 0 at the end."""
        while not (plain := self._inflater.take(len(buffer))):
            piece = self._file.read(PIECE_BYTES)
            if not piece:
                return 0
            self._inflater.feed(piece)
        buffer[: len(plain)] = plain
        return len(plain)

    def skip_to(self, offset: int) -> None:
        """Read on to a plain offset."""
        while (left := offset - self._inflater.given) > 0 and self.read(min(left, 1 << 20)):
            pass

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def open_plain(path: str) -> BinaryIO:
    """A rollout file to read from its beginning, decompressed where its name says that it is compressed."""
    if path.endswith(SUFFIXES):
        return io.BufferedReader(DecompressedStream(path))
    return stream(path)
