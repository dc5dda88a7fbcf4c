"""Requests to storage on another machine through fsspec, its entries, and bytes fetched ahead."""

from __future__ import annotations

import asyncio
import os
import stat as modes
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import xxhash

from rlpanel.errors import RemoteError, install_command

# -- storage requests ----------------------------------------------------------------------------------
# Requests to storage on another machine through fsspec: listings, and byte ranges of many files at once.
#
# fsspec and its file systems take credentials and endpoints from the environment; rlpanel never handles them.
# fsspec is imported when the first URL is used. `s3_requests` has the same requests for S3, cheaper.


#: Requests that are made at the same time.
AT_ONCE = 64

#: Description of a file or folder, with ``name``, ``type`` and ``size``.
Info = Mapping[str, Any]


class Span(NamedTuple):
    """A range of bytes of a file; ``end`` is not included."""

    url: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a file from ``start`` on; ``info`` describes their version of the file, if it is known."""

    start: int
    data: bytes
    info: Info | None = None


class Requests(Protocol):
    """Requests to one bucket or host. Each may raise what its library raises.

    Attributes
    ----------
    is_batched : bool
        Whether many ranges take less time at once than one after the other.
    """

    is_batched: bool

    def path(self, url: str) -> str:
        """Return the path as the storage names it."""

    def list(self, url: str) -> Sequence[Info]:
        """Return the entries of a folder."""

    def find(self, url: str, most: int) -> Sequence[Info] | None:
        """Return all files below a folder; None if there are more than ``most`` or it cannot be done."""

    def info(self, url: str) -> Info:
        """Return the description of a file."""

    def read(self, span: Span) -> Piece:
        """Return a range of bytes, fewer at the end of the file."""

    def read_many(self, spans: Sequence[Span]) -> Sequence[Piece | BaseException]:
        """Return ranges of many files, or why each cannot be read."""


class FsspecRequests:
    """Requests through fsspec's file system of a URL."""

    def __init__(self, url: str) -> None:
        self._fs = _file_system(url)
        self.is_batched = bool(getattr(self._fs, "async_impl", False))

    def path(self, url: str) -> str:
        """Return the path as the file system names it."""
        return str(self._fs._strip_protocol(url))

    def list(self, url: str) -> Sequence[Info]:
        """Return the entries of a folder."""
        path = self.path(url)
        self._fs.invalidate_cache(path)  # some file systems answer from their own cached listing
        found: Sequence[Info] = self._fs.ls(path, detail=True)
        return found

    def find(self, url: str, most: int) -> None:
        """Return None: fsspec has no limit for it."""

    def info(self, url: str) -> Info:
        """Return the description of a file."""
        path = self.path(url)
        self._fs.invalidate_cache(path)
        found: Info = self._fs.info(path)
        return found

    def read(self, span: Span) -> Piece:
        """Return a range of bytes; its version is unknown."""
        data = self._fs.cat_file(self.path(span.url), start=span.start, end=span.end)
        return Piece(span.start, data)

    def read_many(self, spans: Sequence[Span]) -> Sequence[Piece | BaseException]:
        """Return ranges of many files with the version that each file has afterwards."""
        from fsspec.asyn import sync

        paths = [self.path(span.url) for span in spans]
        for path in paths:
            self._fs.invalidate_cache(path)
        found: Sequence[Piece | BaseException] = sync(self._fs.loop, self._gather, paths, spans)
        return found

    async def _gather(self, paths: Sequence[str], spans: Sequence[Span]) -> Sequence[Piece | BaseException]:
        places = asyncio.Semaphore(AT_ONCE)

        async def read(path: str, span: Span) -> Piece:
            async with places:
                data = await self._fs._cat_file(path, start=span.start, end=span.end)
                return Piece(span.start, data, await self._fs._info(path))

        jobs = (read(path, span) for path, span in zip(paths, spans, strict=True))
        return await asyncio.gather(*jobs, return_exceptions=True)


def _file_system(url: str) -> Any:
    scheme = url.partition("://")[0]
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise RemoteError(
            f"{scheme}:// needs fsspec, which is not installed: {install_command('remote')}"
        ) from error
    try:
        return url_to_fs(url)[0]
    except ImportError as error:
        advice = install_command("remote") if scheme == "s3" else "install the package named here as well"
        raise RemoteError(f"{scheme}:// cannot be read yet ({first_line(error)}): {advice}") from error
    except ValueError as error:
        reason = first_line(error)
        raise RemoteError(f"{url}: {reason}; s3://, gs://, hf://, sftp:// and others work") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, at most 200 characters."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0][:200].rstrip(".")


# -- remote entries ------------------------------------------------------------------------------------
# Converts the entries of a remote listing to `os.stat_result` and a part of `os.DirEntry`.


