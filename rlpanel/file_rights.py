"""Permissions of files that are derived from others: they are not open to more users than the originals."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

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
