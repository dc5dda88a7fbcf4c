"""Reads one remote file with as few requests as possible: read-ahead buffer and block cache."""

from __future__ import annotations

import io
import os
from collections import OrderedDict
from typing import Self

from rlpanel.sources.files.remote import RemoteStore, get_store
from rlpanel.sources.files.storage_requests import Stamp, stamp_of

#: Bytes requested at once when a file is followed; a range of at most ``_SMALL`` is requested alone.
AHEAD = 4 << 20
_SMALL = 4 << 10
#: Size of a cached block, for reading single lines: the lines next to it are usually wanted next.
BLOCK = 1 << 20
_MAX_BLOCKS = 64


class RemoteFile:
    """Reads ranges of one remote file through a read-ahead buffer.

    After bytes were read, `stat` returns the status of their version, or makes a new request if the storage
    does not say it. Comparing it with the status before the read therefore shows whether the
    bytes belong to one version of the file. Bytes that were fetched ahead need no request.

    Parameters
    ----------
    url : str
    ahead : int
        Bytes requested at once.
    """

    def __init__(self, url: str, ahead: int = AHEAD) -> None:
        self._url, self._ahead = url, ahead
        self._status: os.stat_result | None = None
        self._status_outdated = False
        self._buffer_start, self._buffer, self._buffer_stamp = 0, b"", (0, 0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def _store(self) -> RemoteStore:
        return get_store(self._url)

    def stat(self) -> os.stat_result:
        """Return the status from the last listing; request it if bytes were read since."""
        status = None if self._status_outdated else self._store.last_status(self._url) or self._status
        if status is None:
            status, self._status_outdated = self._store.request_status(self._url), False
        self._status = status
        return status

    def read(self, length: int, offset: int) -> bytes:
        """Return the bytes at an offset, fewer at the end of the file."""
        status = self._status or self.stat()
        length = min(length, status.st_size - offset)
        if length <= 0:
            return b""
        fetched = self._store.fetched(self._url, length, offset, status)
        if fetched is not None:
            return fetched
        position = offset - self._buffer_start
        if self._buffer_stamp == stamp_of(status) and 0 <= position <= len(self._buffer) - length:
            return self._from_buffer(position, length)
        if length <= _SMALL:
            return self._get(length, offset)
        self._buffer = self._get(max(length, min(self._ahead, status.st_size - offset)), offset)
        self._buffer_start, self._buffer_stamp = offset, stamp_of(self._status or status)
        return self._from_buffer(0, length)

    def _get(self, length: int, offset: int) -> bytes:
        data, status = self._store.read(self._url, length, offset)
        self._status, self._status_outdated = status or self._status, status is None
        return data

    def _from_buffer(self, position: int, length: int) -> bytes:
        """Return a part of the buffer; after its last byte free the buffer, since many files are followed."""
        part = self._buffer[position : position + length]
        if position + length == len(self._buffer):
            self._buffer = b""
        return part


class RemoteStream(io.RawIOBase):
    """Binary stream over a remote file, seekable."""

    def __init__(self, url: str, ahead: int) -> None:
        self._file, self._position = RemoteFile(url, ahead), 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to another offset."""
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}
        self._position = offset + (bases[whence] if whence in bases else self._file.stat().st_size)
        return self._position

    def tell(self) -> int:
        """Return the current offset."""
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the buffer with as many bytes as the file has left."""
        data = self._file.read(len(buffer), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


#: The last blocks. Of the process, as the stores are; the key has the file's size and times.
_block_cache: OrderedDict[tuple[str, Stamp, int], bytes] = OrderedDict()


def read_at(url: str, length: int, offset: int) -> bytes:
    """Return one line's bytes; whole blocks are fetched, and the last ones are cached."""
    store = get_store(url)
    status = store.last_status(url) or store.request_status(url)
    end = min(offset + length, status.st_size)
    if length > BLOCK:
        return store.read(url, end - offset, offset)[0] if end > offset else b""
    first = offset // BLOCK
    parts = [_block(store, url, number, status) for number in range(first, -(-end // BLOCK))]
    return b"".join(parts)[offset - first * BLOCK : end - first * BLOCK]


def _block(store: RemoteStore, url: str, number: int, status: os.stat_result) -> bytes:
    key = url, stamp_of(status), number
    block = _block_cache.get(key)
    if block is None:
        start = number * BLOCK
        block, _ = store.read(url, min(BLOCK, status.st_size - start), start)
    _block_cache[key] = block
    _block_cache.move_to_end(key)
    while len(_block_cache) > _MAX_BLOCKS:
        _block_cache.popitem(last=False)
    return block
