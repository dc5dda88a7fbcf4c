"""Another machine's files by fsspec: listed on a clock, read by range, left alone while it does not answer.

Credentials and endpoints are what fsspec and its file systems find in the environment; none pass through
here. fsspec is imported when the first URL is met.
"""

from __future__ import annotations

import errno
import os
import stat as modes
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import xxhash

from rlpanel.errors import RemoteError
from rlpanel.settings import Reading

#: Longest rest after requests that failed one after another, in seconds.
LONGEST_REST = 300.0
#: What tells one writing of a file from another, as file systems call it.
_SIGNATURES = ("ETag", "etag", "md5Hash", "generation", "VersionId", "blob_id", "sha", "checksum")
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")
#: Who says no, and where it takes the right to read from.
_RIGHTS = {
    "s3": "credentials are those of the aws command line (AWS_PROFILE, AWS_ACCESS_KEY_ID, ~/.aws); "
    "FSSPEC_S3_ANON=true reads a public bucket",
    "gs": "credentials are Google's own (gcloud auth application-default login)",
    "hf": "credentials are Hugging Face's own (HF_TOKEN, or: hf auth login)",
    "sftp": "user and key are those of your ssh agent; name another user as sftp://USER@HOST/",
}
_EXTRA = "pip install 'rlpanel[remote]'"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """A file or folder in a listing, with as much of `os.DirEntry` as is used."""

    name: str
    path: str
    status: os.stat_result

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a folder."""
        return modes.S_ISDIR(self.status.st_mode)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""
        return modes.S_ISREG(self.status.st_mode)

    def is_symlink(self) -> bool:
        """No: another machine's links are not followed."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As of the listing."""
        return self.status


@dataclass
class _Listing:
    """A folder at the last look; ``missing`` says why it has no entries at all."""

    due: float
    entries: dict[str, RemoteEntry] = field(default_factory=dict)
    missing: str = ""


class Rest:
    """After a request that failed none is made for a while, twice as long after each failure."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._failures = 0
        self._until = 0.0
        self._why = ""

    def check(self) -> None:
        """Raise what went wrong last, while the rest lasts."""
        left = self._until - time.monotonic()
        if left > 0:
            raise RemoteError(f"{self._why}; it is asked again in {left:.0f} s")

    def begin(self, why: str) -> None:
        """A request failed."""
        seconds = min(self._seconds * 2 ** min(self._failures, 30), LONGEST_REST)
        self._until, self._why = time.monotonic() + seconds, why
        self._failures += 1

    def end(self) -> None:
        """A request was answered."""
        self._failures, self._until = 0, 0.0


class Store:
    """One bucket or host.

    What a listing told stands until the next one, ``interval`` seconds later at the earliest: however often
    files are looked at, that costs one request a folder.

    Parameters
    ----------
    url : str
        Of anything in it.
    interval : float
        Seconds.
    """

    def __init__(self, url: str, interval: float) -> None:
        self.name = "/".join(url.split("/", 3)[:3])
        self.interval = interval
        self._fs = _file_system(url)
        self._folders: dict[str, _Listing] = {}
        self._rest = Rest(interval)

    def scan(self, folder: str) -> list[RemoteEntry]:
        """What lies in a folder.

        Raises
        ------
        FileNotFoundError
            If nothing does.
        RemoteError
            If that cannot be said just now.
        """
        folder = folder.rstrip("/")
        known = self._folders.get(folder)
        if known is None or time.monotonic() >= known.due:
            known = self._folders[folder] = self._list(folder)
        if known.missing:
            raise FileNotFoundError(errno.ENOENT, known.missing, folder)
        return list(known.entries.values())

    def stat(self, url: str) -> os.stat_result:
        """A file's or folder's status, as of its folder's listing."""
        folder, _, name = url.rstrip("/").rpartition("/")
        found = next((entry for entry in self.scan(folder) if entry.name == name), None)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", url)
        return found.status

    def known(self, url: str) -> os.stat_result | None:
        """What the last look told of a file, without another; None if there was none."""
        folder, _, name = url.rpartition("/")
        listing = self._folders.get(folder)
        entry = listing.entries.get(name) if listing is not None else None
        return entry.status if entry is not None else None

    def head(self, url: str) -> os.stat_result:
        """A file's status, asked for now."""
        path = self._path(url)
        self._fs.invalidate_cache(path)  # some answer from a listing that they keep
        status = _status(self._ask(url, lambda: self._fs.info(path)), self.known(url))
        folder, _, name = url.rpartition("/")
        if folder in self._folders:
            self._folders[folder].entries[name] = RemoteEntry(name, url, status)
        return status

    def read(self, url: str, length: int, offset: int) -> bytes:
        """Bytes of a file; the range must lie in it."""
        path = self._path(url)
        return self._ask(url, lambda: self._fs.cat_file(path, start=offset, end=offset + length))

    def _list(self, folder: str) -> _Listing:
        path = self._path(folder)
        self._fs.invalidate_cache(path)
        before = self._folders.get(folder)
        try:
            found = self._ask(folder, lambda: self._fs.ls(path, detail=True))
        except (FileNotFoundError, NotADirectoryError) as error:
            return _Listing(time.monotonic() + self.interval, missing=_missing(folder, error))
        listing = _Listing(time.monotonic() + self.interval)
        for info in found:
            name = info["name"].rstrip("/").rpartition("/")[2]
            if not name or info["name"].rstrip("/") == path.rstrip("/"):
                continue  # a folder's own marker
            url = f"{folder}/{name}"
            known = before.entries.get(name) if before is not None else None
            listing.entries[name] = RemoteEntry(name, url, _status(info, known.status if known else None))
        return listing

    def _path(self, url: str) -> str:
        """As the file system itself names it."""
        return str(self._fs._strip_protocol(url))

    def _ask(self, url: str, request: Callable[[], T]) -> T:
        """What a request brings; every failure is an OSError that says what to do."""
        self._rest.check()
        try:
            found = request()
        except (FileNotFoundError, NotADirectoryError):
            self._rest.end()
            raise
        except Exception as error:  # each file system has errors of its own
            trouble = _trouble(url, error)
            if not isinstance(error, PermissionError) and getattr(error, "errno", 0) != errno.EINVAL:
                self._rest.begin(str(trouble))
            raise trouble from error
        self._rest.end()
        return found


