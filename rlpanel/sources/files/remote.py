"""Reads remote files through fsspec: cached listings, range requests, and pauses after failed requests.

fsspec and its file systems take credentials and endpoints from the environment; rlpanel never handles them.
fsspec is imported when the first URL is used.

Converts the entries of a remote listing to `os.stat_result` and a part of `os.DirEntry`.
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
from rlpanel.extra_packages import install_command
from rlpanel.settings import Reading

#: Keys that identify the version of a file, as the various file systems call them.
_SIGNATURES = ("ETag", "etag", "md5Hash", "generation", "VersionId", "blob_id", "sha", "checksum")
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")


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
    mode = modes.S_IFDIR if info.get("type") == "directory" else modes.S_IFREG
    whole = (mode, 0, 0, 1, 0, 0, size, modified, modified, 0)
    exact = {"st_mtime": float(modified), "st_mtime_ns": modified * 10**9, "st_ctime_ns": signature}
    return os.stat_result(whole, exact)


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


#: Longest pause after repeated failures, in seconds.
LONGEST_REST = 300.0
#: Source of each service's credentials; shown if access is denied.
_RIGHTS = {
    "s3": "credentials are those of the aws command line (AWS_PROFILE, AWS_ACCESS_KEY_ID, ~/.aws); "
    "FSSPEC_S3_ANON=true reads a public bucket",
    "gs": "credentials are Google's own (gcloud auth application-default login)",
    "hf": "credentials are Hugging Face's own (HF_TOKEN, or: hf auth login)",
    "sftp": "user and key are those of your ssh agent; name another user as sftp://USER@HOST/",
}
T = TypeVar("T")


@dataclass
class _Listing:
    """Cached listing of a folder, valid until ``due``; ``missing`` is raised if it could not be listed."""

    due: float
    entries: dict[str, RemoteEntry] = field(default_factory=dict)
    missing: OSError | None = None


class RetryPause:
    """Pause after a failed request, doubled after each further failure (exponential backoff).

    Attributes
    ----------
    reason : str
        Reason of the last failure; empty if the last request succeeded.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._failures = 0
        self._until = 0.0
        self.reason = ""

    def check(self) -> None:
        """Raise the last failure again while the pause lasts."""
        seconds = self._until - time.monotonic()
        if seconds > 0:
            raise RemoteError(f"{self.reason}; next attempt in {seconds:.0f} s")

    def record_failure(self, reason: str) -> None:
        """Start a pause after a failed request."""
        seconds = min(self._seconds * 2 ** min(self._failures, 30), LONGEST_REST)
        self._until, self.reason = time.monotonic() + seconds, reason
        self._failures += 1

    def record_success(self) -> None:
        """Reset the pause after a successful request."""
        self._failures, self._until, self.reason = 0, 0.0, ""


class RemoteStore:
    """Files of one bucket or host.

    A listing is cached for ``interval`` seconds. Checking files, however often, therefore costs at most one
    request per folder and interval.

    Parameters
    ----------
    url : str
        URL of any file or folder in it.
    interval : float
        Seconds between two listings of a folder.
    """

    def __init__(self, url: str, interval: float) -> None:
        self.name = _base_url(url)
        self.interval = interval
        self._fs = _file_system(url)
        self._folders: dict[str, _Listing] = {}
        self._pause = RetryPause(interval)

    @property
    def connection_error(self) -> str:
        """Reason why the store does not answer at present; empty if it does."""
        return self._pause.reason

    def scan(self, folder: str) -> list[RemoteEntry]:
        """Return the entries of a folder.

        Raises
        ------
        FileNotFoundError, NotADirectoryError
            If the folder does not exist, or is a file.
        RemoteError
            If there is no answer now, or the bucket does not exist.
        """
        folder = folder.rstrip("/")
        listing = self._folders.get(folder)
        if listing is None or time.monotonic() >= listing.due:
            listing = self._folders[folder] = self._list(folder)
        if listing.missing is not None:
            raise type(listing.missing)(*listing.missing.args)
        return list(listing.entries.values())

    def stat(self, url: str) -> os.stat_result:
        """Return the status of a file or folder from the cached listing of its parent folder."""
        folder, _, name = url.rstrip("/").rpartition("/")
        match = next((entry for entry in self.scan(folder) if entry.name == name), None)
        if match is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", url)
        return match.status

    def last_status(self, url: str) -> os.stat_result | None:
        """Return a file's status from the last listing, without a request; None if it is not in one."""
        folder, _, name = url.rpartition("/")
        listing = self._folders.get(folder)
        entry = listing.entries.get(name) if listing is not None else None
        return entry.status if entry is not None else None

    def request_status(self, url: str) -> os.stat_result:
        """Request a file's current status."""
        path = self._path(url)
        self._fs.invalidate_cache(path)  # some file systems answer from their own cached listing
        status = status_of(self._request(url, lambda: self._fs.info(path)), self.last_status(url))
        folder, _, name = url.rpartition("/")
        if folder in self._folders:
            self._folders[folder].entries[name] = RemoteEntry(name, url, status)
        return status

    def read(self, url: str, length: int, offset: int) -> bytes:
        """Return bytes of a file; the range must lie inside the file."""
        path = self._path(url)
        return self._request(url, lambda: self._fs.cat_file(path, start=offset, end=offset + length))

    def _list(self, folder: str) -> _Listing:
        path = self._path(folder)
        self._fs.invalidate_cache(path)
        before = self._folders.get(folder)
        try:
            infos = self._request(folder, lambda: self._fs.ls(path, detail=True))
        except (FileNotFoundError, NotADirectoryError) as error:
            return _Listing(time.monotonic() + self.interval, missing=_missing(folder, error))
        except RemoteError as error:
            if self.connection_error:
                raise
            return _Listing(time.monotonic() + self.interval, missing=error)  # access denied
        listing = _Listing(time.monotonic() + self.interval)
        for info in infos:
            name = info["name"].rstrip("/").rpartition("/")[2]
            if info["name"] == path and info.get("type") == "file":
                return _Listing(listing.due, missing=_missing(folder, NotADirectoryError()))
            if not name or info["name"].rstrip("/") == path.rstrip("/"):
                continue  # the entry of the folder itself
            url = f"{folder}/{name}"
            cached = before.entries.get(name) if before is not None else None
            listing.entries[name] = RemoteEntry(name, url, status_of(info, cached.status if cached else None))
        return listing

    def _path(self, url: str) -> str:
        """Return the path as the file system names it."""
        return str(self._fs._strip_protocol(url))

    def _request(self, url: str, request: Callable[[], T]) -> T:
        """Run a request; every failure is raised as an OSError that says what to do."""
        self._pause.check()
        try:
            answer = request()
        except (FileNotFoundError, NotADirectoryError):
            self._pause.record_success()
            raise
        except Exception as error:  # file systems raise exceptions of their own
            failure = _remote_error(url, error)
            if not isinstance(error, PermissionError) and getattr(error, "errno", 0) != errno.EINVAL:
                self._pause.record_failure(str(failure))
            raise failure from error
        self._pause.record_success()
        return answer


