"""What a listing of another machine's folder tells of a file, in the words of `os`."""

from __future__ import annotations

import os
import stat as modes
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import xxhash

#: What tells one writing of a file from another, as file systems call it.
_SIGNATURES = ("ETag", "etag", "md5Hash", "generation", "VersionId", "blob_id", "sha", "checksum")
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """A file or folder in a listing, with as much of `os.DirEntry` as is used."""

    name: str
    path: str
    status: os.stat_result

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a folder."""
        return modes.S_ISDIR(self.status.st_mode)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""
        return modes.S_ISREG(self.status.st_mode)

    def is_symlink(self) -> bool:
        """No: another machine's links are not followed."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As of the listing."""
        return self.status


def status_of(info: Mapping[str, Any], before: os.stat_result | None) -> os.stat_result:
    """As `os.stat` has it: ctime changes whenever the file is another one, whatever its size and time."""
    told = [str(info[key]) for key in _SIGNATURES if info.get(key) is not None]
    told = told or [str(info[key]) for key in _TIMES if info.get(key) is not None]
    signature = xxhash.xxh3_64_intdigest("\n".join(told).encode()) >> 1
    size = int(info.get("size") or 0)
    # Whole seconds: a listing tells the time more exactly than a look at the file itself.
    modified = _modified(info)
    if modified is None:
        same = before is not None and (before.st_size, before.st_ctime_ns) == (size, signature)
        modified = int(before.st_mtime) if before is not None and same else int(time.time())
    mode = modes.S_IFDIR if info.get("type") == "directory" else modes.S_IFREG
    whole = (mode, 0, 0, 1, 0, 0, size, modified, modified, 0)
    exact = {"st_mtime": float(modified), "st_mtime_ns": modified * 10**9, "st_ctime_ns": signature}
    return os.stat_result(whole, exact)


def _modified(info: Mapping[str, Any]) -> int | None:
    """When it was last written, seconds since the epoch; None where nothing tells."""
    for key in _TIMES:
        told = info.get(key)
        try:
            if isinstance(told, str):
                told = datetime.fromisoformat(told)
            if isinstance(told, datetime):
                return int(told.timestamp())
            if isinstance(told, (int, float)):
                return int(told)
        except (ValueError, OverflowError):
            continue
    return None
