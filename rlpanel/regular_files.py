"""Regular files only: no link, pipe, device or folder; and the permissions of files made from others."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlpanel.errors import UnsafePath

# -- regular files -------------------------------------------------------------------------------------
# Opens and reads regular files only: no link, pipe, device or folder, and at most a number of bytes.
#
# Anyone who can write in a run's folder may put something else in the place of a file. Opening a named pipe
# would wait for a writer, and reading a device would not end. The limit on the bytes counts what is read,
# since the size that a file claims may be wrong. Only the standard library is used, because training
# processes import this module.


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


# -- file rights ---------------------------------------------------------------------------------------
# Permissions of files that are derived from others: they are not open to more users than the originals.


#: Permissions of the owner, and those that others get at most: reading a file, entering and listing a folder.
_OWNER, _READ, _ENTER = 0o700, 0o044, 0o011


@dataclass(frozen=True)
class FileRights:
    """The most that other users may do with a file.

    Attributes
    ----------
    readers : int
        Bits of a mode: 0o040 if the group may read it, 0o004 if everybody may.
    group : int
        Id of that group.
    """

    readers: int = 0
    group: int = -1

    @classmethod
    def of(cls, originals: Iterable[os.stat_result]) -> FileRights:
        """Return the rights that all of these files give; none if there are no files."""
        readers, groups = _READ, set[int]()
        for status in originals:
            readers &= status.st_mode
            groups.add(status.st_gid)
        if not groups:
            return cls()
        if len(groups) > 1 and not readers & 0o004:
            readers = 0
        return cls(readers, groups.pop())

    @property
    def most(self) -> int:
        """The most permissive mode of a file or folder."""
        return _OWNER | self.readers | (self.readers >> 2 & _ENTER)

    def narrow(self, status: os.stat_result, target: int | str, folder: int | None = None) -> None:
        """Remove other permissions from a file or folder of this user; nothing happens without permissions.

        Parameters
        ----------
        status : os.stat_result
            Of the file or folder.
        target : int or str
            Its descriptor, or its name in ``folder``.
        folder : int, optional
            Descriptor of a folder.
        """
        most = self.most
        if self.readers == 0o040 and status.st_gid != self.group:
            try:
                os.chown(target, -1, self.group, dir_fd=folder)
            except (OSError, AttributeError):  # this user is not a member of the group
                most = _OWNER
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o777 & ~most:
            with suppress(OSError, NotImplementedError):  # a file system without permissions
                os.chmod(target, mode & (0o7000 | most), dir_fd=folder)
