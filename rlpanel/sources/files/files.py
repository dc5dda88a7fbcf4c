"""Files of this machine and of others behind one small door: list a folder, stat, read a range.

A path with a scheme (``s3://bucket/runs``) is on another machine and goes to `remote`; every
other one goes to the system, with nothing in between.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Protocol, Self, cast

from rlpanel.sources.files.remote import store_of
from rlpanel.sources.files.remote_file import AHEAD, RemoteFile, RemoteStream, read_at
from rlpanel.sources.files.unread import reason_of

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")
_LOCAL = "file://"
#: Bytes of a file on another machine that are asked for at once where its beginning is looked at.
_STREAM = 256 << 10
#: No link at the end of a path is followed: who lists the folder says where one leads, and that is opened.
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class Entry(Protocol):
    """What a listing tells of a file or folder: what is used of `os.DirEntry`."""

    @property
    def name(self) -> str:
        """Without its folder."""

    @property
    def path(self) -> str:
        """With its folder."""

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a folder."""

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""

    def is_symlink(self) -> bool:
        """Whether it leads elsewhere."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Size, times and what tells it from its successor."""


class Readable(Protocol):
    """A file whose status and ranges are asked for, inside of ``with``."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    def stat(self) -> os.stat_result:
        """Size, times and what tells it from its successor."""

    def read(self, length: int, offset: int) -> bytes:
        """Bytes at an offset, fewer at the file's end."""


class LocalFile:
    """A file of this machine; open inside of ``with``, each time anew."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> Self:
        self._descriptor = os.open(self._path, _FLAGS)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def stat(self) -> os.stat_result:
        """Of the file that is open, whatever its path leads to by now."""
        return os.fstat(self._descriptor)

    def read(self, length: int, offset: int) -> bytes:
        """Bytes at an offset, fewer at the file's end."""
        return os.pread(self._descriptor, length, offset)


class RemotePath(PurePosixPath):
    """A URL with as much of `pathlib.Path` as is asked of a run's folder and of files in it."""

    __slots__ = ()

    def __str__(self) -> str:
        scheme, colon, rest = super().__str__().partition(":/")
        return f"{scheme}://{rest}" if colon else scheme

    def resolve(self) -> RemotePath:
        """Without ``.`` and ``..``."""
        return RemotePath(os.path.normpath(super().__str__()))

    def is_dir(self) -> bool:
        """Whether anything lies in it; RemoteError if that cannot be said."""
        try:
            scan(str(self))
            return True
        except (FileNotFoundError, NotADirectoryError):
            return False

    def stat(self) -> os.stat_result:
        """As of the last look at its folder."""
        return stat(str(self))

    def read_bytes(self) -> bytes:
        """All of it."""
        self.stat()  # what a listing lacks is not asked for
        with stream(str(self)) as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8") -> str:
        """All of it."""
        return self.read_bytes().decode(encoding)

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Names in this folder that fit."""
        try:
            found = scan(str(self))
        except FileNotFoundError:
            return
        yield from (RemotePath(entry.path) for entry in found if fnmatchcase(entry.name, pattern))


AnyPath = Path | RemotePath


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path is on another machine."""
    text = path if isinstance(path, str) else os.fspath(path)
    return "://" in text and _SCHEME.match(text) is not None  # the first is fast, and mostly the answer


def path_of(path: str | os.PathLike[str]) -> AnyPath:
    """A path to ask things of, here or elsewhere."""
    text = os.fspath(path)
    if text.startswith(_LOCAL):
        return Path(text.removeprefix(_LOCAL))
    return RemotePath(text) if is_remote(text) else Path(text)


def file(path: str, ahead: int = AHEAD) -> Readable:
    """A file to be followed, nothing is opened yet; elsewhere ``ahead`` bytes are asked for at once."""
    return RemoteFile(path, ahead) if is_remote(path) else LocalFile(path)


def scan(folder: str) -> list[Entry]:
    """What lies in a folder; OSError if it cannot be listed."""
    if is_remote(folder):
        return list(store_of(folder).scan(folder))
    return cast("list[Entry]", list(os.scandir(folder)))


def stat(path: str) -> os.stat_result:
    """A file's status; OSError if there is none."""
    return store_of(path).stat(path) if is_remote(path) else os.stat(path)


def stream(path: str, ahead: int = _STREAM) -> io.BufferedReader:
    """A file to be read on; ``ahead`` bytes at a time where it is on another machine."""
    if is_remote(path):
        return io.BufferedReader(RemoteStream(path, ahead), ahead)
    return open(path, "rb", opener=lambda name, _: os.open(name, _FLAGS))


def trouble(path: str | os.PathLike[str]) -> str:
    """Why the machine that holds a path does not answer just now; empty if it does, and for this one."""
    return store_of(os.fspath(path)).trouble if is_remote(path) else ""


def unreadable(folder: str | os.PathLike[str]) -> str:
    """Why a folder cannot be listed; empty if it can."""
    try:
        if is_remote(folder):
            scan(os.fspath(folder))
        else:
            with os.scandir(folder) as entries:
                next(entries, None)
    except OSError as error:
        return reason_of(error)
    return trouble(folder)


def read(path: str, length: int, offset: int) -> bytes:
    """Bytes at an offset, fewer at the file's end."""
    if is_remote(path):
        return read_at(path, length, offset)
    with LocalFile(path) as opened:
        return opened.read(length, offset)
