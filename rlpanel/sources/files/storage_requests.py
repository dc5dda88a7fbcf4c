"""Requests to storage on another machine through fsspec: listings, and byte ranges of many files at once.

fsspec and its file systems take credentials and endpoints from the environment; rlpanel never handles them.
fsspec is imported when the first URL is used. `s3_requests` has the same requests for S3, cheaper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from rlpanel.errors import RemoteError
from rlpanel.extra_packages import install_command

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
