"""Cache of a run's index on disk: a cached run opens at once and continues where reading stopped.

The cache is disposable: if anything is inconsistent, it is discarded and rebuilt from the logs. A folder
holds append-only raw columns, and a manifest with the valid length of each. The manifest is replaced
atomically after the columns were written, so a process that is killed in between loses only the last save.
One process writes, any number read. Files are opened through `rlpanel.safe_files`, because other users may be
able to place links in the run's folder.

Row states and statistics are not saved, because they are derived from the rows. That no line repeats another
one is saved, because looking for repeats takes longest.

Beside the columns are small files for what is shown before the run is opened. The first line of such a file
is a checksum of the rest: a damaged file counts as missing.
"""

from __future__ import annotations

import errno
import json
import logging
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from rlpanel.errors import SettingError, UnsafePath
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.file_access import AnyPath, reason_of
from rlpanel.store.cache.cache_folder import (
    COLUMN_FOLDER_NAME,
    CacheFolder,
    CacheLock,
    find_cache_folders,
    lock_cache_folder,
    read_saved,
)
from rlpanel.store.cache.fingerprint import column_fingerprints, reading_fingerprint
from rlpanel.store.cache.saved_state import (
    AppendFile,
    FileState,
    SavedRun,
    drop_outdated,
    map_column,
    new_parts,
    read_content,
    restore_column,
    saved_columns,
)
from rlpanel.store.cache.shared_index import OLD, Published, fetch, open_shelf, publish
from rlpanel.store.columns.columns import MAP_BYTES, Columns
from rlpanel.store.columns.page_memory import release_mapped

log = logging.getLogger(__name__)

#: Version of the layout on disk.
FORMAT = 5
#: Seconds between two saves, and before the next attempt after a failed one.
SAVE_EVERY, RETRY_AFTER = 5.0, 60.0
#: Attempts to load, because the writer may replace the files in the meantime.
_READ_TRIES = 3
MANIFEST = "manifest"
#: Most bytes of a manifest; it has up to 3 KB for each file of the run.
MAX_BYTES = 256 << 20


@dataclass(frozen=True)
class _OnDisk:
    """Content of the cache folder as last read or written by this process; ``manifest`` is its raw bytes."""

    folder: Path
    data: str
    manifest: bytes = b""
    files: dict[str, AppendFile] = field(default_factory=dict)


