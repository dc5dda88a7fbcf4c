"""A file that is only ever appended to, with a hash of all that counts in it."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import xxhash

from rlpanel.safe_files import SafeFolder, write_all
from rlpanel.sources.files.mounts import REMOTE, file_system


@dataclass(frozen=True)
class AppendFile:
    """How much of a file counts; a new one for each append, so a failed append leaves the old.

    Attributes
    ----------
    items, bytes : int
        What was written, counted by who writes and in bytes.
    """

    items: int = 0
    bytes: int = 0
    _hash: xxhash.xxh3_64 = field(default_factory=xxhash.xxh3_64)

    @property
    def hash(self) -> str:
        """Of all bytes that count."""
        return self._hash.hexdigest()

    def append(self, folder: SafeFolder, name: str, items: int, data: np.ndarray) -> AppendFile:
        """Write bytes (dtype uint8) behind those that count; what a dead process left there goes."""
        if not len(data):
            return self
        descriptor = folder.open_to_write(name, create=not self.bytes)
        try:
            os.ftruncate(descriptor, self.bytes)
            os.lseek(descriptor, 0, os.SEEK_END)
            write_all(descriptor, data.data)
        finally:
            os.close(descriptor)
        return self.followed_by(items, data)

    def followed_by(self, items: int, data: np.ndarray) -> AppendFile:
        """The same with more in it."""
        after = self._hash.copy()
        after.update(data.data)
        return AppendFile(self.items + items, self.bytes + len(data), after)


def read_content(folder: SafeFolder, name: str, size: int) -> np.ndarray:
    """The first ``size`` bytes of a file, read-only; mapped where nobody else can take them away.

    A mapped page whose bytes are gone ends the process. So a file on a network's disk is read instead, and
    so is another user's.

    Raises
    ------
    ValueError
        If the file is shorter.
    """
    with os.fdopen(folder.open_to_read(name), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if status.st_size < size:
            raise ValueError(f"{name} is cut short")
        if size and _is_own(status) and _is_mapped(str(folder.path)):
            return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), np.uint8)
        return np.frombuffer(file.read(size), np.uint8)


def _is_own(status: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and status.st_uid == os.geteuid()


@lru_cache(maxsize=64)
def _is_mapped(folder: str) -> bool:
    kind = file_system(folder)
    return bool(kind) and not kind.startswith(REMOTE)
