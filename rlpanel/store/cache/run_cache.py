"""Cache of a run's index on disk: a cached run opens at once and continues where reading stopped.

The cache is disposable: if anything is inconsistent, it is discarded and rebuilt from the logs. A folder
holds append-only raw columns, and a manifest with the valid length of each. The manifest is replaced
atomically after the columns were written, so a process that is killed in between loses only the last save.
One process writes, any number read. Files are opened through `rlpanel.safe_files`, because other users may
be able to place links in the run's folder.

Row states and statistics are not saved, because they are derived from the rows.
"""

from __future__ import annotations

import errno
import json
import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from rlpanel.errors import UnsafePath
from rlpanel.metrics.engine import column_info
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.file_access import AnyPath
from rlpanel.sources.readers.tail import ReadPosition
from rlpanel.store.cache.append_file import AppendFile, read_content
from rlpanel.store.cache.cache_folder import (
    COLUMN_FOLDER_NAME,
    CacheFolder,
    CacheLock,
    find_cache_folders,
    lock_cache_folder,
)
from rlpanel.store.cache.fingerprint import column_fingerprints, reading_fingerprint
from rlpanel.store.columns.columns import Column, Columns, Labels

log = logging.getLogger(__name__)

#: Version of the layout on disk.
FORMAT = 3
#: Seconds between two saves, and before the next attempt after a failed one.
SAVE_EVERY, RETRY_AFTER = 5.0, 60.0
#: Logs smaller than this are not cached: reading them is as fast as reading a cache.
MIN_LOG_BYTES = 4 << 20
#: Column that identifies duplicates; needed before it is decided which rows count.
SURPRISAL = "surprisal_sum"
#: Attempts to load, because the writer may replace the files in the meantime.
_READ_TRIES = 3
_MANIFEST = "manifest"


@dataclass(frozen=True)
class OpenFileState:
    """Progress of a file that is read in ranges of ``range_bytes``, from ``start`` up to ``limit``.

    ``parts`` are the ranges already read: start offset and number of lines. Line numbers of their rows are
    relative to the range. ``bad`` are the bad lines, each with the start offset of its range.
    """

    start: int
    limit: int
    lines_before: int
    range_bytes: int
    parts: list[tuple[int, int]]
    bad: list[tuple[int, int, int, str]]

    @classmethod
    def from_json(cls, plain: dict[str, Any] | None) -> OpenFileState | None:
        """Convert from parsed JSON."""
        if plain is None:
            return None
        parts = [(int(start), int(lines)) for start, lines in plain["parts"]]
        return cls(**{**plain, "parts": parts, "bad": [tuple(bad) for bad in plain["bad"]]})


@dataclass(frozen=True)
class FileState:
    """Reading state of one file.

    ``since`` is the first row of the file's current generation; earlier rows of the file are dead.
    """

    name: str
    number: int
    adapter: str
    since: int
    mark: ReadPosition
    bad_count: int
    blank_count: int
    bad: list[tuple[int, int, str]]
    unsettled: OpenFileState | None = None


@dataclass(frozen=True)
class SavedRun:
    """Saved state of a run; rows with a file number that is not in ``files`` are dead.

    ``constants`` are the training constants that the rows were computed with. ``missing`` are the columns of
    token metrics that are not in the cache or whose code has changed.
    """

    columns: Columns
    files: list[FileState]
    newest_line: float
    left_out: str
    constants: list[Any]
    missing: tuple[str, ...] = ()


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
    """

    def __init__(self, run: AnyPath, line_bytes: int) -> None:
        self._run = run
        self._code = f"{reading_fingerprint()}-{line_bytes}"
        self._lock: CacheLock | None = None
        self._disk: _OnDisk | None = None
        self._columns: tuple[Columns, int] | None = None  # columns that `_disk` holds, and their edition
        self._due = 0.0
        self._avoided: set[Path] = set()  # folders in which writing is not safe

    @property
    def due(self) -> bool:
        """Whether enough time has passed since the last save."""
        return time.monotonic() >= self._due

    def load(self) -> SavedRun | None:
        """Return the newest usable saved state; None without one."""
        for location in sorted(find_cache_folders(self._run), key=_age):
            for _ in range(_READ_TRIES):
                try:
                    with location.open() as folder:
                        return self._read(folder, folder.read(_MANIFEST))
                except FileNotFoundError:
                    continue  # a writer has replaced the column folder, or nothing was saved
                except (OSError, ValueError, KeyError, TypeError) as error:
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
        columns = saved.columns, saved.columns.edition
        if disk is None or columns != self._columns:
            disk = _OnDisk(cache_folder.path, f"data-{uuid.uuid4().hex}")
        files = dict(disk.files)
        with _columns_folder(cache_folder, disk.data, new=not disk.files) as folder:
            for key, items, data in _new_parts(saved.columns, disk.files):
                file = files.setdefault(key, AppendFile())
                files[key] = file.append(folder, str(list(files).index(key)), items, data)
        manifest = _manifest(saved, self._code, disk.data, files)
        cache_folder.replace(_MANIFEST, manifest)
        self._disk, self._columns = _OnDisk(disk.folder, disk.data, manifest, files), columns
        _delete_outdated(cache_folder, disk.data)

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
                files[key] = AppendFile().extended(int(items), data)
                if files[key].hash != digest:
                    raise ValueError(f"{key} is damaged")
                _restore(columns, key, data)
        missing = _drop_outdated(columns, content["made_by"])
        if not missing:
            self._disk = _OnDisk(folder.path, name, manifest, files)
            self._columns = columns, columns.edition
        states = [_file_state(**state) for state in content["files"]]
        newest, left_out = float(content["newest_line"]), str(content["left_out"])
        return SavedRun(columns, states, newest, left_out, content["constants"], missing)


def _file_state(*, mark: list[Any], unsettled: dict[str, Any] | None, **rest: Any) -> FileState:
    return FileState(mark=ReadPosition.from_json(mark), unsettled=OpenFileState.from_json(unsettled), **rest)


def _new_parts(columns: Columns, written: dict[str, AppendFile]) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yield the data that each file lacks: key, number of items, bytes."""
    empty = AppendFile()
    for key, column in _saved_columns(columns).items():
        values = column.view(columns.rows)[written.get(key, empty).items :]
        yield key, len(values), values.view(np.uint8)
    for name, labels in columns.labels.items():
        texts = labels.names[written.get(f"texts/{name}", empty).items :]
        lines = "".join(f"{json.dumps(text)}\n" for text in texts).encode()
        yield f"texts/{name}", len(texts), np.frombuffer(lines, np.uint8)


