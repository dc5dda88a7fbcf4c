"""Append-only file with a running hash of its valid content."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import xxhash

from rlpanel.regular_files import write_all
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.mounts import NETWORK_FILE_SYSTEMS, file_system
from rlpanel.store.columns.columns import Column
from rlpanel.store.columns.page_memory import CAN_MAP, SavedBytes, mapped_content


@dataclass(frozen=True)
class AppendFile:
    """Length and hash of a file's valid content. Immutable, so that a failed append changes nothing.

    Attributes
    ----------
    items, bytes : int
        Number of items written, in the caller's unit, and of bytes.
    """

    items: int = 0
    bytes: int = 0
    _hash: xxhash.xxh3_64 = field(default_factory=xxhash.xxh3_64)

    @property
    def hash(self) -> str:
        """Hash of all valid bytes."""
        return self._hash.hexdigest()

    def append(self, folder: SafeFolder, name: str, items: int, data: np.ndarray) -> AppendFile:
        """Write bytes (dtype uint8) after the valid ones; leftovers of a killed process are cut off."""
        if not len(data):
            return self
        descriptor = folder.open_to_write(name, create=not self.bytes)
        try:
            os.ftruncate(descriptor, self.bytes)
            os.lseek(descriptor, 0, os.SEEK_END)
            write_all(descriptor, data.data)
        finally:
            os.close(descriptor)
        return self.extended(items, data)

    def extended(self, items: int, data: np.ndarray) -> AppendFile:
        """Return the state after appending ``data``, without writing."""
        new_hash = self._hash.copy()
        new_hash.update(data.data)
        return AppendFile(self.items + items, self.bytes + len(data), new_hash)


def read_content(folder: SafeFolder, name: str, size: int) -> SavedBytes:
    """Return the first ``size`` bytes of a file; memory-mapped if nobody else can truncate it.

    Accessing a mapped page of a truncated file kills the process. So files on network file systems and
    files of other users are read instead.

    Raises
    ------
    ValueError
        If the file is shorter.
    """
    with os.fdopen(folder.open_to_read(name), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if status.st_size < size:
            raise ValueError(f"{name} is truncated")
        if size and CAN_MAP and _is_own(status) and _is_local(str(folder.path)):
            return mapped_content(file.fileno(), size)
        content = np.frombuffer(file.read(size), np.uint8)
        return SavedBytes(content, content)


def map_column(folder: SafeFolder, name: str, column: Column, rows: int, *, anew: bool) -> None:
    """Let a column share the memory of the file that it is saved in, unless others could truncate the file.

    ``anew`` replaces pages of another file, see `Column.map_saved`.
    """
    if not _is_local(str(folder.path)):
        return
    descriptor = folder.open_to_read(name)
    try:
        if _is_own(os.fstat(descriptor)):
            column.map_saved(rows, descriptor, anew=anew)
    finally:
        os.close(descriptor)


def _is_own(status: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and status.st_uid == os.geteuid()


@lru_cache(maxsize=64)
def _is_local(folder: str) -> bool:
    kind = file_system(folder)
    return bool(kind) and not kind.startswith(NETWORK_FILE_SYSTEMS)
