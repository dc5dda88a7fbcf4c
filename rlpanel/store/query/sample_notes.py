"""Tags and notes that viewers add to samples: a JSONL file beside the log; a sample's newest line applies.

The file is append-only, with one write per line, so that concurrent viewers lose nothing. It is hidden, so
that it is not taken for a log of rollouts. If the run's folder is not writable or belongs to another user,
the file is in the user's cache folder. Symbolic links are not followed, neither for reading nor for writing.
"""

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
from rlpanel.store.columns.run_table import DEAD
from rlpanel.store.query.filter import Labels
from rlpanel.store.snapshot.snapshot import Snapshot

FILE = ".rlpanel-notes.jsonl"
_FOLDER = "notes"  # subfolder of the cache folder
#: Columns made from notes.
NOTE_COLUMNS = ("tag", "note")
#: Maximum number of characters of a tag and of a note.
MAX_TAG, MAX_NOTE = 40, 2000
#: Most bytes of a file that are read, from its end: some 25,000 notes.
MAX_BYTES = 8 << 20
#: No file has this many bytes, and no array of offsets holds more.
_LARGEST = 1 << 62


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
        self._cached = f"{xxhash.xxh3_64_hexdigest(os.fsencode(run.resolve()))}.jsonl"
        self._tags: tuple[int, list[str]] = (0, [])  # of which version
        self.version = 0
        self.problems: tuple[str, ...] = ()
        self.refresh()

    def refresh(self) -> bool:
        """Read the files again if they changed; return whether they did."""
        with self._lock:
            files = list(self._files())
            stamps = tuple(_stamp(path) for path, _ in files)  # before reading: later changes are noticed
            if stamps == self._stamps:
                return False
            self._stamps = stamps
            read_files = [_read_notes(path, read) for path, read in files]
            notes = [note for found, _ in read_files for note in found]
            self._notes = {note.uid: note for note in sorted(notes, key=lambda note: note.time)}
            self.problems = tuple(problem for _, problems in read_files for problem in problems)
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
        line = json.dumps(asdict(written), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        failure = OSError(errno.EACCES, "no folder for notes is writable")
        for open_folder, name in self._writable_folders():
            try:
                with open_folder() as folder:
                    folder.append(name, line)
            except OSError as error:
                _warn(error)
                failure = error
                continue
            self.refresh()
            return folder.path / name
        raise failure

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
        offsets = [offset for uid in noted if 0 <= (offset := _offset(uid)) < _LARGEST]
        # Compare offsets first: building the uids of all rows would be slow.
        candidates = np.flatnonzero(np.isin(snapshot.metadata("offset"), offsets) & (snapshot.state != DEAD))
        pairs = [
            (row, noted[uid])
            for row, uid in zip(candidates, snapshot.uids(candidates), strict=True)
            if uid in noted
        ]
        return np.array([row for row, _ in pairs], int), [note for _, note in pairs]

    def _files(self) -> Iterator[tuple[AnyPath, Callable[[], SmallFile]]]:
        """Yield every file for notes, beside the log and in the user's cache, with a function to read it."""
        beside = self.run / FILE
        if isinstance(beside, Path):
            yield beside, partial(_read_file, partial(SafeFolder.open, self.run), FILE)
        else:
            yield beside, partial(read_remote_end, beside, MAX_BYTES)
        for cache in cache_folders():
            yield (
                cache / _FOLDER / self._cached,
                partial(_read_file, partial(_open_cache_folder, cache), self._cached),
            )

    def _writable_folders(self) -> Iterator[tuple[Callable[[], SafeFolder], str]]:
        """Yield functions that open the folders for notes, preferred one first, each with the file's name."""
        if isinstance(self.run, Path):  # folders on other machines are only read
            yield partial(_open_own, self.run), FILE
        for cache in cache_folders():
            yield partial(_open_cache_folder, cache, create=True), self._cached


def _column(rows: int, noted: np.ndarray, texts: list[str]) -> Labels:
    """Return a label column with the texts at the noted rows."""
    names = {text: code for code, text in enumerate(dict.fromkeys(filter(None, texts)))}
    codes = np.full(rows, -1, np.int32)
    codes[noted] = [names.get(text, -1) for text in texts]
    return codes, list(names)


def _offset(uid: str) -> int:
    """Return the byte offset of a sample's line."""
    return int(uid.rpartition(":")[2].partition("/")[0] or -1)


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


def _open_cache_folder(cache: Path, *, create: bool = False) -> SafeFolder:
    with open_cache(cache, create=create) as opened:
        folder = opened.subfolder(_FOLDER, create=create, mode=0o700)
    return _require_own(folder)


def _read_file(open_folder: Callable[[], SafeFolder], name: str) -> SmallFile:
    with open_folder() as folder:
        return read_in(folder, name, MAX_BYTES, end=True)


def _warn(error: OSError) -> None:
    if isinstance(error, UnsafePath):
        warn_once(f"{error}: notes are not written there")


def _stamp(path: AnyPath) -> Stamp | None:
    try:
        return stamp_of(path)
    except OSError:
        return None


def _read_notes(path: AnyPath, read: Callable[[], SmallFile]) -> tuple[list[Note], list[str]]:
    """Return the notes of a file, and what of it was not read: without a file, neither."""
    try:
        file = read()
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    except OSError as error:
        # The user's cache folder may be another user's; only an existing file is reported.
        return [], [] if _stamp(path) is None else [f"{path.name} is ignored: {reason_of(error)}"]
    lines, problems = file.data.splitlines(), []
    if file.size > len(file.data):
        lines = lines[1:]  # its beginning may be missing
        problems = [f"{path.name} has {file.size:,} bytes: only the last {MAX_BYTES >> 20} MB are read"]
    notes, bad = [], []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if (note := _parse_note(line)) is not None:
            notes.append(note)
        else:
            bad.append(number)
    if bad:
        first = f", the first is line {bad[0]:,}" if not problems else ""
        count = (
            "1 line holds no valid note and is"
            if len(bad) == 1
            else f"{len(bad):,} lines hold no valid note and are"
        )
        problems.append(f"{path.name}: {count} skipped{first}")
    return notes, problems


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