_stores: dict[str, Store] = {}
_lock = threading.Lock()


def store_of(url: str) -> Store:
    """The bucket or host that a URL names.

    Raises
    ------
    RemoteError
        If its kind of URL cannot be read here.
    """
    place = "/".join(url.split("/", 3)[:3])
    with _lock:
        if place not in _stores:
            _stores[place] = Store(url, Reading.from_environment().remote_interval)
        return _stores[place]


def forget() -> None:
    """Know of no bucket or host any more; the next look asks anew."""
    with _lock:
        _stores.clear()


def _file_system(url: str) -> Any:
    scheme = url.partition("://")[0]
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise RemoteError(f"{scheme}:// needs fsspec, which is not installed: {_EXTRA}") from error
    try:
        return url_to_fs(url)[0]
    except ImportError as error:
        way = _EXTRA if scheme == "s3" else "install what is named here beside rlpanel[remote]"
        raise RemoteError(f"{scheme}:// cannot be read yet ({_words(error)}): {way}") from error
    except ValueError as error:
        raise RemoteError(f"{url}: {_words(error)}; s3://, gs://, hf://, sftp:// and others work") from error
    except Exception as error:  # a host that does not answer, a login that it refuses
        raise _trouble(url, error) from error


def _status(info: Mapping[str, Any], before: os.stat_result | None) -> os.stat_result:
    """As `os.stat` has it: ctime changes whenever the file is another one, whatever its size and time."""
    told = [str(info[key]) for key in _SIGNATURES if info.get(key) is not None]
    signature = xxhash.xxh3_64_intdigest("\n".join(told).encode()) >> 1
    size = int(info.get("size") or 0)
    # Whole seconds: a listing tells the time more exactly than a look at the file itself.
    modified = _modified(info)
    if modified is None:
        same = before is not None and (before.st_size, before.st_ctime_ns) == (size, signature)
        modified = int(before.st_mtime) if before is not None and same else int(time.time())
    mode = modes.S_IFDIR if info.get("type") == "directory" else modes.S_IFREG
    whole = (mode, 0, 0, 1, 0, 0, size, modified, modified, 0)
    exact = {"st_mtime": float(modified), "st_mtime_ns": modified * 10**9, "st_ctime_ns": signature}
    return os.stat_result(whole, exact)


def _modified(info: Mapping[str, Any]) -> int | None:
    """When it was last written, seconds since the epoch; None where nothing tells."""
    for key in _TIMES:
        told = info.get(key)
        try:
            if isinstance(told, str):
                told = datetime.fromisoformat(told)
            if isinstance(told, datetime):
                return int(told.timestamp())
            if isinstance(told, (int, float)):
                return int(told)
        except (ValueError, OverflowError):
            continue
    return None


def _missing(folder: str, error: OSError) -> str:
    """Why there is nothing, in words."""
    if "bucket" in str(error).lower().replace(folder.lower(), ""):
        bucket = folder.split("/")[2]
        return f"there is no bucket {bucket!r}; check its name, and AWS_ENDPOINT_URL where it is not Amazon's"
    return "nothing is there yet"


def _trouble(url: str, error: Exception) -> RemoteError:
    """What went wrong, and what to do."""
    scheme = url.partition("://")[0]
    place = "/".join(url.split("/", 3)[:3])
    if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
        rights = _RIGHTS.get(scheme, f"credentials are those of fsspec (FSSPEC_{scheme.upper()}_...)")
        return RemoteError(f"{place} lets nobody read that without the right to: {_words(error)}; {rights}")
    return RemoteError(f"{place} does not answer as it should: {_words(error)}")


def _words(error: Exception) -> str:
    """The first line of what an error says."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0][:200].rstrip(".")
