"""Tags and notes that readers leave on samples: a file of lines beside the log; a sample's last line counts.

The file is only ever appended to, one write a line, so that two readers at once lose nothing. It is hidden,
so that nobody takes it for rollouts. Where the run's folder cannot be written or belongs to another user, it
stands in the user's cache folder. No link is followed, to read or to write.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xxhash

from rlpanel.errors import UnsafePath
from rlpanel.safe_files import SafeFolder
from rlpanel.sources.files.files import AnyPath
from rlpanel.store.cache.user_cache import cache_folders, open_cache, warn_once
from rlpanel.store.columns.run_table import DEAD
from rlpanel.store.query.filter import Labels
from rlpanel.store.snapshot.snapshot import Snapshot

FILE = ".rlpanel-notes.jsonl"
_FOLDER = "notes"  # in the cache
#: The columns that notes give.
NOTED = ("tag", "note")
#: Characters of a tag and of a note.
MOST_TAG, MOST_NOTE = 40, 2000


@dataclass(frozen=True)
class Note:
    """What a reader left on a sample."""

    uid: str
    tag: str = ""
    note: str = ""
    time: float = 0.0


class Notes:
    """The notes of one run.

    Parameters
    ----------
    run : path
        The run's real folder.

    Attributes
    ----------
    run : path
    version : int
        Goes up with every change.
    """

    def __init__(self, run: AnyPath) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._stamps: tuple[object, ...] = ()
        self._notes: dict[str, Note] = {}
        self._cached = f"{xxhash.xxh3_64_hexdigest(os.fsencode(run.resolve()))}.jsonl"
        self.version = 0
        self.refresh()

    def refresh(self) -> bool:
        """Read what others wrote; True if anything did change."""
        with self._lock:
            files = list(self._files())
            stamps = tuple(_stamp(path) for path, _ in files)
            if stamps == self._stamps:
                return False
            self._stamps = stamps
            found = [note for _, read in files for note in _notes_in(read)]
            self._notes = {note.uid: note for note in sorted(found, key=lambda note: note.time)}
            self.version += 1
            return True

    @property
    def empty(self) -> bool:
        """Whether nothing was ever left."""
        return not self._notes

    def of(self, uid: str) -> Note:
        """What was left on a sample; an empty note if nothing was."""
        return self._notes.get(uid, Note(uid))

    def write(self, uid: str, tag: str, note: str) -> Path:
        """Leave a tag and a note; both empty takes them back.

        Returns
        -------
        Path
            The file it stands in.

        Raises
        ------
        OSError
            If no folder can be written.
        """
        left = Note(uid, tag.strip()[:MOST_TAG], note.strip()[:MOST_NOTE], time.time())
        line = json.dumps(asdict(left), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        failure = OSError(errno.EACCES, "no folder can be written")
        for opening, name in self._openings():
            try:
                with opening() as folder:
                    folder.append(name, line)
            except OSError as error:
                _tell(error)
                failure = error
                continue
            self.refresh()
            return folder.path / name
        raise failure

    def tags(self) -> list[str]:
        """Tags in use, the most used first."""
        used = [note.tag for note in self._notes.values() if note.tag]
        return sorted(set(used), key=lambda tag: (-used.count(tag), tag))

    def frame(self) -> pd.DataFrame:
        """A row a sample that carries something: ``uid``, ``tag``, ``note``, ``time``."""
        left = [asdict(note) for note in self._notes.values() if note.tag or note.note]
        return pd.DataFrame(left, columns=["uid", "tag", "note", "time"])

    def labels(self, snapshot: Snapshot) -> dict[str, Labels]:
        """The columns ``tag`` and ``note`` for all rows of a snapshot; always there, so that filters are."""
        rows, left = self._rows(snapshot)
        return {name: _column(snapshot.rows, rows, [getattr(note, name) for note in left]) for name in NOTED}

    def _rows(self, snapshot: Snapshot) -> tuple[np.ndarray, list[Note]]:
        """The rows that carry something, and what."""
        carrying = {uid: note for uid, note in self._notes.items() if note.tag or note.note}
        if not carrying or not snapshot.rows:
            return np.empty(0, int), []
        offsets = [int(uid.rpartition(":")[2].partition("/")[0] or -1) for uid in carrying]
        near = np.flatnonzero(np.isin(snapshot.place("offset"), offsets) & (snapshot.state != DEAD))
        pairs = [
            (row, carrying[uid])
            for row, uid in zip(near, snapshot.uids(near), strict=True)
            if uid in carrying
        ]
        return np.array([row for row, _ in pairs], int), [note for _, note in pairs]

    def _files(self) -> Iterator[tuple[AnyPath, Callable[[], bytes]]]:
        """Every file that may hold notes, and how it is read: beside the log, and in the user's cache."""
        beside = self.run / FILE
        if isinstance(self.run, Path):
            yield beside, partial(_content, partial(SafeFolder.open, self.run), FILE)
        else:
            yield beside, beside.read_bytes
        for cache in cache_folders():
            yield cache / _FOLDER / self._cached, partial(_content, partial(_in_cache, cache), self._cached)

    def _openings(self) -> Iterator[tuple[Callable[[], SafeFolder], str]]:
        """How the folders that may take a note are opened, and the file's name there; the best one first."""
        if isinstance(self.run, Path):  # another machine's folders are only read
            yield partial(_own, self.run), FILE
        for cache in cache_folders():
            yield partial(_in_cache, cache, create=True), self._cached


def _column(rows: int, at: np.ndarray, texts: list[str]) -> Labels:
    names = list(dict.fromkeys(text for text in texts if text))
    codes = np.full(rows, -1, np.int32)
    codes[at] = [names.index(text) if text else -1 for text in texts]
    return codes, names


def _own(run: Path) -> SafeFolder:
    """Open a run's folder; PermissionError if it is another user's, which is nothing to warn of."""
    folder = SafeFolder.open(run)
    try:
        return _checked(folder)
    except UnsafePath as error:
        raise PermissionError(error.errno, error.strerror, error.filename) from error


def _checked(folder: SafeFolder) -> SafeFolder:
    try:
        folder.require_own()
    except UnsafePath:
        folder.close()
        raise
    return folder


def _in_cache(cache: Path, *, create: bool = False) -> SafeFolder:
    with open_cache(cache, create=create) as opened:
        folder = opened.subfolder(_FOLDER, create=create, mode=0o700)
    return _checked(folder)


def _content(opening: Callable[[], SafeFolder], name: str) -> bytes:
    with opening() as folder:
        return folder.read(name)


def _tell(error: OSError) -> None:
    if isinstance(error, UnsafePath):
        warn_once(f"{error}: no note is written there")


def _stamp(path: AnyPath) -> tuple[int, int] | None:
    try:
        status = path.lstat() if isinstance(path, Path) else path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _notes_in(read: Callable[[], bytes]) -> list[Note]:
    """The notes of a file; lines that are none, such as half a line of a full disk, are left out."""
    try:
        lines = read().splitlines()
    except OSError:
        return []
    return [note for note in map(_note, lines) if note is not None]


def _note(line: bytes) -> Note | None:
    try:
        found = json.loads(line)
        uid, tag, note = (str(found.get(name, "")) for name in ("uid", "tag", "note"))
        int(uid.rpartition(":")[2].partition("/")[0])
        return Note(uid, tag[:MOST_TAG], note[:MOST_NOTE], float(found.get("time", 0.0)))
    except (ValueError, TypeError, AttributeError):
        return None
