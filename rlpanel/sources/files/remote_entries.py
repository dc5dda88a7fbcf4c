"""Converts the entries of a remote listing to `os.stat_result` and a part of `os.DirEntry`."""

from __future__ import annotations

import os
import stat as modes
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import xxhash

#: Keys that identify the version of a file, as the various file systems call them.
_SIGNATURES = ("ETag", "etag", "md5Hash", "generation", "VersionId", "blob_id", "sha", "checksum")
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")

#: Version of a file: size, modification time and signature.
Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """A file or folder in a remote listing, with the part of `os.DirEntry` that is used."""

    name: str
    path: str
    status: os.stat_result

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if it is a folder."""
        return modes.S_ISDIR(self.status.st_mode)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if it is a file."""
        return modes.S_ISREG(self.status.st_mode)

    def is_symlink(self) -> bool:
        """Return False: links on other machines are not followed."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status as of the listing."""
        return self.status


def status_of(info: Mapping[str, Any], before: os.stat_result | None) -> os.stat_result:
    """Convert a listing entry to the form of `os.stat`; ctime is a signature that changes with the file."""
    signature_parts = [str(info[key]) for key in _SIGNATURES if info.get(key) is not None]
    signature_parts = signature_parts or [str(info[key]) for key in _TIMES if info.get(key) is not None]
    signature = xxhash.xxh3_64_intdigest("\n".join(signature_parts).encode()) >> 1
    size = int(info.get("size") or 0)
    # Whole seconds, because a listing gives a more precise time than a request for the file itself.
    modified = _modified(info)
    if modified is None:
        same = before is not None and (before.st_size, before.st_ctime_ns) == (size, signature)
        modified = int(before.st_mtime) if before is not None and same else int(time.time())
    if before is not None and stamp_of(before) == (size, modified * 10**9, signature):
        return before
    mode = modes.S_IFDIR if info.get("type") == "directory" else modes.S_IFREG
    whole = (mode, 0, 0, 1, 0, 0, size, modified, modified, 0)
    exact = {"st_mtime": float(modified), "st_mtime_ns": modified * 10**9, "st_ctime_ns": signature}
    return os.stat_result(whole, exact)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what identifies a version of a file."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _modified(info: Mapping[str, Any]) -> int | None:
    """Return the time of the last change in seconds since the epoch; None if the listing has none."""
    for key in _TIMES:
        modified = info.get(key)
        try:
            if isinstance(modified, str):
                modified = datetime.fromisoformat(modified)
            if isinstance(modified, datetime):
                return int(modified.timestamp())
            if isinstance(modified, (int, float)):
                return int(modified)
        except (ValueError, OverflowError):
            continue
    return None
