"""A run's index on disk, so that a known run opens at once and goes on where it stood.

It is disposable and never the truth: whatever does not fit together is thrown away and made anew from the
logs. A folder holds raw columns that are only ever appended to, and a manifest that says how much of them
counts. The manifest is replaced in one piece after the columns were written, so a process that dies in
between costs only what it had not told yet. One process writes, any number read. Files are opened through
`rlpanel.safe_files`: the run's folder may be one in which others plant links.

What a row counts for and all statistics follow from the rows, so they are not saved.
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
from rlpanel.sources.files.files import AnyPath
from rlpanel.sources.readers.tail import Mark
from rlpanel.store.cache.append_file import AppendFile, read_content
from rlpanel.store.cache.cache_folder import COLUMNS, CacheFolder, Lock, lock, places
from rlpanel.store.cache.fingerprint import of_columns, of_reading
from rlpanel.store.columns.columns import Column, Columns, Labels

log = logging.getLogger(__name__)

#: Goes up when the layout on disk changes.
FORMAT = 3
#: Seconds between two saves, and before the next try after one that failed.
SAVE_EVERY, RETRY_AFTER = 5.0, 60.0
#: Logs smaller than this are read as fast as their index, and get none.
WORTH_BYTES = 4 << 20
#: What a response's chance is judged by, before any row counts.
SURPRISAL = "surprisal_sum"
#: How often a reader tries again whose files were replaced by the writer meanwhile.
_READ_TRIES = 3
_MANIFEST = "manifest"


@dataclass(frozen=True)
class OpenFileState:
    """How far a file is that is read in ranges of ``range_bytes``, from ``start`` up to ``limit``.

    ``parts`` are the ranges that are in: where each begins, and its lines; the rows of a range count their
    lines from its first. ``bad`` are bad lines with their range.
    """

    start: int
    limit: int
    lines_before: int
    range_bytes: int
    parts: list[tuple[int, int]]
    bad: list[tuple[int, int, int, str]]

    @classmethod
    def of(cls, plain: dict[str, Any] | None) -> OpenFileState | None:
        """What JSON gave."""
        if plain is None:
            return None
        parts = [(int(start), int(lines)) for start, lines in plain["parts"]]
        return cls(**{**plain, "parts": parts, "bad": [tuple(bad) for bad in plain["bad"]]})


@dataclass(frozen=True)
class FileState:
    """Where the reading of one file stands.

    ``since`` is the first row of its newest generation; rows of the file before it are dead.
    """

    name: str
    number: int
    adapter: str
    since: int
    mark: Mark
    bad_count: int
    blank_count: int
    bad: list[tuple[int, int, str]]
    unsettled: OpenFileState | None = None


@dataclass(frozen=True)
class SavedRun:
    """What is saved of a run; rows of file numbers that are not in ``files`` are dead.

    ``constants`` are those of the training that the rows were made with; ``missing`` are columns over
    tokens that were not saved, or were made in another way.
    """

    columns: Columns
    files: list[FileState]
    newest_line: float
    left_out: str
    constants: list[Any]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class _OnDisk:
    """What stands on disk, as far as this process knows: ``manifest`` is the file's bytes."""

    folder: Path
    data: str
    manifest: bytes = b""
    files: dict[str, AppendFile] = field(default_factory=dict)


