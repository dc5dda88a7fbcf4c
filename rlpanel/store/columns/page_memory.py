"""Memory for large arrays: unwritten pages cost nothing, and freed memory returns to the system.

An array from `allocate` can exchange its first pages for those of a file with the same bytes. The kernel can
then drop them when memory is scarce, and several processes share them.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

#: Arrays of at least this many bytes are allocated with mmap.
_MMAP_BYTES = 64 << 10
#: Freeing one block of this size makes glibc keep up to twice as much free memory.
_PRIMING_BYTES = 4 << 20
#: For a server: blocks from this size on are mapped, and returned to the system when they are freed. By
#: default glibc raises this limit to 32 MB, and each thread keeps the freed columns of its last query.
_SERVER_MMAP_BYTES = 2 << 20
#: For a server: free memory that an arena keeps, and number of arenas; by default 8 for each core.
_SERVER_KEPT_BYTES, _SERVER_ARENAS = 8 << 20, 2
#: Parameters of glibc's ``mallopt``.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_MAP_FAILED = ctypes.c_void_p(-1).value
_MREMAP_MAYMOVE, _MREMAP_FIXED = 1, 2
#: True if pages of an array can be exchanged for those of a file.
CAN_MAP = sys.platform == "linux"


def allocate(rows: int, dtype: np.dtype | type) -> np.ndarray:
    """Allocate an array for ``rows`` values; pages that are never written cost no memory.

    Large arrays are mapped directly: malloc would keep the smaller arrays that growing leaves behind, and
    numpy asks for 2 MB pages, of which each column wastes half of the last one on average.
    """
    size = rows * np.dtype(dtype).itemsize
    if size < _MMAP_BYTES:
        return np.empty(rows, dtype)
    if not CAN_MAP:
        return np.frombuffer(mmap.mmap(-1, size), dtype)
    # Without a reserve, capacity that is not used yet does not count as memory that the system promised.
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return np.frombuffer(mmap.mmap(-1, size, flags), dtype)


@dataclass(frozen=True)
class SavedBytes:
    """Content of a file in an array with room to append.

    Attributes
    ----------
    content : ndarray of uint8
    room : ndarray of uint8
        The array that begins with the content.
    is_allocated : bool
        True if it comes from `allocate`; otherwise it has no room and may be read-only.
    mapped : int
        Number of bytes that are pages of the file.
    """

    content: np.ndarray
    room: np.ndarray
    is_allocated: bool = False
    mapped: int = 0


def mapped_content(descriptor: int, size: int) -> SavedBytes:
    """Return the first ``size`` bytes of a file; whole pages are mapped, and as much room follows.

    A mapped page must not be accessed after the file was truncated: that would kill the process.
    """
    room = allocate(2 * size, np.uint8)
    mapped = map_file(room, descriptor, size) if room.nbytes >= _MMAP_BYTES else 0
    rest = room.data[mapped:size]
    while rest and (count := os.preadv(descriptor, [rest], size - len(rest))):
        rest = rest[count:]
    return SavedBytes(room[:size], room, True, mapped)


def map_file(array: np.ndarray, descriptor: int, size: int) -> int:
    """Exchange whole pages of an array for pages of a file; other threads do not notice.

    Parameters
    ----------
    array : ndarray
        A large array from `allocate`. The exchanged pages become read-only.
    descriptor : int
        Descriptor of a file that begins with the array's bytes.
    size : int
        Bytes of the array to exchange.

    Returns
    -------
    int
        Number of bytes that are mapped, in whole pages; 0 if the system cannot do it.
    """
    size -= size % mmap.PAGESIZE
    if not CAN_MAP or not size:
        return 0
    # Shared, so that `share_mapped` can map the pages again; some network file systems cannot do that.
    for sharing in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
        pages = _libc().mmap(None, size, mmap.PROT_READ, sharing, descriptor, 0)
        if pages not in (None, _MAP_FAILED):
            return size if _move(pages, array, size) else 0
    return 0


def share_mapped(source: np.ndarray, target: np.ndarray, size: int) -> int:
    """Exchange whole pages of an array for those of a file that another array has; nothing is copied.

    Parameters
    ----------
    source : ndarray
        Its first ``size`` bytes are pages of a file, by `map_file`.
    target : ndarray
        A large array from `allocate`. The exchanged pages become read-only.
    size : int

    Returns
    -------
    int
        Number of bytes that are mapped; 0 if the system cannot do it.
    """
    if not size or target.nbytes < _MMAP_BYTES:
        return 0
    # An old size of 0 keeps the old mapping, and needs no descriptor of the file.
    pages = _libc().mremap(source.ctypes.data, 0, size, _MREMAP_MAYMOVE, None)
    return size if pages not in (None, _MAP_FAILED) and _move(pages, target, size) else 0


def _move(pages: int, array: np.ndarray, size: int) -> bool:
    """Move mapped pages to the begin of an array; False if that failed, and the array is as before.

    Pages that are mapped to a fixed address at once can leave a hole there: the kernel removes what is mapped
    before it asks the file system, which may refuse.
    """
    flags = _MREMAP_MAYMOVE | _MREMAP_FIXED
    moved = _libc().mremap(pages, size, size, flags, array.ctypes.data) not in (None, _MAP_FAILED)
    if not moved:
        _libc().munmap(pages, size)
    return moved


def release_mapped(array: np.ndarray, end: int) -> None:
    """Release the memory of an array's first ``end`` bytes, which are pages of a file; they stay readable."""
    if end:
        _libc().madvise(array.ctypes.data, end, mmap.MADV_DONTNEED)


@cache
def raise_trim_threshold() -> None:
    """Make malloc keep some megabytes of free memory between batches.

    By default glibc returned freed memory to the system and faulted it in again page by page, which took a
    tenth of the reading time. Freeing one large block raises its threshold to twice that block's size.
    """
    bytearray(_PRIMING_BYTES)


def return_free_memory() -> None:
    """Make malloc return large freed blocks to the system, and let all threads share what it keeps.

    This is for a server, which has many threads and lives long. In a user's process it would slow down other
    libraries, which allocate and free large arrays again and again.
    """
    libc = _libc()
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _SERVER_MMAP_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _SERVER_KEPT_BYTES)
        libc.mallopt(_M_ARENA_MAX, _SERVER_ARENAS)


def trim_heap() -> None:
    """Return malloc's free memory to the system: some tens of megabytes after a backlog."""
    libc = _libc()
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


@cache
def _libc() -> Any:
    """Return the C library; None where it cannot be loaded by this name."""
    try:
        libc = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    with suppress(AttributeError):
        size, offset, address = ctypes.c_size_t, ctypes.c_int64, ctypes.c_void_p
        libc.mmap.argtypes = (address, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, offset)
        libc.mmap.restype = address
        libc.madvise.argtypes = (address, size, ctypes.c_int)
        libc.munmap.argtypes = (address, size)
        libc.mremap.argtypes = (address, size, size, ctypes.c_int, address)
        libc.mremap.restype = address
    return libc
