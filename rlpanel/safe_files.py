"""Writes files on shared disks without following links. Everything that rlpanel writes goes through here.

Another user may plant a link, a hard link or a named pipe where rlpanel is about to write. So a folder is
opened once, as a descriptor and without following links. Files in it are opened by name from that descriptor,
so a folder that is exchanged for a link meanwhile changes nothing.

The rules:

- A path that a person typed is resolved once (`SafeFolder.named`). From there on no link is followed.
- Only regular files are written. They have one name (no hard links) and belong to this user or to the
  folder's owner.
- A new file is made with ``O_EXCL``. A file is replaced through a scratch file with a random name.
- Files are deleted only in folders that carry the marker `MARKER`.

A path that breaks a rule raises `UnsafePath`. Windows has neither descriptors of folders nor numbers of
owners: there paths are used, and links are refused by a look before the use. The standard library suffices,
because training imports this module.
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

#: The name and the text of the file that marks a folder as rlpanel's own; backups leave such folders out.
MARKER = "CACHEDIR.TAG"
_MARKER_TEXT = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# rlpanel made this folder and may delete it. See https://bford.info/cachedir/\n"
)
#: Whether this system opens files from a folder's descriptor.
_BY_DESCRIPTOR = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
#: A named pipe must not hold the opening up.
_SAFE = _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
#: ``O_PATH`` needs no right to list the folders on the way.
_FOLDER = _NO_FOLLOW | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY)
#: How often a file is tried that comes and goes meanwhile.
_TRIES = 10


class SafeFolder:
    """A folder that is open, and the only way to the files in it.

    Parameters
    ----------
    path : Path
        Where the folder was when it was opened; for messages.
    descriptor : int
        Closed with the folder; -1 where the system has none.

    Attributes
    ----------
    path : Path
    owner : int
        The user whom the folder belongs to; -1 where the system has no such numbers.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._at = {"dir_fd": descriptor} if _BY_DESCRIPTOR else {}
        self.owner = os.fstat(descriptor).st_uid if _BY_DESCRIPTOR else -1

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, create: bool = False, mode: int = 0o755) -> SafeFolder:
        """Open a folder whose path was resolved before; no link on the way is followed.

        Parameters
        ----------
        path : path
        create : bool
            Make the folders on the way that do not exist.
        mode : int
            Permissions of those that are made.

        Raises
        ------
        UnsafePath
            If there is a link on the way.
        OSError
            If there is no such folder, or it cannot be opened.
        """
        whole = Path(os.path.abspath(path))  # `Path.resolve` would follow links
        folder = cls(Path(whole.anchor), os.open(whole.anchor, _FOLDER) if _BY_DESCRIPTOR else -1)
        for name in whole.parts[1:]:
            with folder:
                folder = folder.subfolder(name, create=create, mode=mode)
        return folder

    @classmethod
    def named(cls, path: str | os.PathLike[str]) -> SafeFolder:
        """Open a folder that a person named: links in what was typed are followed, once."""
        return cls.open(os.path.realpath(path))

    def close(self) -> None:
        """Let go of the folder; a second call does nothing."""
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
        """True if the folder belongs to this user, or if the system cannot tell."""
        return self.owner in (_user(), -1)

    def require_own(self) -> None:
        """Raise `UnsafePath` if the folder belongs to another user."""
        if not self.is_own:
            raise _unsafe(self.path, "belongs to another user")

    def make_private(self) -> None:
        """Take all rights from other users; `UnsafePath` if the folder is another user's."""
        self.require_own()
        if not self._is_open_to(0o077):
            return
        with suppress(OSError):  # a file system without permissions: the next line tells
            os.chmod(".", 0o700, dir_fd=self._descriptor)
        if self._is_open_to(0o022):
            raise _unsafe(self.path, "can be written by other users")

    def subfolder(self, name: str, *, create: bool = False, mode: int = 0o755) -> SafeFolder:
        """Open a folder in this one; `UnsafePath` if a link has its name.

        Parameters
        ----------
        name : str
        create : bool
            Make the folder if there is none.
        mode : int
            Permissions of a folder that is made.
        """
        self._check_name(name)
        with self._naming(name):
            try:
                return self._enter(name)
            except FileNotFoundError:
                if not create:
                    raise
            with suppress(FileExistsError):  # another process was faster
                os.mkdir(self._path(name), mode, **self._at)
            return self._enter(name)

    def subfolder_to_write(self, name: str) -> SafeFolder:
        """Open or make a folder in this one that belongs to this user or to this folder's owner."""
        folder = self.subfolder(name, create=True)
        if folder.is_own or folder.owner == self.owner:
            return folder
        folder.close()
        raise _unsafe(folder.path, "belongs to another user")

    def names(self) -> list[str]:
        """The names in this folder, in order."""
        if not _BY_DESCRIPTOR:
            return sorted(os.listdir(self.path))
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY, **self._at)  # one of O_PATH cannot be listed
        try:
            return sorted(os.listdir(listed))
        finally:
            os.close(listed)

    # -- files -------------------------------------------------------------------------------------

    def status(self, name: str) -> os.stat_result | None:
        """The status of a name, of a link itself; None if there is no such name."""
        self._check_name(name)
        try:
            return self._status(name)
        except FileNotFoundError:
            return None

    def open_to_read(self, name: str) -> int:
        """Open a regular file, whoever it belongs to.

        Returns
        -------
        int
            A descriptor, which the caller closes.
        """
        self._check_name(name)
        return self._open(name, os.O_RDONLY, writing=False)

    def open_to_write(
        self, name: str, *, append: bool = False, create: bool = True, mode: int = 0o644
    ) -> int:
        """Open a regular file to read and write, with what is in it; or make it.

        Parameters
        ----------
        name : str
        append : bool
            Each write goes to the file's end.
        create : bool
            Make the file if there is none.
        mode : int
            Permissions of a file that is made.

        Returns
        -------
        int
            A descriptor, which the caller closes.
        """
        self._check_name(name)
        flags = os.O_RDWR | (os.O_APPEND if append else 0)
        for _ in range(_TRIES):
            try:
                return self._open(name, flags, writing=True)
            except FileNotFoundError:
                if not create:
                    raise
            with suppress(FileExistsError):  # another process was faster: its file is looked at
                return self._make(name, flags, mode)
        raise _unsafe(self.path / name, "comes and goes")

    def read(self, name: str) -> bytes:
        """The content of a regular file, whoever it belongs to."""
        with os.fdopen(self.open_to_read(name), "rb") as file:
            return file.read()

    def append(self, name: str, data: bytes, *, create: bool = True) -> None:
        """Append to a file in one write, so that no other writer's line is cut in two."""
        descriptor = self.open_to_write(name, append=True, create=create)
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)

    def replace(self, name: str, data: bytes | Iterable[bytes], mode: int = 0o644) -> int:
        """Replace a file in one step: who reads it meanwhile finds the old content or the new.

        Parameters
        ----------
        name : str
            A file that is there keeps its permissions.
        data : bytes, or iterable of bytes
            The content, whole or in parts that are written as they come.
        mode : int
            Permissions of a file that was not there.

        Returns
        -------
        int
            Bytes of the content.
        """
        parts: Iterable[bytes] = [data] if isinstance(data, bytes) else data
        size = 0
        self._check_name(name)
        old = self.status(name)
        if old is not None and not stat.S_ISDIR(old.st_mode):  # the system itself refuses to replace a folder
            self._check_file(name, old, writing=False)
            self._check_owner(name, old)
        scratch = f".{name[:64]}.{os.urandom(8).hex()}"
        descriptor = self._make(scratch, os.O_WRONLY, mode)
        try:
            try:
                if old is not None and hasattr(os, "fchmod"):
                    os.fchmod(descriptor, old.st_mode & 0o777)
                for part in parts:
                    write_all(descriptor, part)
                    size += len(part)
            finally:
                os.close(descriptor)
            with self._naming(name):
                os.replace(self._path(scratch), self._path(name), **self._both())
        except BaseException:
            with suppress(OSError):
                os.unlink(self._path(scratch), **self._at)
            raise
        return size

    # -- what rlpanel may delete -------------------------------------------------------------------

    @property
    def is_marked(self) -> bool:
        """True if rlpanel made this folder, so that it may delete files in it."""
        try:
            return self.read(MARKER) == _MARKER_TEXT and self.is_own
        except OSError:
            return False

    def mark(self) -> None:
        """Mark this folder as made by rlpanel."""
        self.replace(MARKER, _MARKER_TEXT)

    def remove(self, name: str) -> None:
        """Delete a file of this folder, which must be marked; a link goes itself, not what it leads to."""
        self._check_name(name)
        if not self.is_marked:
            raise _unsafe(self.path, "was not made by rlpanel")
        with self._naming(name):
            os.unlink(self._path(name), **self._at)

    def remove_folder(self, name: str) -> None:
        """Delete a marked folder of files. One that is not marked goes only if it is empty."""
        with self.subfolder(name) as folder:
            if folder.is_marked:
                # The marker goes last: what a killed process leaves can still be deleted.
                for file in sorted(folder.names(), key=lambda file: file == MARKER):
                    folder.remove(file)
        with self._naming(name):
            os.rmdir(self._path(name), **self._at)

    # -- inside ------------------------------------------------------------------------------------

    def _is_open_to(self, rights: int) -> bool:
        return _BY_DESCRIPTOR and bool(os.fstat(self._descriptor).st_mode & rights)

    def _enter(self, name: str) -> SafeFolder:
        if _BY_DESCRIPTOR:
            return SafeFolder(self.path / name, os.open(name, _FOLDER, **self._at))
        self._refuse_link(name)
        if not stat.S_ISDIR(self._status(name).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return SafeFolder(self.path / name, -1)

    def _open(self, name: str, flags: int, *, writing: bool) -> int:
        if not _BY_DESCRIPTOR:
            self._refuse_link(name)
        with self._naming(name):
            descriptor = os.open(self._path(name), flags | _SAFE, **self._at)
        try:
            status = os.fstat(descriptor)
            self._check_file(name, status, writing=writing)
            if writing:
                self._check_owner(name, status)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _make(self, name: str, flags: int, mode: int) -> int:
        with self._naming(name):
            return os.open(self._path(name), flags | os.O_CREAT | os.O_EXCL | _SAFE, mode, **self._at)

    def _check_file(self, name: str, status: os.stat_result, *, writing: bool) -> None:
        if stat.S_ISLNK(status.st_mode):
            raise _unsafe(self.path / name, "is a link")
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(f"{self.path / name} is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise _unsafe(self.path / name, "is no regular file")
        if writing and status.st_nlink > 1:
            raise _unsafe(self.path / name, "has another name too (a hard link)")

    def _check_owner(self, name: str, status: os.stat_result) -> None:
        # The folder's owner is right too: a disk may show all files as one user's, and a team resumes runs.
        if self.owner >= 0 and status.st_uid not in (_user(), self.owner):
            raise _unsafe(self.path / name, "belongs to another user")

    def _check_name(self, name: str) -> None:
        if name in ("", ".", "..") or Path(name).name != name:
            raise _unsafe(self.path / name, "is no name of a file")

    def _refuse_link(self, name: str) -> None:
        status = self.status(name)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise _unsafe(self.path / name, "is a link")

    def _status(self, name: str) -> os.stat_result:
        return os.stat(self._path(name), follow_symlinks=False, **self._at)

    def _path(self, name: str) -> str:
        """Return the path that system calls take for a name in this folder."""
        return name if _BY_DESCRIPTOR else os.path.join(self.path, name)

    def _both(self) -> dict[str, int]:
        return {"src_dir_fd": self._descriptor, "dst_dir_fd": self._descriptor} if _BY_DESCRIPTOR else {}

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Put the whole path into an error; the system knows the last name alone, and not why."""
        try:
            yield
        except UnsafePath:
            raise
        except OSError as error:
            if not isinstance(error, FileExistsError):
                self._explain(name)
            error.filename = os.fspath(self.path / name)
            raise

    def _explain(self, name: str) -> None:
        """Raise `UnsafePath` if that is why a name could not be opened."""
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            status = self._status(name)
            if not stat.S_ISDIR(status.st_mode):
                self._check_file(name, status, writing=False)


def replace_file(path: str | os.PathLike[str], data: bytes | Iterable[bytes]) -> int:
    """Replace a file that a person named, in one step; `UnsafePath` if that is a link. Gives its bytes."""
    folder, name = os.path.split(os.path.abspath(path))
    with SafeFolder.named(folder) as opened:
        return opened.replace(name, data, mode=0o666)


def write_all(descriptor: int, data: memoryview | bytes) -> None:
    """Write all bytes: a single write may take only a part, as on a disk that is nearly full."""
    rest = memoryview(data)
    while len(rest):
        rest = rest[os.write(descriptor, rest) :]


def _user() -> int:
    """The number of the user whose rights this process has."""
    return os.geteuid() if hasattr(os, "geteuid") else -1


def _unsafe(path: Path, reason: str) -> UnsafePath:
    return UnsafePath(errno.EPERM, reason, os.fspath(path))
