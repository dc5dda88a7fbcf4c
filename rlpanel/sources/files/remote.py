"""Files of a bucket or host: cached listings, byte ranges fetched ahead, and pauses after failed requests.

`s3_requests` and `storage_requests` make the requests. `storage_requests` has the form of what is listed.
"""

from __future__ import annotations

import errno
import os
import stat as modes
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rlpanel.errors import RemoteError
from rlpanel.settings import Reading
from rlpanel.sources.files.s3_requests import ExpiredCredentials, S3Requests, Unsuitable
from rlpanel.sources.files.storage_requests import (
    FetchedPieces,
    FsspecRequests,
    Info,
    Piece,
    RemoteEntry,
    Requests,
    Span,
    first_line,
    merged,
    stamp_of,
    status_of,
)

#: Longest pause after repeated failures, in seconds.
MAX_REST = 300.0
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
    """Cached listing of a folder, valid until ``due``; ``missing`` is raised if it could not be listed.

    ``changed`` is when its content was last seen to change, and ``version`` counts up with each change in
    the store. ``listed`` has what the last answer said of each file, and the status made of it.
    """

    due: float
    entries: dict[str, RemoteEntry] = field(default_factory=dict)
    missing: OSError | None = None
    changed: float = 0.0
    version: int = 0
    listed: dict[str, tuple[Info, os.stat_result]] = field(default_factory=dict)


#: Shortest interval between two listings in seconds, and its share of the time since the last change.
_MIN_INTERVAL, _SHARE_OF_REST = 3.0, 0.05
#: A listing takes at most this share of the time, most of which it waits for answers.
_SHARE = 0.25
#: Entries that a listing lacks and that are asked for one by one; more were deleted.
_MAX_MISSED = 16
#: Folders beside each other from which on they are listed together, and most files of such a listing.
_MANY_FOLDERS, _MAX_TOGETHER = 16, 20_000


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
        seconds = min(self._seconds * 2 ** min(self._failures, 30), MAX_REST)
        self._until, self.reason = time.monotonic() + seconds, reason
        self._failures += 1

    def record_success(self) -> None:
        """Reset the pause after a successful request."""
        self._failures, self._until, self.reason = 0, 0.0, ""


