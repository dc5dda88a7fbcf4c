"""An index that one machine publishes and others start from, on a shelf: a folder or a bucket."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import socket
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import xxhash

from rlpanel.errors import SettingError
from rlpanel.number_text import size_text
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.file_access import is_remote, reason_of
from rlpanel.sources.files.s3_requests import S3Requests, Unsuitable
from rlpanel.sources.files.storage_requests import Span

# -- shelf ---------------------------------------------------------------------------------------------
# A folder or a prefix of a bucket in which machines leave files for each other, replaced only as expected.
#
# ``expected`` of `Shelf.put` is the version that the caller has read, so that two writers never overwrite
# each other unseen: S3 checks it as a condition of the request, a folder under a file that is created
# exclusively.


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


# -- shared index --------------------------------------------------------------------------------------
# An index that one machine publishes and others start from, in a folder or in a bucket.
#
# ::
#
#     PLACE/RUN/lease.json        who publishes, and until when nobody else does
#     PLACE/RUN/index-HASH.zip    manifest and columns of one saved index
#     PLACE/RUN/latest.json       which of them is the newest; it is replaced last, and only by its owner
#
# A reader copies the newest one into its own cache if it has none, checks its hash, and reads on where it
# ends: what was written since comes from the logs, so that an old index costs time and no rows.


log = logging.getLogger(__name__)

LATEST, LEASE = "latest.json", "lease.json"
#: Seconds for which a lease holds.
LEASE_SECONDS = 300.0
#: Age of an index in seconds from which on it is called old.
OLD = 3600.0
_MEMBER = re.compile(r"(manifest|data-[0-9a-f]{32}/\d+)")


@dataclass(frozen=True)
class Published:
    """The newest index of a run.

    Attributes
    ----------
    object : str
        Name of its file.
    hash : str
        Hash of the file.
    bytes, rows : int
    code : str
        Fingerprint of the code that made it.
    owner : str
        Machine and process that published it.
    time : float
        Seconds since the epoch.
    """

    object: str
    hash: str
    bytes: int
    rows: int
    code: str
    owner: str
    time: float

    @property
    def age(self) -> float:
        """Seconds since it was published."""
        return max(0.0, time.time() - self.time)

    def sentence(self) -> str:
        """Return whose it is and how old."""
        old = f", {self.age / 3600:.0f} hours old" if self.age > OLD else ""
        return f"index of {self.rows:,} samples by {self.owner}{old}"


def this_owner() -> str:
    """Return the name of this machine and process."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Lease:
    """The right to publish a run's index, until `release` or `LEASE_SECONDS` after the last `renew`.

    Raises
    ------
    SettingError
        If another process holds it; the message says which, and until when.
    """

    def __init__(self, shelf: Shelf, owner: str = "") -> None:
        self._shelf, self._owner = shelf, owner or this_owner()
        self._token, self._version = uuid.uuid4().hex, ""
        try:
            data, self._version = shelf.get(LEASE)
            held = json.loads(data)
            holder, left = str(held["owner"]), float(held["until"]) - time.time()
        except FileNotFoundError:
            left = 0.0
        except (ValueError, KeyError, TypeError):
            log.warning("a lease that cannot be read is replaced")
            left = 0.0
        if left > 0:
            ends = f"its lease ends in {left:.0f} s unless it is renewed"
            raise SettingError(f"{holder} publishes this index; {ends}")
        self.renew()

    def renew(self) -> None:
        """Hold the lease for longer; SettingError if another process has taken it."""
        content = {"owner": self._owner, "token": self._token, "until": time.time() + LEASE_SECONDS}
        try:
            self._version = self._shelf.put(LEASE, json.dumps(content).encode(), self._version)
        except FileExistsError as error:
            raise SettingError("another process has taken the lease to publish this index") from error

    def release(self) -> None:
        """Let others publish."""
        content = {"owner": self._owner, "token": self._token, "until": 0.0}
        with suppress(OSError):
            self._version = self._shelf.put(LEASE, json.dumps(content).encode(), self._version)


def newest(shelf: Shelf) -> tuple[Published | None, str]:
    """Return what is published, and the version of `LATEST`; None and empty if nothing is.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is damaged.
    """
    try:
        data, version = shelf.get(LATEST)
    except FileNotFoundError:
        return None, ""
    try:
        return Published(**json.loads(data)), version
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{LATEST} is damaged: {error}") from error


def publish(
    folder: SafeFolder, manifest: bytes, shelf: Shelf, progress: Callable[[str], object]
) -> Published:
    """Publish the index that a cache folder holds, under a lease.

    Parameters
    ----------
    folder : SafeFolder
        A run's cache folder.
    manifest : bytes
        Its manifest.
    shelf : Shelf
    progress : function
        Is called with what is done.

    Raises
    ------
    SettingError
        If another process publishes it, or has published in between.
    OSError
        If the storage does not take it.
    """
    content = json.loads(manifest.partition(b"\n")[2])
    lease = Lease(shelf)
    try:
        before, version = newest(shelf)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("manifest", manifest)
            with folder.subfolder(content["data"]) as columns:
                for number, (_, _, size, _) in enumerate(content["columns"]):
                    # Columns grow at their end only: what the manifest counts does not change.
                    archive.writestr(f"{content['data']}/{number}", columns.read(str(number), 1 << 40)[:size])
        data = packed.getvalue()
        digest = xxhash.xxh3_128_hexdigest(data)
        made = Published(
            f"index-{digest}.zip",
            digest,
            len(data),
            content["rows"],
            content["code"],
            this_owner(),
            time.time(),
        )
        progress(f"{size_text(len(data))} of {made.rows:,} samples")
        shelf.put(made.object, data)
        lease.renew()
        try:
            shelf.put(LATEST, json.dumps(asdict(made)).encode(), version)
        except FileExistsError as error:
            raise SettingError("another process has published this index meanwhile") from error
        if before is not None and before.object != made.object:
            with suppress(OSError):
                shelf.remove(before.object)
        return made
    finally:
        lease.release()


def fetch(shelf: Shelf, code: str) -> tuple[Published, dict[str, bytes]] | None:
    """Return the newest index and its files by name; None, with a warning, if it cannot be used.

    Parameters
    ----------
    shelf : Shelf
    code : str
        Fingerprint that it must have.
    """
    try:
        found, _ = newest(shelf)
        if found is None:
            return None
        if found.code != code:
            log.warning("the shared %s is not used: another version of rlpanel made it", found.sentence())
            return None
        data, _ = shelf.get(found.object)
        if xxhash.xxh3_128_hexdigest(data) != found.hash:
            raise ValueError(f"{found.object} is damaged")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            if not all(_MEMBER.fullmatch(name) for name in names):
                raise ValueError(f"{found.object} holds files that are not of an index")
            return found, {name: archive.read(name) for name in names}
    except FileNotFoundError:  # replaced between two requests
        log.warning("the shared index was replaced while it was read; the logs are read instead")
    except OSError as error:
        log.warning("the shared index cannot be read: %s; the logs are read instead", reason_of(error))
    except (ValueError, zipfile.BadZipFile) as error:
        log.warning("the shared index is not used: %s; the logs are read instead", error)
    return None
