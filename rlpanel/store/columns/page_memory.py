"""Memory allocation for large arrays: unwritten pages cost nothing, freed memory returns to the system."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache

import numpy as np

#: Arrays of at least this many bytes are allocated with mmap.
_MMAP_BYTES = 64 << 10
#: Freeing one block of this size makes glibc keep up to twice as much free memory.
_PRIMING_BYTES = 4 << 20


def allocate(rows: int, dtype: np.dtype | type) -> np.ndarray:
    """Allocate an array for ``rows`` values; pages that are never written cost no memory.

    Large arrays are mapped directly: malloc would keep the smaller arrays that growing leaves behind, and
    numpy asks for 2 MB pages, of which each column wastes half of the last one on average.
    """
    size = rows * np.dtype(dtype).itemsize
    return np.empty(rows, dtype) if size < _MMAP_BYTES else np.frombuffer(mmap.mmap(-1, size), dtype)


@cache
def raise_trim_threshold() -> None:
    """Make malloc keep some megabytes of free memory between batches.

    By default glibc returns freed memory to the system and faults it in again page by page, which took a
    tenth of the reading time. Freeing one large block raises its threshold to twice that block's size.
    """
    bytearray(_PRIMING_BYTES)


def trim_heap() -> None:
    """Return malloc's free memory to the system: some tens of megabytes after a backlog."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> ctypes._NamedFuncPointer | None:
    """Return glibc's ``malloc_trim``; None if the C library has no such function."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return None
