"""Additions of viewers to a run: lines in a file beside its log, with tags and notes of samples."""

from __future__ import annotations

import errno
import json
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import xxhash

from rlpanel.errors import SettingError, UnsafePath
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.file_access import (
    AnyPath,
    SmallFile,
    Stamp,
    read_in,
    read_remote_end,
    reason_of,
    stamp_of,
)
from rlpanel.store.cache.cache_folder import cache_folders, log_rights, open_cache, warn_once
from rlpanel.store.columns.row_table import DEAD
from rlpanel.store.query.filter import Labels
from rlpanel.store.snapshot.snapshot import Snapshot

# -- lines beside log ----------------------------------------------------------------------------------
# A small file of lines that viewers add to a run: beside its log, or in the user's cache folder.
#
# The file is append-only, with one write per line, so that concurrent writers lose nothing. Its name begins
# with a dot, so that it is not taken for a log of rollouts. If the run's folder is not writable or belongs to
# another user, the file is in the user's cache folder. Symbolic links are not followed, neither for reading
# nor for writing.


class LinesBesideLog:
    """The lines of one kind that viewers added to a run.

    Parameters
    ----------
    run : path
        The run's folder, with symbolic links resolved.
    name : str
        Name of the file in it.
    folder : str
        Subfolder of the cache folder, which is also the kind of lines in messages.
    most : int
        Most bytes of a file that are read, from its end.
    """

    def __init__(self, run: AnyPath, name: str, folder: str, most: int) -> None:
        self.run, self._name, self._folder, self._most = run, name, folder, most
        self._cached = f"{xxhash.xxh3_64_hexdigest(os.fsencode(run.resolve()))}.jsonl"

    def stamps(self) -> tuple[Stamp | None, ...]:
        """Return what changes whenever one of the files does."""
        return tuple(_stamp(path) for path, _ in self._files())

    def read(self) -> tuple[list[tuple[str, int, bytes]], list[str]]:
        """Return the lines of all files, and what was not read.

        Returns
        -------
        lines : list of (str, int, bytes)
            Name of the file, number of the line from 1, and the line; empty ones are left out. The number is
            0 if the file is longer than what is read of it.
        problems : list of str
            Files that were not read as a whole, with the reason.
        """
        found, problems = [], []
        for path, read in self._files():
            try:
                file = read()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                # The user's cache folder may be another user's; only an existing file is reported.
                if _stamp(path) is not None:
                    problems.append(f"{path.name} is ignored: {reason_of(error)}")
                continue
            lines, whole = file.data.split(b"\n"), file.size <= len(file.data)
            if not whole:
                lines = lines[1:]  # its beginning may be missing
                read_part = f"only the last {self._most >> 20} MB are read"
                problems.append(f"{path.name} has {file.size:,} bytes: {read_part}")
            numbered = ((number if whole else 0, line) for number, line in enumerate(lines, start=1))
            found += [(path.name, number, line) for number, line in numbered if line.strip()]
        return found, problems

    def append(self, line: bytes, most: int | None = None) -> Path:
        """Add a line to the file beside the log; to that in the cache if the run's folder is not writable.

        Parameters
        ----------
        line : bytes
            Without its newline.
        most : int, optional
            Most bytes that the file may have afterwards.

        Returns
        -------
        Path
            The file written to.

        Raises
        ------
        SettingError
            If the file would be too large.
        OSError
            If no folder is writable.
        """
        failure = OSError(errno.EACCES, f"no folder for {self._folder} is writable")
        for open_folder, name in self._writable_folders():
            try:
                with open_folder() as folder:
                    size, is_torn = _end_of(folder, name)
                    if most is not None and size + len(line) + 2 > most:
                        raise SettingError(f"{name} is full: it may have at most {most:,} bytes")
                    folder.append(name, (b"\n" if is_torn else b"") + line + b"\n")
            except OSError as error:
                if isinstance(error, UnsafePath):
                    warn_once(f"{error}: {self._folder} are not written there")
                failure = error
                continue
            return folder.path / name
        raise failure

    def _files(self) -> Iterator[tuple[AnyPath, Callable[[], SmallFile]]]:
        """Yield every file, beside the log and in the user's cache, with a function to read it."""
        beside = self.run / self._name
        if isinstance(beside, Path):
            yield beside, partial(self._read_file, partial(SafeFolder.open, self.run), self._name)
        else:
            yield beside, partial(read_remote_end, beside, self._most)
        for cache in cache_folders():
            yield (
                cache / self._folder / self._cached,
                partial(self._read_file, partial(self._open_cache_folder, cache), self._cached),
            )

    def _read_file(self, open_folder: Callable[[], SafeFolder], name: str) -> SmallFile:
        with open_folder() as folder:
            return read_in(folder, name, self._most, end=True)

    def _writable_folders(self) -> Iterator[tuple[Callable[[], SafeFolder], str]]:
        """Yield functions that open the folders to write to, preferred one first, and the file's name."""
        if isinstance(self.run, Path):  # folders on other machines are only read
            yield partial(_open_own, self.run), self._name
        for cache in cache_folders():
            yield partial(self._open_cache_folder, cache, create=True), self._cached

    def _open_cache_folder(self, cache: Path, *, create: bool = False) -> SafeFolder:
        with open_cache(cache, create=create) as opened:
            folder = opened.subfolder(self._folder, create=create, mode=0o700)
        return _require_own(folder)


