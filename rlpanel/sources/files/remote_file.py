"""One file on another machine: its status and its bytes, as few requests as that takes."""

from __future__ import annotations

import io
import os
from collections import OrderedDict
from typing import Self

from rlpanel.sources.files.remote import RemoteStore, store_of

#: Bytes asked for at once where a file is read on; a shorter range than ``_SMALL`` is asked for as it is.
AHEAD = 4 << 20
_SMALL = 4 << 10
#: Bytes that are asked for, and kept, where single lines are wanted: their neighbours are wanted next.
BLOCK = 1 << 20
_BLOCKS = 64

#: What a window is of: size, time and signature.
Stamp = tuple[int, int, int]


class RemoteFile:
    """Reads ranges of one file, ahead of what is asked.

    A status that is told after bytes were read was asked for after them, so that whoever compares it with
    the one before knows whether they are one writing's.

    Parameters
    ----------
    url : str
    ahead : int
        Bytes asked for at once.
    """

    def __init__(self, url: str, ahead: int = AHEAD) -> None:
        self._url, self._ahead = url, ahead
        self._status: os.stat_result | None = None
        self._unsure = False
        self._start, self._bytes, self._of = 0, b"", (0, 0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def _store(self) -> RemoteStore:
        return store_of(self._url)

    def stat(self) -> os.stat_result:
        """Its status: of the last listing, or asked for where bytes were read since."""
        found = None if self._unsure else self._store.known(self._url) or self._status
        if found is None:
            found, self._unsure = self._store.head(self._url), False
        self._status = found
        return found

    def read(self, length: int, offset: int) -> bytes:
        """Bytes at an offset, fewer at the file's end."""
        status = self._status or self.stat()
        length = min(length, status.st_size - offset)
        if length <= 0:
            return b""
        at = offset - self._start
        if self._of == _stamp(status) and 0 <= at <= len(self._bytes) - length:
            return self._kept(at, length)
        if length <= _SMALL:
            return self._get(length, offset)
        self._bytes = self._get(max(length, min(self._ahead, status.st_size - offset)), offset)
        self._start, self._of = offset, _stamp(status)
        return self._kept(0, length)

    def _get(self, length: int, offset: int) -> bytes:
        self._unsure = True
        return self._store.read(self._url, length, offset)

    def _kept(self, at: int, length: int) -> bytes:
        """A part of what was read ahead, which goes with its last byte: many files are followed at once."""
        found = self._bytes[at : at + length]
        if at + length == len(self._bytes):
            self._bytes = b""
        return found


class RemoteStream(io.RawIOBase):
    """A file to be read from its beginning, or from where `seek` says."""

    def __init__(self, url: str, ahead: int) -> None:
        self._file, self._at = RemoteFile(url, ahead), 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go on elsewhere."""
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}
        self._at = offset + (bases[whence] if whence in bases else self._file.stat().st_size)
        return self._at

    def tell(self) -> int:
        """Where it stands."""
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the buffer as far as the file goes."""
        found = self._file.read(len(buffer), self._at)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


_blocks: OrderedDict[tuple[str, Stamp, int], bytes] = OrderedDict()


def read_at(url: str, length: int, offset: int) -> bytes:
    """One line's bytes; whole blocks are fetched and the last ones kept."""
    store = store_of(url)
    status = store.known(url) or store.head(url)
    end = min(offset + length, status.st_size)
    if length > BLOCK:
        return store.read(url, end - offset, offset) if end > offset else b""
    first = offset // BLOCK
    parts = [_block(store, url, number, status) for number in range(first, -(-end // BLOCK))]
    return b"".join(parts)[offset - first * BLOCK : end - first * BLOCK]


def _block(store: RemoteStore, url: str, number: int, status: os.stat_result) -> bytes:
    key = url, _stamp(status), number
    found = _blocks.get(key)
    if found is None:
        start = number * BLOCK
        found = store.read(url, min(BLOCK, status.st_size - start), start)
    _blocks[key] = found
    _blocks.move_to_end(key)
    while len(_blocks) > _BLOCKS:
        _blocks.popitem(last=False)
    return found


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
