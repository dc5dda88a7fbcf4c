"""Tags and notes that viewers add to samples: a JSONL file beside the log; a sample's newest line applies.

`LinesBesideLog` says where the file is, and how it is read and written.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from rlpanel.errors import SettingError
from rlpanel.sources.files.file_access import AnyPath, Stamp
from rlpanel.store.cache.cache_folder import warn_once
from rlpanel.store.columns.row_table import DEAD
from rlpanel.store.query.filter import Labels
from rlpanel.store.query.lines_beside_log import LinesBesideLog
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
