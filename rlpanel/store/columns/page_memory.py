"""Memory by the page: what is not written costs none, what is not needed any more goes back to the system."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache

import numpy as np

#: Bytes from which on room is asked for page by page.
_PAGED = 64 << 10
#: A block whose release lets glibc keep twice as much.
_KEPT_BYTES = 4 << 20


def allocate(rows: int, dtype: np.dtype | type) -> np.ndarray:
    """Room for ``rows`` values, not written yet: what stays unwritten costs no memory.

    Large blocks come straight from the system: the allocator would keep those of half the size that growing
    leaves behind, and numpy asks for pages of 2 MB, of which each column fills its last one by half.
    """
    size = rows * np.dtype(dtype).itemsize
    return np.empty(rows, dtype) if size < _PAGED else np.frombuffer(mmap.mmap(-1, size), dtype)


@cache
def keep_pages() -> None:
    """Let the allocator keep some megabytes between two batches.

    What glibc is given back it hands to the system, and takes it again page by page, which cost a tenth of
    the reading. Once it has freed a block as large as this, it keeps twice as much.
    """
    bytearray(_KEPT_BYTES)


def give_back() -> None:
    """Hand to the system what the allocator keeps: after a backlog some tens of megabytes."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> ctypes._NamedFuncPointer | None:
    """The function of glibc; None where there is another C library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return None
