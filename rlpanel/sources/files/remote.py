"""Another machine's files by fsspec: listed on a clock, read by range, left alone while it does not answer.

Credentials and endpoints are what fsspec and its file systems find in the environment; none pass through
here. fsspec is imported when the first URL is met.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rlpanel.errors import RemoteError
from rlpanel.settings import Reading
from rlpanel.sources.files.remote_stat import RemoteEntry, status_of

#: Longest rest after requests that failed one after another, in seconds.
LONGEST_REST = 300.0
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


@dataclass
class _Listing:
    """A folder at the last look; ``missing`` is raised where it is none."""

    due: float
    entries: dict[str, RemoteEntry] = field(default_factory=dict)
    missing: OSError | None = None


class RetryPause:
    """After a request that failed none is made for a while, twice as long after each failure.

    Attributes
    ----------
    why : str
        What went wrong; empty if the last request was answered.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._failures = 0
        self._until = 0.0
        self.why = ""

    def check(self) -> None:
        """Raise what went wrong last, while the rest lasts."""
        left = self._until - time.monotonic()
        if left > 0:
            raise RemoteError(f"{self.why}; it is asked again in {left:.0f} s")

    def begin(self, why: str) -> None:
        """A request failed."""
        seconds = min(self._seconds * 2 ** min(self._failures, 30), LONGEST_REST)
        self._until, self.why = time.monotonic() + seconds, why
        self._failures += 1

    def end(self) -> None:
        """A request was answered."""
        self._failures, self._until, self.why = 0, 0.0, ""


class RemoteStore:
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
        self.name = _place(url)
        self.interval = interval
        self._fs = _file_system(url)
        self._folders: dict[str, _Listing] = {}
        self._rest = RetryPause(interval)

    @property
    def trouble(self) -> str:
        """Why it does not answer just now; empty while it does."""
        return self._rest.why

    def scan(self, folder: str) -> list[RemoteEntry]:
        """What lies in a folder.

        Raises
        ------
        FileNotFoundError, NotADirectoryError
            If nothing does, or it is a file.
        RemoteError
            If that cannot be said just now, or there is no such bucket.
        """
        folder = folder.rstrip("/")
        known = self._folders.get(folder)
        if known is None or time.monotonic() >= known.due:
            known = self._folders[folder] = self._list(folder)
        if known.missing is not None:
            raise type(known.missing)(*known.missing.args)
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
        status = status_of(self._ask(url, lambda: self._fs.info(path)), self.known(url))
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
        except RemoteError as error:
            if self.trouble:
                raise
            return _Listing(time.monotonic() + self.interval, missing=error)  # no right to look into it
        listing = _Listing(time.monotonic() + self.interval)
        for info in found:
            name = info["name"].rstrip("/").rpartition("/")[2]
            if info["name"] == path and info.get("type") == "file":
                return _Listing(listing.due, missing=_missing(folder, NotADirectoryError()))
            if not name or info["name"].rstrip("/") == path.rstrip("/"):
                continue  # a folder's own marker
            url = f"{folder}/{name}"
            known = before.entries.get(name) if before is not None else None
            listing.entries[name] = RemoteEntry(name, url, status_of(info, known.status if known else None))
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


_stores: dict[str, RemoteStore] = {}
_lock = threading.Lock()


def store_of(url: str) -> RemoteStore:
    """The bucket or host that a URL names.

    Raises
    ------
    RemoteError
        If its kind of URL cannot be read here, or it holds a password.
    """
    refuse_password(url)
    place = _place(url)
    with _lock:
        if place not in _stores:
            _stores[place] = RemoteStore(url, Reading.from_environment().remote_interval)
        return _stores[place]


def refuse_password(url: str) -> None:
    """RemoteError where a URL holds a password: it would be shown on the board and written to logs."""
    scheme, _, host = _place(url).partition("://")
    if ":" in host.rpartition("@")[0]:
        raise RemoteError(
            f"this {scheme}:// address holds a password, which the board and its log would show; leave it "
            f"out and set FSSPEC_{scheme.upper()}_PASSWORD"
        )


def _place(url: str) -> str:
    """The bucket or host of a URL, with its scheme."""
    return "/".join(url.split("/", 3)[:3])


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


def _missing(folder: str, error: OSError) -> OSError:
    """Why it is no folder, in words."""
    if isinstance(error, NotADirectoryError):
        return NotADirectoryError(errno.ENOTDIR, "it is a file; give the folder that holds it", folder)
    if "bucket" in str(error).lower().replace(folder.split("/", 2)[2].lower(), ""):
        bucket = folder.split("/")[2]
        return RemoteError(
            f"{folder}: there is no bucket {bucket!r}; check its name, and AWS_ENDPOINT_URL where it is not "
            "Amazon's"
        )
    return FileNotFoundError(errno.ENOENT, "nothing is there yet", folder)


def _trouble(url: str, error: Exception) -> RemoteError:
    """What went wrong, and what to do."""
    scheme = url.partition("://")[0]
    place = _place(url)
    if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
        rights = _RIGHTS.get(scheme, f"credentials are those of fsspec (FSSPEC_{scheme.upper()}_...)")
        return RemoteError(f"{place} lets nobody read that without the right to: {_words(error)}; {rights}")
    return RemoteError(f"{place} does not answer as it should: {_words(error)}")


def _words(error: Exception) -> str:
    """The first line of what an error says."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0][:200].rstrip(".")