#: By bucket or host. Of the process: readers and adapters get a path only, and connections are worth sharing.
_stores: dict[str, RemoteStore] = {}
_lock = threading.Lock()


def get_store(url: str) -> RemoteStore:
    """Return the bucket or host of a URL, created at the first call.

    Raises
    ------
    RemoteError
        If URLs of this kind cannot be read, or the URL contains a password.
    """
    refuse_password(url)
    base = _base_url(url)
    with _lock:
        if base not in _stores:
            _stores[base] = RemoteStore(url, Reading.from_environment().remote_interval)
        return _stores[base]


def refuse_password(url: str) -> None:
    """Raise RemoteError if a URL contains a password: it would appear on the board and in logs."""
    scheme, _, host = _base_url(url).partition("://")
    if ":" in host.rpartition("@")[0]:
        raise RemoteError(
            f"this {scheme}:// address contains a password, which the board and its log would show; "
            f"remove it and set FSSPEC_{scheme.upper()}_PASSWORD"
        )


def _base_url(url: str) -> str:
    """Return the scheme and the bucket or host of a URL."""
    return "/".join(url.split("/", 3)[:3])


def clear_stores() -> None:
    """Drop all buckets and hosts with their caches."""
    with _lock:
        _stores.clear()


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
        raise RemoteError(f"{scheme}:// cannot be read yet ({_first_line(error)}): {advice}") from error
    except ValueError as error:
        reason = _first_line(error)
        raise RemoteError(f"{url}: {reason}; s3://, gs://, hf://, sftp:// and others work") from error
    except Exception as error:  # the host does not answer or refuses the login
        raise _remote_error(url, error) from error


def _missing(folder: str, error: OSError) -> OSError:
    """Return the error for a folder that cannot be listed: a file, a missing bucket or nothing at all."""
    if isinstance(error, NotADirectoryError):
        return NotADirectoryError(errno.ENOTDIR, "it is a file; give the folder that holds it", folder)
    if "bucket" in str(error).lower().replace(folder.split("/", 2)[2].lower(), ""):
        bucket = folder.split("/")[2]
        return RemoteError(
            f"{folder}: there is no bucket {bucket!r}; check its name, and set AWS_ENDPOINT_URL if it is not "
            "on AWS"
        )
    return FileNotFoundError(errno.ENOENT, "nothing is there yet", folder)


def _remote_error(url: str, error: Exception) -> RemoteError:
    """Convert an error of a file system to a RemoteError that says what to do."""
    scheme = url.partition("://")[0]
    base = _base_url(url)
    if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
        rights = _RIGHTS.get(scheme, f"credentials are those of fsspec (FSSPEC_{scheme.upper()}_...)")
        return RemoteError(f"{base} denied access: {_first_line(error)}; {rights}")
    return RemoteError(f"a request to {base} failed: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    """Return the first line of an error's message, at most 200 characters."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0][:200].rstrip(".")
