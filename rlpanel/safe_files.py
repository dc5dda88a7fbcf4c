"""Writes files on shared disks without following links. All files that rlpanel writes are written here.

Another user may plant a link, a hard link or a named pipe where rlpanel is about to write. So a folder is
opened once, as a file descriptor and without following links. Files in it are opened by name relative to that
descriptor, so replacing the folder by a link in the meantime has no effect.

The rules:

- A path that a user typed is resolved once (`SafeFolder.named`). After that no link is followed.
- Only regular files are written. They have a single name (no hard links) and belong to this user or to the
  folder's owner.
- A new file is made with ``O_EXCL``. A file is replaced through a temporary file with a random name.
- Files are deleted only in folders that carry the marker `MARKER`.

A path that breaks a rule raises `UnsafePath`. Windows has neither folder descriptors nor numeric owners:
there, paths are used, and links are refused by a check before each use. Only the standard library is used,
because training processes import this module.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from rlpanel.errors import UnsafePath
from rlpanel.regular_files import (
    NO_FOLLOW,
    SAFE,
    FileRights,
    check_regular,
    read_at_most,
    unsafe,
    user_id,
    write_all,
)

#: Name and text of the file that marks a folder as rlpanel's own; backup tools skip such folders.
MARKER = "CACHEDIR.TAG"
_MARKER_TEXT = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# rlpanel made this folder and may delete it. See https://bford.info/cachedir/\n"
)
#: Whether this system can open files relative to a folder's descriptor.
_BY_DESCRIPTOR = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
#: ``O_PATH`` does not need read permission for the parent folders.
_FOLDER = NO_FOLLOW | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY)
#: Number of attempts to open a file that is being created and deleted repeatedly.
_TRIES = 10


class SafeFolder:
    """An open folder; all access to its files goes through its methods.

    Parameters
    ----------
    path : Path
        Path of the folder when it was opened, for messages.
    descriptor : int
        The folder's file descriptor, which `close` closes; -1 if the system has none.

    Attributes
    ----------
    path : Path
    owner : int
        User id of the folder's owner; -1 if the system has no user ids.
    rights : FileRights or None
        What other users may do at most with files and folders that are written in here; None for the usual.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._relative = {"dir_fd": descriptor} if _BY_DESCRIPTOR else {}
        self.owner = os.fstat(descriptor).st_uid if _BY_DESCRIPTOR else -1
        self.rights: FileRights | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, create: bool = False, mode: int = 0o755) -> SafeFolder:
        """Open a folder whose path is already resolved; no link in the path is followed.

        Parameters
        ----------
        path : path
        create : bool
            Create the folders of the path that do not exist.
        mode : int
            Permissions of created folders.

        Raises
        ------
        UnsafePath
            If the path contains a link.
        OSError
            If the folder does not exist or cannot be opened.
        """
        whole = Path(os.path.abspath(path))  # `Path.resolve` would follow links
        folder = cls(Path(whole.anchor), os.open(whole.anchor, _FOLDER) if _BY_DESCRIPTOR else -1)
        for name in whole.parts[1:]:
            with folder:
                folder = folder.subfolder(name, create=create, mode=mode)
        return folder

    @classmethod
    def named(cls, path: str | os.PathLike[str]) -> SafeFolder:
        """Open a folder by a path that a user typed: links in the path are resolved once."""
        return cls.open(os.path.realpath(path))

    def close(self) -> None:
        """Close the folder; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the folder --------------------------------------------------------------------------------

    @property
    def is_own(self) -> bool:
        """True if the folder belongs to this user, or if the system has no user ids."""
        return self.owner in (user_id(), -1)

    def require_own(self) -> None:
        """Raise `UnsafePath` if the folder belongs to another user."""
        if not self.is_own:
            raise unsafe(self.path, "belongs to another user")

    def make_private(self) -> None:
        """Remove all permissions of other users; raise `UnsafePath` if the folder is another user's."""
        self.require_own()
        if not self._is_open_to(0o077):
            return
        with suppress(OSError):  # for file systems without permissions; the next check decides
            os.chmod(".", 0o700, dir_fd=self._descriptor)
        if self._is_open_to(0o022):
            raise unsafe(self.path, "can be written by other users")

    def narrow(self) -> None:
        """Remove the permissions of other users that `rights` does not allow for this folder."""
        if self.rights is not None and self._descriptor >= 0:
            self.rights.narrow(os.fstat(self._descriptor), ".", self._descriptor)

    def subfolder(self, name: str, *, create: bool = False, mode: int = 0o755) -> SafeFolder:
        """Open a subfolder, with the same `rights`; raise `UnsafePath` if the name is a link.

        Parameters
        ----------
        name : str
        create : bool
            Create the folder if it does not exist.
        mode : int
            Permissions of a created folder.
        """
        self._check_name(name)
        with self._with_path(name):
            try:
                return self._enter(name)
            except FileNotFoundError:
                if not create:
                    raise
            with suppress(FileExistsError):  # another process was faster
                os.mkdir(self._path(name), self._allowed(mode), **self._relative)
            folder = self._enter(name)
            folder.narrow()
            return folder

    def subfolder_to_write(self, name: str) -> SafeFolder:
        """Open or create a subfolder that belongs to this user or to this folder's owner."""
        folder = self.subfolder(name, create=True)
        if folder.is_own or folder.owner == self.owner:
            return folder
        folder.close()
        raise unsafe(folder.path, "belongs to another user")

    def names(self) -> list[str]:
        """Return the names in this folder, sorted."""
        if not _BY_DESCRIPTOR:
            return sorted(os.listdir(self.path))
        # A new descriptor, because one with O_PATH cannot be listed.
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY, **self._relative)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    # -- files -------------------------------------------------------------------------------------

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of a name, without following links; None if the name does not exist."""
        self._check_name(name)
        try:
            return self._status(name)
        except FileNotFoundError:
            return None

    def open_to_read(self, name: str) -> int:
        """Open a regular file for reading, whoever owns it.

        Returns
        -------
        int
            A descriptor, which the caller must close.
        """
        self._check_name(name)
        return self._open(name, os.O_RDONLY, writing=False)

    def open_to_write(
        self, name: str, *, append: bool = False, create: bool = True, mode: int = 0o644
    ) -> int:
        """Open a regular file for reading and writing without truncating it, or create it.

        Parameters
        ----------
        name : str
        append : bool
            Each write goes to the end of the file.
        create : bool
            Create the file if it does not exist.
        mode : int
            Permissions of a created file.

        Returns
        -------
        int
            A descriptor, which the caller must close.
        """
        self._check_name(name)
        flags = os.O_RDWR | (os.O_APPEND if append else 0)
        for _ in range(_TRIES):
            try:
                return self._narrowed(self._open(name, flags, writing=True))
            except FileNotFoundError:
                if not create:
                    raise
            with suppress(FileExistsError):  # another process was faster: try to open its file
                return self._narrowed(self._create(name, flags, mode))
        raise unsafe(self.path / name, "is created and deleted again and again")

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a regular file of any user; OSError if it has more than ``most`` bytes."""
        descriptor = self.open_to_read(name)
        try:
            return read_at_most(descriptor, most, self.path / name)
        finally:
            os.close(descriptor)

    def append(self, name: str, data: bytes, *, create: bool = True) -> None:
        """Append to a file in a single write, so that lines of several writers do not mix."""
        descriptor = self.open_to_write(name, append=True, create=create)
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)

    def replace(self, name: str, data: bytes | Iterable[bytes], mode: int = 0o644) -> int:
        """Replace a file atomically: readers get either the old content or the new.

        Parameters
        ----------
        name : str
            Name of the file; an existing file keeps its permissions.
        data : bytes, or iterable of bytes
            The content, or its parts, which are written one by one.
        mode : int
            Permissions of a new file.

        Returns
        -------
        int
            Number of bytes written.
        """
        parts: Iterable[bytes] = [data] if isinstance(data, bytes) else data
        size = 0
        self._check_name(name)
        old = self.status(name)
        if old is not None and not stat.S_ISDIR(old.st_mode):  # the system refuses to replace a folder
            self._check_file(name, old, writing=False)
            self._check_owner(name, old)
        temporary = f".{name[:64]}.{os.urandom(8).hex()}"
        descriptor = self._create(temporary, os.O_WRONLY, mode)
        try:
            try:
                if old is not None and hasattr(os, "fchmod"):
                    os.fchmod(descriptor, old.st_mode & 0o777)
                self._narrowed(descriptor)
                for part in parts:
                    write_all(descriptor, part)
                    size += len(part)
            finally:
                os.close(descriptor)
            with self._with_path(name):
                os.replace(self._path(temporary), self._path(name), **self._folder_descriptors())
        except BaseException:
            with suppress(OSError):
                os.unlink(self._path(temporary), **self._relative)
            raise
        return size

    # -- deleting ----------------------------------------------------------------------------------

    @property
    def is_marked(self) -> bool:
        """True if rlpanel created this folder, so that rlpanel may delete files in it."""
        try:
            return self.read(MARKER, len(_MARKER_TEXT)) == _MARKER_TEXT and self.is_own
        except OSError:
            return False

    def mark(self) -> None:
        """Mark this folder as created by rlpanel."""
        self.replace(MARKER, _MARKER_TEXT)

    def remove(self, name: str) -> None:
        """Delete a file of this folder, which must be marked; of a link, only the link itself is deleted."""
        self._check_name(name)
        if not self.is_marked:
            raise unsafe(self.path, "was not made by rlpanel")
        with self._with_path(name):
            os.unlink(self._path(name), **self._relative)

    def remove_folder(self, name: str) -> None:
        """Delete a marked subfolder with its files. A subfolder without the mark is deleted only if empty."""
        with self.subfolder(name) as folder:
            if folder.is_marked:
                # The marker is deleted last: if the process is killed, the folder can still be deleted later.
                for file in sorted(folder.names(), key=lambda file: file == MARKER):
                    folder.remove(file)
        with self._with_path(name):
            os.rmdir(self._path(name), **self._relative)

    # -- helpers -----------------------------------------------------------------------------------

    def _is_open_to(self, rights: int) -> bool:
        return _BY_DESCRIPTOR and bool(os.fstat(self._descriptor).st_mode & rights)

    def _enter(self, name: str) -> SafeFolder:
        if _BY_DESCRIPTOR:
            folder = SafeFolder(self.path / name, os.open(name, _FOLDER, **self._relative))
            folder.rights = self.rights
            return folder
        self._refuse_link(name)
        if not stat.S_ISDIR(self._status(name).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return SafeFolder(self.path / name, -1)

    def _open(self, name: str, flags: int, *, writing: bool) -> int:
        if not _BY_DESCRIPTOR:
            self._refuse_link(name)
        with self._with_path(name):
            descriptor = os.open(self._path(name), flags | SAFE, **self._relative)
        try:
            status = os.fstat(descriptor)
            self._check_file(name, status, writing=writing)
            if writing:
                self._check_owner(name, status)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _create(self, name: str, flags: int, mode: int) -> int:
        with self._with_path(name):
            flags |= os.O_CREAT | os.O_EXCL | SAFE
            return os.open(self._path(name), flags, self._allowed(mode), **self._relative)

    def _allowed(self, mode: int) -> int:
        return mode if self.rights is None else mode & self.rights.most

    def _narrowed(self, descriptor: int) -> int:
        """Remove the permissions of an open file that `rights` does not allow, and return its descriptor."""
        if self.rights is not None:
            self.rights.narrow(os.fstat(descriptor), descriptor)
        return descriptor

    def _check_file(self, name: str, status: os.stat_result, *, writing: bool) -> None:
        check_regular(self.path / name, status)
        if writing and status.st_nlink > 1:
            raise unsafe(self.path / name, "has a second name (a hard link)")

    def _check_owner(self, name: str, status: os.stat_result) -> None:
        # The folder's owner is accepted too: some disks show one owner for all files, and teams resume runs.
        if self.owner >= 0 and status.st_uid not in (user_id(), self.owner):
            raise unsafe(self.path / name, "belongs to another user")

    def _check_name(self, name: str) -> None:
        if name in ("", ".", "..") or Path(name).name != name:
            raise unsafe(self.path / name, "is not the name of a file")

    def _refuse_link(self, name: str) -> None:
        status = self.status(name)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise unsafe(self.path / name, "is a link")

    def _status(self, name: str) -> os.stat_result:
        return os.stat(self._path(name), follow_symlinks=False, **self._relative)

    def _path(self, name: str) -> str:
        """Return the path to give to system calls for a name in this folder."""
        return name if _BY_DESCRIPTOR else os.path.join(self.path, name)

    def _folder_descriptors(self) -> dict[str, int]:
        return {"src_dir_fd": self._descriptor, "dst_dir_fd": self._descriptor} if _BY_DESCRIPTOR else {}

    @contextmanager
    def _with_path(self, name: str) -> Iterator[None]:
        """Put the whole path and the reason into errors; the system's errors contain only the last name."""
        try:
            yield
        except UnsafePath:
            raise
        except OSError as error:
            if not isinstance(error, FileExistsError):
                self._raise_ifunsafe(name)
            error.filename = os.fspath(self.path / name)
            raise

    def _raise_ifunsafe(self, name: str) -> None:
        """Raise `UnsafePath` if a name could not be opened because it is unsafe."""
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            status = self._status(name)
            if not stat.S_ISDIR(status.st_mode):
                self._check_file(name, status, writing=False)


def replace_file(path: str | os.PathLike[str], data: bytes | Iterable[bytes]) -> int:
    """Replace a file at a path that a user typed, atomically, and return the number of bytes.

    Raises `UnsafePath` if the path is a link.
    """
    folder, name = os.path.split(os.path.abspath(path))
    with SafeFolder.named(folder) as opened:
        return opened.replace(name, data, mode=0o666)
