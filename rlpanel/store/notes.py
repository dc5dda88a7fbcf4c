"""Tags and notes that readers leave on samples: a file of lines beside the log; a sample's last line counts.

The file is only ever appended to, one write a line, so that two readers at once lose nothing. It is hidden,
so that nobody takes it for rollouts. Where the run's folder cannot be written it stands in the user's cache
folder.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import xxhash

from rlpanel.sources.files import AnyPath
from rlpanel.store.filter import Labels
from rlpanel.store.snapshot import Snapshot
from rlpanel.store.table import DEAD

FILE = ".rlpanel-notes.jsonl"
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
        The run's folder.

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
        self.version = 0
        self.refresh()

    def refresh(self) -> bool:
        """Read what others wrote; True if anything did change."""
        with self._lock:
            stamps = tuple(_stamp(path) for path in self._paths())
            if stamps == self._stamps:
                return False
            self._stamps = stamps
            found = [note for path in self._paths() for note in _read(path)]
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
            If neither folder can be written.
        """
        left = Note(uid, tag.strip()[:MOST_TAG], note.strip()[:MOST_NOTE], time.time())
        line = json.dumps(asdict(left), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        own, other = self._paths()
        try:
            if not isinstance(own, Path):
                raise OSError("another machine's folders are only read")
            path = _append(own, line)
        except OSError:
            other.parent.mkdir(parents=True, exist_ok=True)
            path = _append(other, line)
        self.refresh()
        return path

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

    def _paths(self) -> tuple[AnyPath, Path]:
        """Beside the log, and for logs that cannot be written in the user's cache folder."""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return self.run / FILE, home / "rlpanel" / "notes" / self._name

    @cached_property
    def _name(self) -> str:
        return f"{xxhash.xxh3_64_hexdigest(os.fsencode(self.run.resolve()))}.jsonl"


def _column(rows: int, at: np.ndarray, texts: list[str]) -> Labels:
    names = list(dict.fromkeys(text for text in texts if text))
    codes = np.full(rows, -1, np.int32)
    codes[at] = [names.index(text) if text else -1 for text in texts]
    return codes, names


def _append(path: Path, line: bytes) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
    return path


def _stamp(path: AnyPath) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _read(path: AnyPath) -> list[Note]:
    """The notes of a file; lines that are none, such as half a line of a full disk, are left out."""
    try:
        lines = path.read_bytes().splitlines()
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
