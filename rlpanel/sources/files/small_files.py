"""Reads small files whole, such as settings and notes: local ones and those on other machines.

Only a regular file is read, no link in its path is followed, and opening it does not wait. A file beyond the
limit is not read at all, because a part of it could mean something else.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from rlpanel.regular_files import read_at_most, read_end, too_large, user_id
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.file_access import AnyPath, RemotePath, follow_file, stream

#: Permission bits that let others change a file.
_WRITABLE = 0o022

#: Fields of a status that change whenever the file changes.
Stamp = tuple[int, ...]


@dataclass(frozen=True)
class SmallFile:
    """Content of a small file.

    Attributes
    ----------
    data : bytes
        The content, or only its end.
    size : int
        Number of bytes that the whole file has.
    own : bool
        True if the file belongs to this user or to root, and nobody else may change it.
    """

    data: bytes
    size: int
    own: bool = False


def stamp_of(path: AnyPath) -> Stamp | None:
    """Return what changes whenever a small file does; None if there is no file."""
    try:
        status = path.stat() if isinstance(path, RemotePath) else path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    return status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_small(path: AnyPath, most: int) -> SmallFile:
    """Read a small file whole.

    Parameters
    ----------
    path : path
        Its folder is a real path.
    most : int
        Most bytes that are read.

    Raises
    ------
    OSError
        If it is not a regular file, has more bytes, or cannot be read. `UnsafePath` names a link or pipe.
    """
    if isinstance(path, RemotePath):
        return _read_remote(path, most)
    with SafeFolder.open(path.parent) as folder:
        return read_in(folder, path.name, most)


def read_in(folder: SafeFolder, name: str, most: int, *, end: bool = False) -> SmallFile:
    """Read a small file of an open folder; with ``end``, only the last ``most`` bytes of a larger one."""
    descriptor = folder.open_to_read(name)
    try:
        data = (read_end if end else read_at_most)(descriptor, most, folder.path / name)
        status = os.fstat(descriptor)
        own = status.st_uid in (user_id(), 0) and not status.st_mode & _WRITABLE
        return SmallFile(data, max(status.st_size, len(data)), own)
    finally:
        os.close(descriptor)


def read_remote_end(path: RemotePath, most: int) -> SmallFile:
    """Read the last ``most`` bytes of a file on another machine."""
    size = path.stat().st_size
    with follow_file(str(path)) as file:
        return SmallFile(file.read(min(size, most), max(0, size - most)), size)


def _read_remote(path: RemotePath, most: int) -> SmallFile:
    size = path.stat().st_size  # raises for a file that the listing lacks, without a request for it
    if size > most:
        raise too_large(size, most, str(path))
    with stream(str(path)) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise too_large(len(data), most, str(path))
    return SmallFile(data, len(data))