class RunCache:
    """Loads and saves one run's index. Never raises: the program works without a cache.

    Parameters
    ----------
    run : path
        The run's real folder.
    line_bytes : int
        Limit on the line length that the rows were read with.
    shared : str
        Folder or S3 URL of published indexes, from which a run without an index of its own starts.
    """

    def __init__(self, run: AnyPath, line_bytes: int, shared: str = "") -> None:
        self._run, self._shared = run, shared
        self._code = f"{reading_fingerprint()}-{line_bytes}"
        self._lock: CacheLock | None = None
        self._disk: _OnDisk | None = None
        self._columns: tuple[Columns, int] | None = None  # columns that `_disk` holds, and their edition
        self._due = 0.0
        self._avoided: set[Path] = set()  # folders in which writing is not safe

    @property
    def due(self) -> bool:
        """True if enough time has passed since the last save."""
        return time.monotonic() >= self._due

    def load(self) -> SavedRun | None:
        """Return the newest usable saved state; None without one. A published one is copied here first."""
        found = self._load()
        if found is None and self._shared and self._copy_shared():
            found = self._load()
        return found

    def publish(self, progress: Callable[[str], object] = lambda said: None) -> Published:
        """Publish the index that was saved last.

        Raises
        ------
        SettingError
            If there is none, if another process publishes it, or the place cannot be written.
        """
        shelf = open_shelf(self._shared, self._run.name)
        for location in sorted(find_cache_folders(self._run), key=_age):
            with suppress(FileNotFoundError), location.open() as folder:
                manifest = read_saved(folder, MANIFEST, MAX_BYTES)
                try:
                    return publish(folder, manifest, shelf, progress)
                except OSError as error:
                    reason = reason_of(error)
                    raise SettingError(
                        f"the index cannot be published at {self._shared}: {reason}"
                    ) from error
        raise SettingError(f"no index of {self._run.name} was saved: a run with few samples has none")

    def _copy_shared(self) -> bool:
        """Copy the published index into this machine's cache; False if there is none or it cannot be used."""
        try:
            found = fetch(open_shelf(self._shared, self._run.name), self._code)
        except SettingError as error:
            log.warning("%s", error)
            return False
        lock = lock_cache_folder(self._run, self._avoided) if found is not None else None
        if found is None or lock is None:
            return False
        published, files = found
        try:
            names = {name.partition("/")[0] for name in files if "/" in name}
            for data in names:
                with _columns_folder(lock.folder, data, new=True) as folder:
                    for name in files:
                        if name.startswith(f"{data}/"):
                            folder.replace(name.partition("/")[2], files[name])
            lock.folder.replace(MANIFEST, files[MANIFEST])
        except (OSError, KeyError) as error:
            log.warning("the shared index cannot be copied: %s", error)
            return False
        finally:
            lock.release()
        (log.warning if published.age > OLD else log.info)("the shared %s is used", published.sentence())
        return True

    def _load(self) -> SavedRun | None:
        for location in sorted(find_cache_folders(self._run), key=_age):
            for _ in range(_READ_TRIES):
                try:
                    with location.open() as folder:
                        return self._read(folder, read_saved(folder, MANIFEST, MAX_BYTES))
                except FileNotFoundError:
                    continue  # a writer has replaced the column folder, or nothing was saved
                except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                    log.info("the cache in %s is not used: %s", location.path, error)
                    break
        return None

    def save(self, saved: SavedRun) -> bool:
        """Append new rows to the cache; False if that failed or another process holds the lock."""
        self._due = time.monotonic() + SAVE_EVERY
        while self._lock_folder():
            try:
                self._write(saved)
            except UnsafePath as error:
                self._switch_folder(error)
            except OSError as error:
                log.warning("the cache of %s cannot be saved now: %s", self._run, error)
                self._due = time.monotonic() + RETRY_AFTER
                self.close()
                return False
            else:
                return True
        return False

    def close(self) -> None:
        """Release the lock, so that other processes can write."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- writing ---------------------------------------------------------------------------------

    def _switch_folder(self, error: UnsafePath) -> None:
        """Switch to the next folder, because this one holds files that are not safe to write."""
        assert self._lock is not None
        log.warning("the cache of %s is not saved in this folder: %s", self._run, error)
        self._avoided.add(self._lock.folder.path)
        self._disk = None
        self.close()

    def _lock_folder(self) -> bool:
        """Acquire the lock unless this process holds it; False if that is impossible."""
        if self._lock is None:
            self._lock = lock_cache_folder(self._run, self._avoided)
            if self._lock is None:
                return False
            disk = self._disk
            folder = self._lock.folder
            if disk and (disk.folder != folder.path or _manifest_in(folder) != disk.manifest):
                self._disk = None  # another process has written since
        return True

    def _write(self, saved: SavedRun) -> None:
        assert self._lock is not None
        disk, cache_folder = self._disk, self._lock.folder
        before = disk.data if disk is not None else ""
        columns = saved.columns, saved.columns.edition
        if disk is None or columns != self._columns:
            disk = _OnDisk(cache_folder.path, f"data-{uuid.uuid4().hex}")
        files = dict(disk.files)
        with _columns_folder(cache_folder, disk.data, new=not disk.files) as folder:
            for key, items, data in new_parts(saved.columns, disk.files):
                file = files.setdefault(key, AppendFile())
                files[key] = file.append(folder, str(list(files).index(key)), items, data)
        manifest = _manifest(saved, self._code, disk.data, files)
        cache_folder.replace(MANIFEST, manifest)
        self._disk, self._columns = _OnDisk(disk.folder, disk.data, manifest, files), columns
        _delete_outdated(cache_folder, disk.data)
        self._map_columns(saved.columns, moved=disk.data != before)

    def _map_columns(self, columns: Columns, *, moved: bool) -> None:
        """Let large columns share the memory of their files, which the manifest has now.

        ``moved`` is True if these files replace earlier ones, which were deleted.
        """
        disk = self._disk
        assert self._lock is not None
        assert disk is not None
        names = {key: str(index) for index, key in enumerate(disk.files)}
        with suppress(OSError), self._lock.folder.subfolder(disk.data) as folder:
            for key, column in saved_columns(columns).items():
                if disk.files[key].bytes >= MAP_BYTES:
                    map_column(folder, names[key], column, disk.files[key].items, anew=moved)
                    column.release()

    # -- reading ---------------------------------------------------------------------------------

    def _read(self, folder: SafeFolder, manifest: bytes) -> SavedRun:
        digest, _, body = manifest.partition(b"\n")
        if _digest(body) != digest:
            raise ValueError("the manifest is damaged")
        content = json.loads(body)
        if (content["format"], content["code"]) != (FORMAT, self._code):
            raise ValueError("it was written by another version or with another limit on line length")
        name, columns, files = str(content["data"]), Columns(), {}
        columns.rows = int(content["rows"])
        with folder.subfolder(name) as data_folder:
            for index, (key, items, size, digest) in enumerate(content["columns"]):
                data = read_content(data_folder, str(index), int(size))
                files[key] = AppendFile().extended(int(items), data.content)
                if files[key].hash != digest:
                    raise ValueError(f"{key} is damaged")
                release_mapped(data.room, data.mapped)  # all was read for the hash, little of it is needed
                restore_column(columns, key, data)
        missing = drop_outdated(columns, content["made_by"])
        if not missing:
            self._disk = _OnDisk(folder.path, name, manifest, files)
            self._columns = columns, columns.edition
        states = [FileState.from_json(state) for state in content["files"]]
        newest, left_out = float(content["newest_line"]), str(content["left_out"])
        has_repeats = content["has_repeats"] is not False
        dead = [(int(first), int(end)) for first, end in content["dead"]]
        return SavedRun(columns, states, newest, left_out, content["constants"], missing, has_repeats, dead)


def _manifest(saved: SavedRun, code: str, data: str, files: dict[str, AppendFile]) -> bytes:
    content: dict[str, Any] = {
        "format": FORMAT,
        "code": code,
        "data": data,
        "rows": saved.columns.rows,
        "columns": [(key, file.items, file.bytes, file.hash) for key, file in files.items()],
        "files": [state.to_json() for state in saved.files],
        "made_by": column_fingerprints(),
        "newest_line": saved.newest_line,
        "left_out": saved.left_out,
        "constants": saved.constants,
        "has_repeats": saved.has_repeats,
        "dead": saved.dead,
    }
    body = json.dumps(content).encode()
    return _digest(body) + b"\n" + body


def _digest(body: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(body).encode()


def _manifest_in(folder: SafeFolder) -> bytes:
    try:
        return read_saved(folder, MANIFEST, MAX_BYTES)
    except OSError:
        return b""


def _columns_folder(cache_folder: SafeFolder, name: str, *, new: bool) -> SafeFolder:
    """Open the column folder in a cache folder; `UnsafePath` if rlpanel did not create it."""
    folder = cache_folder.subfolder(name, create=new)
    try:
        if new and not folder.names():
            folder.mark()
        if not folder.is_marked:
            raise UnsafePath(errno.EPERM, "was not made by rlpanel", str(folder.path))
    except BaseException:
        folder.close()
        raise
    return folder


def _delete_outdated(cache_folder: SafeFolder, data: str) -> None:
    """Delete outdated column folders, and temporary manifests that killed processes left behind."""
    for name in cache_folder.names():
        with suppress(OSError):  # the next save tries again
            if COLUMN_FOLDER_NAME.fullmatch(name) and name != data:
                cache_folder.remove_folder(name)
            elif name.startswith(f".{MANIFEST}."):
                cache_folder.remove(name)


def _age(location: CacheFolder) -> float:
    """Return a sort key that puts newer caches first."""
    try:
        return -(location.path / MANIFEST).lstat().st_mtime
    except OSError:
        return 0.0


#: Maximum number of bytes of such a file.
MAX_TEXT = 1 << 16
#: Files of older versions, which are removed.
_OLD_FILES = ("facts", "findings", "checks")


def read_saved_text(run: AnyPath, name: str) -> str:
    """Return the text of a file in a run's cache folder; empty if it is missing, damaged or too long."""
    for location in find_cache_folders(run):
        with suppress(OSError), location.open() as folder:
            checksum, _, body = read_saved(folder, name, MAX_TEXT).decode("utf-8", "replace").partition("\n")
            if checksum == _checksum(body):
                return body
    return ""


def save_text(run: AnyPath, name: str, text: str) -> bool:
    """Write a small file beside the saved columns of a run; False if no columns are saved.

    No folder is created: a run that is too small to be saved stays as it is. A file of more than
    `MAX_TEXT` is not written. Files of older versions are removed.
    """
    body = text.encode("utf-8", "replace").decode()
    data = f"{_checksum(body)}\n{body}".encode()
    for location in find_cache_folders(run):
        with suppress(OSError), location.open() as folder:
            if len(data) <= MAX_TEXT and _holds_columns(folder):
                folder.replace(name, data)
                for old in _OLD_FILES:
                    with suppress(OSError):
                        folder.remove(old)
                return True
    return False


def _checksum(body: str) -> str:
    return xxhash.xxh3_64_hexdigest(body.encode())


def _holds_columns(folder: SafeFolder) -> bool:
    """Return True if rlpanel, run by this user, saved columns in a folder."""
    return folder.is_marked and folder.status(MANIFEST) is not None