class RemoteStore:
    """Files of one bucket or host.

    A listing is cached. It is renewed after 3 seconds while files change, and later the longer nothing has
    changed, at most after ``interval`` seconds: checking files, however often, costs no further requests.

    Parameters
    ----------
    url : str
        URL of any file or folder in it.
    interval : float
        Most seconds between two listings of a folder.
    """

    def __init__(self, url: str, interval: float) -> None:
        self.name = _base_url(url)
        self.interval = interval
        self._requests = _requests_of(url)
        self._folders: dict[str, _Listing] = {}
        self._together: dict[str, bool] = {}  # folders that are listed with all below, or are too large
        self._pieces = FetchedPieces()
        self._pause = RetryPause(interval)
        self._version = 0

    @property
    def connection_error(self) -> str:
        """Reason why the store does not answer at present; empty if it does."""
        return self._pause.reason

    # -- listings --------------------------------------------------------------------------------

    def scan(self, folder: str) -> list[RemoteEntry]:
        """Return the entries of a folder.

        Raises
        ------
        FileNotFoundError, NotADirectoryError
            If the folder does not exist, or is a file.
        RemoteError
            If there is no answer now, or the bucket does not exist.
        """
        return list(self._listing(folder.rstrip("/")).entries.values())

    def stat(self, url: str) -> os.stat_result:
        """Return the status of a file or folder from the cached listing of its parent folder."""
        folder, _, name = url.rstrip("/").rpartition("/")
        entry = self._listing(folder).entries.get(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", url)
        return entry.status

    def refresh(self, folder: str) -> int:
        """List what is due of a folder and all known ones below; return a number that rises with each change.

        Raises
        ------
        OSError
            As `scan`.
        """
        below = [each for each in list(self._folders) if each == folder or each.startswith(f"{folder}/")]
        return max((self._listing(each, raises=each == folder).version for each in below), default=0)

    def expire(self, folder: str) -> None:
        """Let the next look at a folder, and at all known ones below, ask for a new listing."""
        for each, listing in list(self._folders.items()):
            if each == folder or each.startswith(f"{folder}/"):
                listing.due = 0.0

    def last_status(self, url: str) -> os.stat_result | None:
        """Return a file's status from the last listing, without a request; None if it is not in one."""
        folder, _, name = url.rpartition("/")
        listing = self._folders.get(folder)
        entry = listing.entries.get(name) if listing is not None else None
        return entry.status if entry is not None else None

    def request_status(self, url: str) -> os.stat_result:
        """Request a file's current status."""
        return self._note(url, self._request(url, lambda: self._requests.info(url)))

    # -- bytes -----------------------------------------------------------------------------------

    def read(self, url: str, length: int, offset: int) -> tuple[bytes, os.stat_result | None]:
        """Return bytes of a file, and the status of the version that they belong to if it is known."""
        span = Span(url, offset, offset + length)
        piece = self._request(url, lambda: self._requests.read(span))
        return piece.data, self._note(url, piece.info) if piece.info is not None else None

    def fetched(self, url: str, length: int, offset: int, status: os.stat_result) -> bytes | None:
        """Return bytes that `fetch_ahead` has fetched of this version of a file; None if it has not."""
        return self._pieces.get(url, stamp_of(status), offset, length)

    def fetch_ahead(self, spans: Iterable[Span]) -> None:
        """Fetch ranges of many files at the same time, for the next calls of `fetched`.

        What fails is left to these calls: they make their own requests, and say why.
        """
        if not self._requests.is_batched or self.connection_error:
            return
        wanted = [span for span in merged(spans) if not self._is_fetched(span)]
        if not wanted:
            return

        def work() -> Sequence[Piece | BaseException]:
            found = self._requests.read_many(wanted)
            for each in found:
                if isinstance(each, Unsuitable):
                    raise each
            return found

        try:
            found = self._request(wanted[0].url, work)
        except OSError:
            return
        for span, piece in zip(wanted, found, strict=True):
            if isinstance(piece, Piece) and piece.info is not None:
                status = self._note(span.url, piece.info)
                self._pieces.add(span.url, stamp_of(status), piece.start, piece.data)

    def drop_fetched(self) -> None:
        """Free what was fetched ahead."""
        self._pieces.clear()

    # -- inside ----------------------------------------------------------------------------------

    def _is_fetched(self, span: Span) -> bool:
        status = self.last_status(span.url)
        return status is not None and (
            self.fetched(span.url, span.end - span.start, span.start, status) is not None
        )

    def _note(self, url: str, info: Info) -> os.stat_result:
        """Return the status that a file has by now, and note it in the listing."""
        status = status_of(info, self.last_status(url))
        folder, _, name = url.rpartition("/")
        if folder in self._folders:
            self._folders[folder].entries[name] = RemoteEntry(name, url, status)
        return status

    def _listing(self, folder: str, *, raises: bool = True) -> _Listing:
        """Return a folder's listing, renewed if it is due."""
        listing = self._folders.get(folder)
        if listing is None or time.monotonic() >= listing.due:
            listing = self._list_together(folder) or self._list(folder)
            self._folders[folder] = listing
        if raises and listing.missing is not None:
            raise type(listing.missing)(*listing.missing.args)
        return listing

    def _list(self, folder: str) -> _Listing:
        """List a folder; one that cannot be listed is remembered as such."""
        began, interval = time.monotonic(), self.interval
        try:
            infos = self._request(folder, lambda: self._requests.list(folder))
        except (FileNotFoundError, NotADirectoryError) as error:
            return self._lacking(folder, _missing(folder, error))
        except RemoteError as error:
            if self.connection_error:
                raise
            return _Listing(time.monotonic() + interval, missing=error)  # access denied
        path = self._requests.path(folder)
        if any(info["name"] == path and info.get("type") == "file" for info in infos):
            return self._lacking(folder, _missing(folder, NotADirectoryError()))
        found: dict[str, Info] = {}
        for info in infos:
            name = info["name"].rstrip("/").rpartition("/")[2]
            if name and info["name"].rstrip("/") != path.rstrip("/"):  # not the entry of the folder itself
                found[name] = info
        return self._listed(folder, found, began)

    def _lacking(self, folder: str, missing: OSError) -> _Listing:
        """Return the listing of a folder that is not there."""
        before = self._folders.get(folder)
        listing = _Listing(time.monotonic() + min(self.interval, _MIN_INTERVAL), missing=missing)
        if before is not None and before.missing is None:
            self._version += 1
            listing.version = self._version
        elif before is not None:
            listing.version = before.version
        return listing

    def _listed(self, folder: str, infos: dict[str, Info], began: float) -> _Listing:
        """Return the listing of a folder with these entries; storage may show an older state than we know."""
        before = self._folders.get(folder)
        known = before.entries if before is not None else {}
        entries: dict[str, RemoteEntry] = {}
        listed: dict[str, tuple[Info, os.stat_result]] = {}
        for name, info in infos.items():
            entry, said = known.get(name), before.listed.get(name) if before is not None else None
            if entry is not None and said is not None and entry.status is said[1] and said[0] == info:
                entries[name], listed[name] = entry, said  # most files, each time
                continue
            status = status_of(info, entry.status if entry is not None else None)
            listed[name] = info, status
            if entry is not None and (entry.status is status or entry.status.st_mtime > status.st_mtime):
                entries[name] = entry  # the same, or read since in a newer version than the listing shows
            else:
                entries[name] = RemoteEntry(name, f"{folder}/{name}", status)
        missed = [entry for name, entry in known.items() if name not in entries and entry.is_file()]
        for entry in missed if len(missed) <= _MAX_MISSED else ():
            try:
                self._request(entry.path, lambda url=entry.path: self._requests.info(url))  # type: ignore[misc]
            except OSError:
                continue  # deleted, or nothing can be said: the listing counts
            entries[entry.name] = entry
        now = time.monotonic()
        listing = _Listing(0.0, entries, listed=listed)
        if before is not None and before.missing is None and _same(known, entries):
            listing.changed, listing.version = before.changed, before.version
        else:
            self._version += 1
            listing.changed, listing.version = now, self._version
        rest = max(_MIN_INTERVAL, (now - listing.changed) * _SHARE_OF_REST, (now - began) / _SHARE)
        listing.due = now + min(self.interval, rest)
        return listing

    def _list_together(self, folder: str) -> _Listing | None:
        """List many folders beside each other by one prefix; None if the folder is listed alone."""
        above = next((each for each, is_in in self._together.items() if is_in and _is_in(folder, each)), "")
        if not above:
            above = folder.rpartition("/")[0]
            listing = self._folders.get(above)
            folders = sum(entry.is_dir() for entry in listing.entries.values()) if listing else 0
            if folders < _MANY_FOLDERS or above in self._together:
                return None
        began = time.monotonic()
        infos = self._request(above, lambda: self._requests.find(above, _MAX_TOGETHER))
        self._together[above] = infos is not None
        if infos is None:
            return None
        path = self._requests.path(above)
        contents: dict[str, dict[str, Info]] = {above: {}}
        for info in infos:
            parts = info["name"][len(path) + 1 :].split("/")
            place = above
            for part in parts[:-1]:
                contents[place].setdefault(part, {"name": f"{place}/{part}", "type": "directory"})
                place = f"{place}/{part}"
                contents.setdefault(place, {})
            if parts[-1]:
                contents[place][parts[-1]] = info
        for each in [each for each in self._folders if _is_in(each, above) and each not in contents]:
            self._folders[each] = self._lacking(each, _missing(each, FileNotFoundError()))
        for each, content in contents.items():
            self._folders[each] = self._listed(each, content, began)
        return self._folders.get(folder) or self._lacking(folder, _missing(folder, FileNotFoundError()))

    def _request(self, url: str, request: Callable[[], T]) -> T:
        """Run a request; every failure is raised as an OSError that says what to do."""
        self._pause.check()
        try:
            answer = self._or_fsspec(url, request)
        except (FileNotFoundError, NotADirectoryError):
            self._pause.record_success()
            raise
        except Exception as error:  # file systems raise exceptions of their own
            if isinstance(error, PermissionError) and "expired" in str(error).lower():
                error = ExpiredCredentials(f"the credentials have expired ({first_line(error)})")
            failure = _remote_error(url, error)
            if not isinstance(error, PermissionError) and getattr(error, "errno", 0) != errno.EINVAL:
                self._pause.record_failure(str(failure))
            raise failure from error
        self._pause.record_success()
        return answer

    def _or_fsspec(self, url: str, request: Callable[[], T]) -> T:
        try:
            return request()
        except Unsuitable:
            self._requests = FsspecRequests(url)
            return request()


def _is_in(folder: str, above: str) -> bool:
    return folder == above or folder.startswith(f"{above}/")


def _same(before: dict[str, RemoteEntry], now: dict[str, RemoteEntry]) -> bool:
    """Return True if two listings have the same files in the same versions, and the same folders."""
    if before.keys() != now.keys():
        return False
    return all(
        entry is before[name]
        or stamp_of(entry.status) == stamp_of(before[name].status)
        or modes.S_ISDIR(entry.status.st_mode)
        for name, entry in now.items()
    )


def _requests_of(url: str) -> Requests:
    """Return what makes the requests to the bucket or host of a URL."""
    try:
        if url.startswith("s3://"):
            try:
                return S3Requests(url)
            except Unsuitable:
                pass
        return FsspecRequests(url)
    except RemoteError:
        raise
    except Exception as error:  # the host does not answer or refuses the login
        raise _remote_error(url, error) from error


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
    base = _base_url(url)
    if (store := _stores.get(base)) is not None:
        return store
    refuse_password(url)
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
    if isinstance(error, ExpiredCredentials):
        return RemoteError(f"{base}: {first_line(error)}; renew them, for example by: aws sso login")
    if isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
        rights = _RIGHTS.get(scheme, f"credentials are those of fsspec (FSSPEC_{scheme.upper()}_...)")
        return RemoteError(f"{base} denied access: {first_line(error)}; {rights}")
    return RemoteError(f"a request to {base} failed: {first_line(error)}")
