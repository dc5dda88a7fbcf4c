"""Lists, stats and reads files with one interface for local paths and URLs.

A path with a scheme (``s3://bucket/runs``) is handled by `remote`. All other paths go directly to the
operating system. A file or folder that exists but is not read is described, with the reason.

Small files, such as settings and notes, are read whole. Only a regular file is read, no link in its path is
followed, and opening it does not wait. A file beyond the limit is not read at all, because a part of it could
mean something else.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Protocol, Self, cast

from rlpanel.regular_files import open_regular, read_at_most, read_end, too_large, user_id
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.remote import get_store
from rlpanel.sources.files.remote_file import AHEAD, RemoteFile, RemoteStream, read_at
from rlpanel.sources.files.storage_requests import Span

#: Error codes for too many open files in this process or on the machine.
_TOO_MANY_OPEN = {errno.EMFILE, errno.ENFILE}


@dataclass(frozen=True)
class Unread:
    """A file or folder that is not read, and the reason.

    Attributes
    ----------
    file : str
        Name below the run or the root; a folder's name ends with a slash.
    reason : str
    consequence : str
        What happens when the reason is resolved, or what is kept until then; may be empty.
    """

    file: str
    reason: str
    consequence: str = "it will be read once this is resolved"

    def __str__(self) -> str:
        return "; ".join(filter(None, [f"{self.file}: {self.reason}", self.consequence]))

    def covers(self, name: str) -> bool:
        """Return True if this is the file of that name, or a folder that contains it."""
        return name == self.file or (self.file.endswith("/") and name.startswith(self.file))


def reason_of(error: OSError) -> str:
    """Return an error's message without its number."""
    return error.strerror or str(error)


def too_many_open(error: OSError) -> bool:
    """Return True if too many files are open. Such an error says nothing about the file itself."""
    return error.errno in _TOO_MANY_OPEN


_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")
_LOCAL = "file://"
#: Bytes requested at once from a remote file that is read from its beginning.
STREAM = 256 << 10


class Entry(Protocol):
    """Entry of a listing: the part of `os.DirEntry` that is used."""

    @property
    def name(self) -> str:
        """Name without its folder."""

    @property
    def path(self) -> str:
        """Path including the folder."""

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if it is a folder."""

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if it is a file."""

    def is_symlink(self) -> bool:
        """Return True if it is a link."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return size, times and the fields that identify this version of the file."""


class Readable(Protocol):
    """A file whose status and byte ranges can be read inside ``with``."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    def stat(self) -> os.stat_result:
        """Return size, times and the fields that identify this version of the file."""

    def read(self, length: int, offset: int) -> bytes:
        """Return the bytes at an offset, fewer at the end of the file."""


class LocalFile:
    """A regular local file that is opened by each ``with`` block.

    A link at the end of its path is not followed: the caller has resolved links and passes the real path.
    """

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> Self:
        self._descriptor = open_regular(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def stat(self) -> os.stat_result:
        """Return the status of the open file, even if its path leads to another file by now."""
        return os.fstat(self._descriptor)

    def read(self, length: int, offset: int) -> bytes:
        """Return the bytes at an offset, fewer at the end of the file."""
        return os.pread(self._descriptor, length, offset)


class RemotePath(PurePosixPath):
    """A URL with the part of `pathlib.Path` that is used for run folders and their files."""

    __slots__ = ()

    def __str__(self) -> str:
        scheme, colon, rest = super().__str__().partition(":/")
        return f"{scheme}://{rest}" if colon else scheme

    def resolve(self) -> RemotePath:
        """Return the path without ``.`` and ``..``."""
        return RemotePath(os.path.normpath(super().__str__()))

    def is_dir(self) -> bool:
        """Return True if it is a folder; RemoteError if the other machine does not answer."""
        try:
            scan(str(self))
            return True
        except (FileNotFoundError, NotADirectoryError):
            return False

    def stat(self) -> os.stat_result:
        """Return the status as of the last listing of its folder."""
        return stat(str(self))

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Yield the entries of this folder whose name matches."""
        try:
            entries = scan(str(self))
        except FileNotFoundError:
            return
        yield from (RemotePath(entry.path) for entry in entries if fnmatchcase(entry.name, pattern))


AnyPath = Path | RemotePath


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Return True if a path is on another machine."""
    text = path if isinstance(path, str) else os.fspath(path)
    return "://" in text and _SCHEME.match(text) is not None  # the first test is fast and usually False


def path_of(path: str | os.PathLike[str]) -> AnyPath:
    """Return a path object for a local path or a URL."""
    text = os.fspath(path)
    if text.startswith(_LOCAL):
        return Path(text.removeprefix(_LOCAL))
    return RemotePath(text) if is_remote(text) else Path(text)


def follow_file(path: str, ahead: int = AHEAD) -> Readable:
    """Return a file to be followed, without opening it; a remote one requests ``ahead`` bytes at once."""
    return RemoteFile(path, ahead) if is_remote(path) else LocalFile(path)


def scan(folder: str) -> list[Entry]:
    """Return the entries of a folder; OSError if it cannot be listed."""
    if is_remote(folder):
        return list(get_store(folder).scan(folder))
    return cast("list[Entry]", list(os.scandir(folder)))


def stat(path: str) -> os.stat_result:
    """Return a file's status; OSError if it does not exist."""
    return get_store(path).stat(path) if is_remote(path) else os.stat(path)


def stream(path: str, ahead: int = STREAM) -> io.BufferedReader:
    """Open a file for reading in order; a remote one requests ``ahead`` bytes at a time."""
    if is_remote(path):
        return io.BufferedReader(RemoteStream(path, ahead), ahead)
    return open(path, "rb", opener=lambda name, _: open_regular(name))


def fetch_ahead(spans: Sequence[Span]) -> None:
    """Fetch ranges of remote files of one store at the same time, because they are read next.

    What cannot be fetched is requested when it is read.
    """
    if spans:
        get_store(spans[0].url).fetch_ahead(spans)


def drop_fetched(path: str | os.PathLike[str]) -> None:
    """Free what was fetched ahead of a remote folder and was not read."""
    if is_remote(path):
        get_store(os.fspath(path)).drop_fetched()


def listing_version(folder: str | os.PathLike[str]) -> int:
    """Return a number that rises when a remote folder or one below it changes; OSError as `scan`."""
    return get_store(os.fspath(folder)).refresh(os.fspath(folder))


def list_anew(folder: str | os.PathLike[str]) -> None:
    """Let the next look at a remote folder ask for a new listing; a local one needs none."""
    if is_remote(folder):
        get_store(os.fspath(folder)).expire(os.fspath(folder))


def connection_error(path: str | os.PathLike[str]) -> str:
    """Return why the machine that holds a path does not answer; empty if it does or the path is local."""
    return get_store(os.fspath(path)).connection_error if is_remote(path) else ""


def listing_error(folder: str | os.PathLike[str]) -> str:
    """Return why a folder cannot be listed; empty if it can."""
    try:
        if is_remote(folder):
            scan(os.fspath(folder))
        else:
            with os.scandir(folder) as entries:
                next(entries, None)
    except OSError as error:
        return reason_of(error)
    return connection_error(folder)


def read(path: str, length: int, offset: int) -> bytes:
    """Return the bytes at an offset, fewer at the end of the file."""
    if is_remote(path):
        return read_at(path, length, offset)
    with LocalFile(path) as opened:
        return opened.read(length, offset)


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