def _end_of(folder: SafeFolder, name: str) -> tuple[int, bool]:
    """Return the size of a file, and whether its last line lacks its newline, as after a full disk."""
    try:
        file = read_in(folder, name, 1, end=True)
    except FileNotFoundError:
        return 0, False
    return file.size, file.data not in (b"", b"\n")


def _open_own(run: Path) -> SafeFolder:
    """Open a run's folder; PermissionError if another user owns it, which is common and gives no warning."""
    folder = SafeFolder.open(run)
    folder.rights = log_rights(run)
    try:
        return _require_own(folder)
    except UnsafePath as error:
        raise PermissionError(error.errno, error.strerror, error.filename) from error


def _require_own(folder: SafeFolder) -> SafeFolder:
    """Return the folder; close it and raise UnsafePath if another user owns it."""
    try:
        folder.require_own()
    except UnsafePath:
        folder.close()
        raise
    return folder


def _stamp(path: AnyPath) -> Stamp | None:
    try:
        return stamp_of(path)
    except OSError:
        return None


# -- sample notes --------------------------------------------------------------------------------------
# Tags and notes that viewers add to samples: a JSONL file beside the log; a sample's newest line applies.
#
# `LinesBesideLog` says where the file is, and how it is read and written.


FILE = ".rlpanel-notes.jsonl"
_FOLDER = "notes"  # subfolder of the cache folder
#: Columns made from notes.
NOTE_COLUMNS = ("tag", "note")
#: Maximum number of characters of a tag and of a note.
MAX_TAG, MAX_NOTE = 40, 2000
#: Most bytes of a file that are read, from its end: some 25,000 notes.
MAX_BYTES = 8 << 20
#: No file has this many bytes, and no array of offsets holds more.
_MAX_BYTES = 1 << 62


@dataclass(frozen=True)
class Note:
    """Tag and note of a sample; ``time`` is when they were written, in seconds since the epoch."""

    uid: str
    tag: str = ""
    note: str = ""
    time: float = 0.0


