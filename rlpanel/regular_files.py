"""Opens and reads regular files only: no link, pipe, device or folder, and at most a number of bytes.

Anyone who can write in a run's folder may put something else in the place of a file. Opening a named pipe
would wait for a writer, and reading a device would not end. The limit on the bytes counts what is read, since
the size that a file claims may be wrong. Only the standard library is used, because training processes import
this module.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from rlpanel.errors import UnsafePath

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
#: Flags for every file that is opened. Without ``O_NONBLOCK``, opening a named pipe would block.
SAFE = NO_FOLLOW
for _name in ("O_NONBLOCK", "O_NOCTTY", "O_BINARY", "O_CLOEXEC"):
    SAFE |= getattr(os, _name, 0)
#: Bytes that one system call reads.
_PART = 1 << 20


def open_regular(path: str) -> int:
    """Open a regular file for reading, whoever owns it; a link at the end of the path is not followed.

    Returns
    -------
    int
        A descriptor, which the caller must close.

    Raises
    ------
    OSError
        If it is not a regular file, or cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | SAFE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
            check_regular(Path(path), os.lstat(path))
        raise
    try:
        check_regular(Path(path), os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_regular(path: Path, status: os.stat_result) -> None:
    """Raise UnsafePath or IsADirectoryError unless a status is that of a regular file."""
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISLNK(status.st_mode):
        raise unsafe(path, "is a link")
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder", os.fspath(path))
    raise unsafe(path, "is not a regular file")


def read_at_most(descriptor: int, most: int, path: str | os.PathLike[str]) -> bytes:
    """Return the content of an open file; raise OSError if it has more than ``most`` bytes."""
    size = os.fstat(descriptor).st_size
    if size > most:
        raise too_large(size, most, path)
    return _read(descriptor, most, path)


def read_end(descriptor: int, most: int, path: str | os.PathLike[str]) -> bytes:
    """Return the last ``most`` bytes of an open file, or all of a shorter one."""
    size = os.fstat(descriptor).st_size
    os.lseek(descriptor, max(0, size - most), os.SEEK_SET)
    return _read(descriptor, most, path, growing=True)


def too_large(size: int, most: int, path: str | os.PathLike[str]) -> OSError:
    """Return the error for a file with more bytes than are read."""
    return OSError(errno.EFBIG, f"has {size:,} bytes; the limit is {most:,}", os.fspath(path))


def write_all(descriptor: int, data: memoryview | bytes) -> None:
    """Write all bytes; a single system call may write only a part, for example on a nearly full disk."""
    rest = memoryview(data)
    while len(rest):
        rest = rest[os.write(descriptor, rest) :]


def user_id() -> int:
    """Return the effective user id of this process, or -1 if the system has none."""
    return os.geteuid() if hasattr(os, "geteuid") else -1


def unsafe(path: Path, reason: str) -> UnsafePath:
    """Return the error for a path that breaks a rule."""
    return UnsafePath(errno.EPERM, reason, os.fspath(path))


def _read(descriptor: int, most: int, path: str | os.PathLike[str], *, growing: bool = False) -> bytes:
    parts, left = list[bytes](), most
    while left and (part := os.read(descriptor, min(left, _PART))):
        parts.append(part)
        left -= len(part)
    if not left and not growing and os.read(descriptor, 1):
        raise too_large(most + 1, most, path)
    return b"".join(parts)
