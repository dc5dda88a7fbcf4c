"""A folder or a prefix of a bucket in which machines leave files for each other, replaced only as expected.

``expected`` of `Shelf.put` is the version that the caller has read, so that two writers never overwrite each
other unseen: S3 checks it as a condition of the request, a folder under a file that is created exclusively.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import xxhash

from rlpanel.errors import SettingError
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.file_access import is_remote
from rlpanel.sources.files.s3_requests import S3Requests, Unsuitable
from rlpanel.sources.files.storage_requests import Span

#: Most bytes of a file on a shelf.
MAX_BYTES = 8 << 30
#: Seconds after which the lock of a folder counts as left behind by a process that was killed.
_LEFT = 30.0
_LOCK = ".lock"


class Shelf(Protocol):
    """Files by name. Errors are OSErrors."""

    def get(self, name: str) -> tuple[bytes, str]:
        """Return a file and its version; FileNotFoundError if there is none."""

    def put(self, name: str, data: bytes, expected: str | None = None) -> str:
        """Write a file and return its version; FileExistsError if it has not the expected one."""

    def remove(self, name: str) -> None:
        """Remove a file."""


def open_shelf(place: str, run: str) -> Shelf:
    """Return the shelf of a run below a folder or an S3 URL.

    Raises
    ------
    SettingError
        If such storage has no conditional writing that rlpanel knows.
    """
    if not is_remote(place):
        return FolderShelf(Path(place) / run)
    try:
        if place.startswith("s3://"):
            return BucketShelf(f"{place.rstrip('/')}/{run}")
    except Unsuitable as error:
        raise SettingError(f"an index cannot be shared at {place}: {error}") from error
    raise SettingError(f"an index can be shared in a folder or at s3://…, not at {place}")


class BucketShelf:
    """Objects below a prefix of a bucket."""

    def __init__(self, url: str) -> None:
        self._url, self._requests = url, S3Requests(url)

    def get(self, name: str) -> tuple[bytes, str]:
        """Return an object and its ETag."""
        url = f"{self._url}/{name}"
        info = self._requests.info(url)
        piece = self._requests.read(Span(url, 0, int(info["size"])))
        return piece.data, str((piece.info or info)["ETag"])

    def put(self, name: str, data: bytes, expected: str | None = None) -> str:
        """Write an object."""
        return self._requests.put(f"{self._url}/{name}", data, expected)

    def remove(self, name: str) -> None:
        """Remove an object."""
        self._requests.delete(f"{self._url}/{name}")


class FolderShelf:
    """Files of a folder; a version is the hash of the content."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str) -> tuple[bytes, str]:
        """Return a file and its hash."""
        with SafeFolder.open(self._folder.resolve()) as folder:
            data = folder.read(name, MAX_BYTES)
        return data, xxhash.xxh3_128_hexdigest(data)

    def put(self, name: str, data: bytes, expected: str | None = None) -> str:
        """Replace a file; others see the former one or the new one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._locked(), SafeFolder.open(self._folder.resolve()) as folder:
            if set(folder.names()) <= {_LOCK}:
                folder.mark()  # files are removed from marked folders only
            if expected is not None:
                try:
                    version = xxhash.xxh3_128_hexdigest(folder.read(name, MAX_BYTES))
                except FileNotFoundError:
                    version = ""
                if version != expected:
                    raise FileExistsError(self._folder / name)
            folder.replace(name, data)
        return xxhash.xxh3_128_hexdigest(data)

    def remove(self, name: str) -> None:
        """Remove a file."""
        with SafeFolder.open(self._folder.resolve()) as folder:
            folder.remove(name)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold a file that only one process can create; one that is old was left behind."""
        lock = self._folder / _LOCK
        for last in (False, True):
            try:
                os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                break
            except FileExistsError:
                if last or time.time() - lock.lstat().st_mtime < _LEFT:
                    raise
                lock.unlink(missing_ok=True)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
