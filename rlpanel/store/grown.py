"""A file that is only ever appended to, with a hash of all that counts in it."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import xxhash

from rlpanel.sources.mounts import REMOTE, file_system


@dataclass(frozen=True)
class Grown:
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

    def append(self, path: Path, items: int, data: np.ndarray) -> Grown:
        """Write bytes (dtype uint8) behind those that count; what a dead process left there goes."""
        if not len(data):
            return self
        with path.open("r+b" if self.bytes else "wb", buffering=0) as file:
            file.truncate(self.bytes)
            file.seek(0, os.SEEK_END)
            write_all(file.fileno(), data.data)
        return self.followed_by(items, data)

    def followed_by(self, items: int, data: np.ndarray) -> Grown:
        """The same with more in it."""
        after = self._hash.copy()
        after.update(data.data)
        return Grown(self.items + items, self.bytes + len(data), after)


def write_all(descriptor: int, data: memoryview | bytes) -> None:
    """All of it: one write may take a part and say so, as on a disk that is nearly full."""
    rest = memoryview(data)
    while len(rest):
        rest = rest[os.write(descriptor, rest) :]


def content(path: Path, size: int) -> np.ndarray:
    """The first ``size`` bytes of a file, read-only; mapped where no other machine can take them away.

    A mapped page whose bytes are gone ends the process, so a file on a network's disk is read instead.

    Raises
    ------
    ValueError
        If the file is shorter.
    """
    with path.open("rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size < size:
            raise ValueError(f"{path.name} is cut short")
        if size and _is_mapped(str(path.parent)):
            return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), np.uint8)
        return np.frombuffer(file.read(size), np.uint8)


@lru_cache(maxsize=64)
def _is_mapped(folder: str) -> bool:
    kind = file_system(folder)
    return bool(kind) and not kind.startswith(REMOTE)