#: Keys that identify the version of a file, as the various file systems call them.
_SIGNATURES = ("ETag", "etag", "md5Hash", "generation", "VersionId", "blob_id", "sha", "checksum")
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")

#: Version of a file: size, modification time and signature.
Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """A file or folder in a remote listing, with the part of `os.DirEntry` that is used."""

    name: str
    path: str
    status: os.stat_result

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if it is a folder."""
        return modes.S_ISDIR(self.status.st_mode)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return True if it is a file."""
        return modes.S_ISREG(self.status.st_mode)

    def is_symlink(self) -> bool:
        """Return False: links on other machines are not followed."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status as of the listing."""
        return self.status


def status_of(info: Mapping[str, Any], before: os.stat_result | None) -> os.stat_result:
    """Convert a listing entry to the form of `os.stat`; ctime is a signature that changes with the file."""
    signature_parts = [str(info[key]) for key in _SIGNATURES if info.get(key) is not None]
    signature_parts = signature_parts or [str(info[key]) for key in _TIMES if info.get(key) is not None]
    signature = xxhash.xxh3_64_intdigest("\n".join(signature_parts).encode()) >> 1
    size = int(info.get("size") or 0)
    # Whole seconds, because a listing gives a more precise time than a request for the file itself.
    modified = _modified(info)
    if modified is None:
        same = before is not None and (before.st_size, before.st_ctime_ns) == (size, signature)
        modified = int(before.st_mtime) if before is not None and same else int(time.time())
    if before is not None and stamp_of(before) == (size, modified * 10**9, signature):
        return before
    mode = modes.S_IFDIR if info.get("type") == "directory" else modes.S_IFREG
    whole = (mode, 0, 0, 1, 0, 0, size, modified, modified, 0)
    exact = {"st_mtime": float(modified), "st_mtime_ns": modified * 10**9, "st_ctime_ns": signature}
    return os.stat_result(whole, exact)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what identifies a version of a file."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _modified(info: Mapping[str, Any]) -> int | None:
    """Return the time of the last change in seconds since the epoch; None if the listing has none."""
    for key in _TIMES:
        modified = info.get(key)
        try:
            if isinstance(modified, str):
                modified = datetime.fromisoformat(modified)
            if isinstance(modified, datetime):
                return int(modified.timestamp())
            if isinstance(modified, (int, float)):
                return int(modified)
        except (ValueError, OverflowError):
            continue
    return None


# -- fetched pieces ------------------------------------------------------------------------------------
# Keeps bytes of remote files that were fetched before they are read, up to a limit.


#: Most bytes of all pieces together; the oldest go first.
MAX_BYTES = 64 << 20
#: Ranges of a file with at most so many bytes between them are requested as one.
GAP = 32 << 10


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the ranges, those of one file that are close to each other as one."""
    by_url: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        if span.end > span.start:
            by_url[span.url].append(span)
    found: list[Span] = []
    for url, mine in by_url.items():
        first, *others = sorted(mine)
        for span in others:
            if span.start > first.end + GAP:
                found.append(first)
                first = span
            else:
                first = Span(url, first.start, max(first.end, span.end))
        found.append(first)
    return found


class FetchedPieces:
    """Ranges of files by URL, each of one version of its file."""

    def __init__(self) -> None:
        self._pieces: OrderedDict[tuple[str, int], tuple[Stamp, bytes]] = OrderedDict()
        self._starts: dict[str, set[int]] = defaultdict(set)
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, url: str, stamp: Stamp, start: int, data: bytes) -> None:
        """Keep a range."""
        with self._lock:
            self._drop(url, start)
            self._pieces[url, start] = stamp, data
            self._starts[url].add(start)
            self._bytes += len(data)
            while self._bytes > MAX_BYTES and len(self._pieces) > 1:
                self._drop(*next(iter(self._pieces)))

    def get(self, url: str, stamp: Stamp, start: int, length: int) -> bytes | None:
        """Return bytes of this version of a file; None if no piece has all of them."""
        with self._lock:
            for first in self._starts.get(url, ()):
                its_stamp, data = self._pieces[url, first]
                if its_stamp == stamp and first <= start and start + length <= first + len(data):
                    return data[start - first : start - first + length]
        return None

    def clear(self) -> None:
        """Drop all."""
        with self._lock:
            self._pieces.clear()
            self._starts.clear()
            self._bytes = 0

    def _drop(self, url: str, start: int) -> None:
        found = self._pieces.pop((url, start), None)
        if found is not None:
            self._bytes -= len(found[1])
            self._starts[url].discard(start)
            if not self._starts[url]:
                del self._starts[url]