def _saved_columns(columns: Columns) -> dict[str, Column]:
    """Return the columns to save by key, ``<kind>/<name>``; columns derived from others are left out."""
    derived = {m.name for m in column_info.of_level("sample")}
    return {
        **{f"place/{name}": column for name, column in columns.place.items()},
        **{f"number/{name}": column for name, column in columns.numbers.items() if name not in derived},
        **{f"label/{name}": labels.codes for name, labels in columns.labels.items()},
    }


def _restore(columns: Columns, key: str, data: np.ndarray) -> None:
    """Set the column with this key from its saved bytes."""
    kind, _, name = key.partition("/")
    if kind == "texts":
        columns.labels[name].restore(_texts(data))
        return
    if kind == "number":
        if name in column_info.computed_columns() and name in {
            m.name for m in column_info.of_level("sample")
        }:
            raise ValueError(f"the logged column {name!r} has the name of a new metric")
        columns.numbers[name] = Column(np.float64, np.nan)
    elif kind == "label":
        columns.labels[name] = Labels()
    column = {"place": columns.place.get, "number": columns.numbers.get}.get(kind, lambda _: None)(name)
    column = column or columns.labels[name].codes
    if len(data) != columns.rows * column.dtype.itemsize:
        raise ValueError(f"{key} has the wrong length")
    column.adopt(data.view(column.dtype))


def _drop_outdated(columns: Columns, made_by: dict[str, str]) -> tuple[str, ...]:
    """Drop columns whose metric was removed or changed; return the columns that must be computed."""
    now = column_fingerprints()
    if SURPRISAL in now and now[SURPRISAL] != made_by.get(SURPRISAL):
        raise ValueError(f"the metric {SURPRISAL}, which identifies duplicates, has changed")
    for name in set(now) - set(made_by):
        if name in columns.numbers:
            raise ValueError(f"the logged column {name!r} has the name of a new metric")
    for name in [name for name, code in made_by.items() if now.get(name) != code]:
        columns.numbers.pop(name, None)
    return tuple(name for name, code in now.items() if made_by.get(name) != code)


def _texts(raw: np.ndarray) -> list[str]:
    return [str(text) for text in json.loads(b"[" + raw.tobytes()[:-1].replace(b"\n", b",") + b"]")]


def _manifest(saved: SavedRun, code: str, data: str, files: dict[str, AppendFile]) -> bytes:
    content: dict[str, Any] = {
        "format": FORMAT,
        "code": code,
        "data": data,
        "rows": saved.columns.rows,
        "columns": [(key, file.items, file.bytes, file.hash) for key, file in files.items()],
        "files": [{**asdict(state), "mark": state.mark.plain()} for state in saved.files],
        "made_by": column_fingerprints(),
        "newest_line": saved.newest_line,
        "left_out": saved.left_out,
        "constants": saved.constants,
    }
    body = json.dumps(content).encode()
    return _digest(body) + b"\n" + body


def _digest(body: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(body).encode()


def _manifest_in(folder: SafeFolder) -> bytes:
    try:
        return folder.read(_MANIFEST)
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
            elif name.startswith(f".{_MANIFEST}."):
                cache_folder.remove(name)


def _age(location: CacheFolder) -> float:
    """Return a sort key that puts newer caches first."""
    try:
        return -(location.path / _MANIFEST).lstat().st_mtime
    except OSError:
        return 0.0