class Notes:
    """The notes of one run.

    Parameters
    ----------
    run : path
        The run's folder, with symbolic links resolved.

    Attributes
    ----------
    run : path
    version : int
        Increases with every change.
    problems : tuple of str
        Files and lines that were not read, with the reason.
    """

    def __init__(self, run: AnyPath) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._stamps: tuple[Stamp | None, ...] = ()
        self._notes: dict[str, Note] = {}
        self._file = LinesBesideLog(run, FILE, _FOLDER, MAX_BYTES)
        self._tags: tuple[int, list[str]] = (0, [])  # of which version
        self.version = 0
        self.problems: tuple[str, ...] = ()
        self.refresh()

    def refresh(self) -> bool:
        """Read the files again if they changed; return whether they did."""
        with self._lock:
            stamps = self._file.stamps()  # before reading: later changes are noticed
            if stamps == self._stamps:
                return False
            self._stamps = stamps
            lines, unread = self._file.read()
            notes, bad = _parse_notes(lines)
            self._notes = {note.uid: note for note in sorted(notes, key=lambda note: note.time)}
            self.problems = (*unread, *bad)
            for problem in self.problems:
                warn_once(f"{self.run}: {problem}")
            self.version += 1
            return True

    @property
    def empty(self) -> bool:
        """True if no note was ever written."""
        return not self._notes

    def of(self, uid: str) -> Note:
        """Return the note of a sample; an empty one if there is none."""
        return self._notes.get(uid, Note(uid))

    def write(self, uid: str, tag: str, note: str) -> Path:
        """Write a tag and a note for a sample; two empty texts delete them.

        Returns
        -------
        Path
            The file written to.

        Raises
        ------
        SettingError
            If a text is too long.
        OSError
            If no folder is writable.
        """
        written = Note(uid, tag.strip(), note.strip(), time.time())
        for kind, text, most in (("tag", written.tag, MAX_TAG), ("note", written.note, MAX_NOTE)):
            if len(text) > most:
                raise SettingError(
                    f"a {kind} has at most {most:,} characters, and this one has {len(text):,}"
                )
        path = self._file.append(json.dumps(asdict(written), ensure_ascii=False).encode("utf-8", "replace"))
        self.refresh()
        return path

    def tags(self) -> list[str]:
        """Return the tags in use, most frequent first."""
        version, tags = self._tags
        if version != self.version:
            version, used = self.version, Counter(note.tag for note in self._notes.values() if note.tag)
            tags = sorted(used, key=lambda tag: (-used[tag], tag))
            self._tags = version, tags
        return tags

    def all(self) -> list[Note]:
        """Return the tags and notes of all samples that have one, in the order in which they were written."""
        return [note for note in self._notes.values() if note.tag or note.note]

    def labels(self, snapshot: Snapshot) -> dict[str, Labels]:
        """Return the columns ``tag`` and ``note`` of a snapshot; filters need them even without notes."""
        rows, notes = self._noted_rows(snapshot)
        return {
            name: _column(snapshot.rows, rows, [getattr(note, name) for note in notes])
            for name in NOTE_COLUMNS
        }

    def _noted_rows(self, snapshot: Snapshot) -> tuple[np.ndarray, list[Note]]:
        """Return the rows with a tag or note, and these notes."""
        noted = {uid: note for uid, note in self._notes.items() if note.tag or note.note}
        if not noted or not snapshot.rows:
            return np.empty(0, int), []
        offsets = [offset for uid in noted if 0 <= (offset := _offset(uid)) < _MAX_BYTES]
        # Compare offsets first: building the uids of all rows would be slow.
        candidates = np.flatnonzero(np.isin(snapshot.metadata("offset"), offsets) & (snapshot.state != DEAD))
        pairs = [
            (row, noted[uid])
            for row, uid in zip(candidates, snapshot.uids(candidates), strict=True)
            if uid in noted
        ]
        return np.array([row for row, _ in pairs], int), [note for _, note in pairs]


def _column(rows: int, noted: np.ndarray, texts: list[str]) -> Labels:
    """Return a label column with the texts at the noted rows."""
    names = {text: code for code, text in enumerate(dict.fromkeys(filter(None, texts)))}
    codes = np.full(rows, -1, np.int32)
    codes[noted] = [names.get(text, -1) for text in texts]
    return codes, list(names)


def _offset(uid: str) -> int:
    """Return the byte offset of a sample's line."""
    return int(uid.rpartition(":")[2].partition("/")[0] or -1)


def _parse_notes(lines: list[tuple[str, int, bytes]]) -> tuple[list[Note], list[str]]:
    """Return the notes of the lines, and a sentence for each file with lines that hold none."""
    notes: list[Note] = []
    bad: dict[str, list[int]] = {}
    for file, number, line in lines:
        if (note := _parse_note(line)) is not None:
            notes.append(note)
        else:
            bad.setdefault(file, []).append(number)
    return notes, [
        (
            f"{file}: 1 line holds no valid note and is skipped"
            if len(numbers) == 1
            else f"{file}: {len(numbers):,} lines hold no valid note and are skipped"
        )
        + (f", the first is line {numbers[0]:,}" if numbers[0] else "")
        for file, numbers in bad.items()
    ]


def _parse_note(line: bytes) -> Note | None:
    """Return the note of a line; None for an invalid line, such as one cut off by a full disk."""
    try:
        values = json.loads(line)
        uid, tag, note = (str(values.get(name, "")) for name in ("uid", "tag", "note"))
        written = float(values.get("time", 0.0))
        offset = int(uid.rpartition(":")[2].partition("/")[0])
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    if not math.isfinite(written) or abs(offset) >= 1 << 63:
        return None
    return Note(uid, tag[:MAX_TAG], note[:MAX_NOTE], written)