class RunCache:
    """Loads and saves one run's index; never raises, for nothing depends on it.

    Parameters
    ----------
    run : path
        The run's real folder.
    line_bytes : int
        The longest line that was read.
    """

    def __init__(self, run: AnyPath, line_bytes: int) -> None:
        self._run = run
        self._code = f"{of_reading()}-{line_bytes}"
        self._lock: Lock | None = None
        self._disk: _OnDisk | None = None
        self._columns: tuple[Columns, int] | None = None  # those that `_disk` has, and their edition
        self._due = 0.0
        self._avoided: set[Path] = set()  # folders that hold what is not safe to write

    @property
    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() >= self._due

    def load(self) -> SavedRun | None:
        """What was saved, or None where nothing usable was."""
        for place in sorted(places(self._run), key=_age):
            for _ in range(_READ_TRIES):
                try:
                    with place.open() as folder:
                        return self._read(folder, folder.read(_MANIFEST))
                except FileNotFoundError:
                    continue  # a writer began anew, or there is none
                except (OSError, ValueError, KeyError, TypeError) as error:
                    log.info("the saved index in %s is not used: %s", place.path, error)
                    break
        return None

    def save(self, saved: SavedRun) -> bool:
        """Write what is new; False if that failed or another process writes."""
        self._due = time.monotonic() + SAVE_EVERY
        while self._lock_folder():
            try:
                self._write(saved)
            except UnsafePath as error:
                self._avoid(error)
            except OSError as error:
                log.warning("the index of %s is not saved just now: %s", self._run, error)
                self._due = time.monotonic() + RETRY_AFTER
                self.close()
                return False
            else:
                return True
        return False

    def close(self) -> None:
        """Let others write."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- writing ---------------------------------------------------------------------------------

    def _avoid(self, error: UnsafePath) -> None:
        """Go on in the next folder: in this one somebody has put what rlpanel must not write."""
        assert self._lock is not None
        log.warning("the index of %s is not saved in its folder: %s", self._run, error)
        self._avoided.add(self._lock.folder.path)
        self._disk = None
        self.close()

    def _lock_folder(self) -> bool:
        """Whether this process may write, now or since it last did."""
        if self._lock is None:
            self._lock = lock(self._run, self._avoided)
            if self._lock is None:
                return False
            disk = self._disk
            folder = self._lock.folder
            if disk and (disk.folder != folder.path or _manifest_in(folder) != disk.manifest):
                self._disk = None  # another process has written since
        return True

    def _write(self, saved: SavedRun) -> None:
        assert self._lock is not None
        disk, place = self._disk, self._lock.folder
        columns = saved.columns, saved.columns.edition
        if disk is None or columns != self._columns:
            disk = _OnDisk(place.path, f"data-{uuid.uuid4().hex}")
        files = dict(disk.files)
        with _columns_folder(place, disk.data, new=not disk.files) as folder:
            for key, items, data in _new_parts(saved.columns, disk.files):
                known = files.setdefault(key, AppendFile())
                files[key] = known.append(folder, str(list(files).index(key)), items, data)
        manifest = _manifest(saved, self._code, disk.data, files)
        place.replace(_MANIFEST, manifest)
        self._disk, self._columns = _OnDisk(disk.folder, disk.data, manifest, files), columns
        _tidy(place, disk.data)

    # -- reading ---------------------------------------------------------------------------------

    def _read(self, folder: SafeFolder, manifest: bytes) -> SavedRun:
        digest, _, body = manifest.partition(b"\n")
        if _digest(body) != digest:
            raise ValueError("its manifest is damaged")
        found = json.loads(body)
        if (found["format"], found["code"]) != (FORMAT, self._code):
            raise ValueError("it was made by another version")
        name, columns, files = str(found["data"]), Columns(), {}
        columns.rows = int(found["rows"])
        with folder.subfolder(name) as data_folder:
            for at, (key, items, size, digest) in enumerate(found["columns"]):
                data = read_content(data_folder, str(at), int(size))
                files[key] = AppendFile().followed_by(int(items), data)
                if files[key].hash != digest:
                    raise ValueError(f"{key} is damaged")
                _restore(columns, key, data)
        missing = _drop_outdated(columns, found["made_by"])
        if not missing:
            self._disk = _OnDisk(folder.path, name, manifest, files)
            self._columns = columns, columns.edition
        states = [_state(**state) for state in found["files"]]
        newest, left_out = float(found["newest_line"]), str(found["left_out"])
        return SavedRun(columns, states, newest, left_out, found["constants"], missing)


def _state(*, mark: list[Any], unsettled: dict[str, Any] | None, **rest: Any) -> FileState:
    return FileState(mark=Mark.of(mark), unsettled=OpenFileState.of(unsettled), **rest)


def _new_parts(columns: Columns, known: dict[str, AppendFile]) -> Iterator[tuple[str, int, np.ndarray]]:
    """What each file lacks: its key, how many items, their bytes."""
    nothing = AppendFile()
    for key, column in _saved_columns(columns).items():
        values = column.view(columns.rows)[known.get(key, nothing).items :]
        yield key, len(values), values.view(np.uint8)
    for name, labels in columns.labels.items():
        texts = labels.names[known.get(f"texts/{name}", nothing).items :]
        lines = "".join(f"{json.dumps(text)}\n" for text in texts).encode()
        yield f"texts/{name}", len(texts), np.frombuffer(lines, np.uint8)


def _saved_columns(columns: Columns) -> dict[str, Column]:
    """Every column by a key that tells its kind. What follows from other columns is not saved."""
    derived = {m.name for m in column_info.of_level("sample")}
    return {
        **{f"place/{name}": column for name, column in columns.place.items()},
        **{f"number/{name}": column for name, column in columns.numbers.items() if name not in derived},
        **{f"label/{name}": labels.codes for name, labels in columns.labels.items()},
    }


def _restore(columns: Columns, key: str, data: np.ndarray) -> None:
    """Put the bytes of a part where they belong."""
    kind, _, name = key.partition("/")
    if kind == "texts":
        columns.labels[name].restore(_texts(data))
        return
    if kind == "number":
        if name in column_info.computed_columns() and name in {
            m.name for m in column_info.of_level("sample")
        }:
            raise ValueError(f"{name!r} is a metric's name now")
        columns.numbers[name] = Column(np.float64, np.nan)
    elif kind == "label":
        columns.labels[name] = Labels()
    column = {"place": columns.place.get, "number": columns.numbers.get}.get(kind, lambda _: None)(name)
    column = column or columns.labels[name].codes
    if len(data) != columns.rows * column.dtype.itemsize:
        raise ValueError(f"{key} has another length")
    column.adopt(data.view(column.dtype))


def _drop_outdated(columns: Columns, made_by: dict[str, str]) -> tuple[str, ...]:
    """Drop columns whose metric is gone or another one now; returns those that are to be made."""
    now = of_columns()
    if SURPRISAL in now and now[SURPRISAL] != made_by.get(SURPRISAL):
        raise ValueError("what tells duplicates is made in another way")
    for name in set(now) - set(made_by):
        if name in columns.numbers:
            raise ValueError(f"{name!r} is a metric's name now")
    for name in [name for name, code in made_by.items() if now.get(name) != code]:
        columns.numbers.pop(name, None)
    return tuple(name for name, code in now.items() if made_by.get(name) != code)


def _texts(raw: np.ndarray) -> list[str]:
    return [str(text) for text in json.loads(b"[" + raw.tobytes()[:-1].replace(b"\n", b",") + b"]")]


def _manifest(saved: SavedRun, code: str, data: str, files: dict[str, AppendFile]) -> bytes:
    found: dict[str, Any] = {
        "format": FORMAT,
        "code": code,
        "data": data,
        "rows": saved.columns.rows,
        "columns": [(key, grown.items, grown.bytes, grown.hash) for key, grown in files.items()],
        "files": [{**asdict(state), "mark": state.mark.plain()} for state in saved.files],
        "made_by": of_columns(),
        "newest_line": saved.newest_line,
        "left_out": saved.left_out,
        "constants": saved.constants,
    }
    body = json.dumps(found).encode()
    return _digest(body) + b"\n" + body


def _digest(body: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(body).encode()


def _manifest_in(folder: SafeFolder) -> bytes:
    try:
        return folder.read(_MANIFEST)
    except OSError:
        return b""


def _columns_folder(place: SafeFolder, name: str, *, new: bool) -> SafeFolder:
    """Open the folder of columns in an index's folder; `UnsafePath` if it is not one that rlpanel made."""
    folder = place.subfolder(name, create=new)
    try:
        if new and not folder.names():
            folder.mark()
        if not folder.is_marked:
            raise UnsafePath(errno.EPERM, "was not made by rlpanel", str(folder.path))
    except BaseException:
        folder.close()
        raise
    return folder


def _tidy(place: SafeFolder, data: str) -> None:
    """Delete other folders of columns, and manifests that a killed process did not finish."""
    for name in place.names():
        with suppress(OSError):  # it is tried again after the next save
            if COLUMNS.fullmatch(name) and name != data:
                place.remove_folder(name)
            elif name.startswith(f".{_MANIFEST}."):
                place.remove(name)


def _age(place: CacheFolder) -> float:
    """Newer ones are smaller."""
    try:
        return -(place.path / _MANIFEST).lstat().st_mtime
    except OSError:
        return 0.0
