"""Identity and place of each sample: its uid, and where its line is in the files of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rlpanel.errors import SampleNotFound
from rlpanel.sources.readers.tail import line_hash
from rlpanel.sources.records.record_types import Locator
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.related_rows import mix
from rlpanel.store.columns.row_table import DEAD


def spread_rows(rows: np.ndarray, most: int) -> np.ndarray:
    """Return at most ``most`` rows in even distances, among them the first and the last."""
    if len(rows) <= most:
        return rows
    return rows[np.unique(np.linspace(0, len(rows) - 1, most).astype(int))]


def _no_rows() -> dict[str, np.ndarray]:
    return {name: np.empty(0, dtype) for name, dtype in Columns.METADATA.items()}


@dataclass(frozen=True)
class BadLineAt:
    """A line that could not be parsed: file, position and reason."""

    file: str
    line: int
    offset: int
    reason: str


@dataclass(frozen=True)
class SamplePlaces:
    """Rows of a run and the place of each in its files, also of rows that do not count.

    Row numbers are valid for one snapshot only, because dead rows may be removed later. A uid stays valid.

    Attributes
    ----------
    name : str
        Name of the run, followed by the split's name unless the split is training.
    state : ndarray of uint8
        State of each row: counted, repeated, duplicate, older attempt or dead (see `row_table`).
    files : tuple of str
        Paths relative to the run's folder, by file number.
    backlog_starts : mapping of int to int
        File number → byte offset from which on line numbers are not known yet.
    """

    name: str
    state: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint8), kw_only=True)
    files: tuple[str, ...] = field(default=(), kw_only=True)
    backlog_starts: Mapping[int, int] = field(default_factory=dict, kw_only=True)
    _metadata: dict[str, np.ndarray] = field(default_factory=_no_rows, kw_only=True)

    def uid(self, row: int) -> str:
        """Return the sample's identifier: file, byte offset, and part if a line holds several samples."""
        return self.uids(np.array([row]))[0]

    def uids(self, rows: np.ndarray) -> list[str]:
        """Return the identifiers of the samples at ``rows``."""
        columns = [self._metadata[name][rows].tolist() for name in ("file", "offset", "part")]
        return [
            f"{self.files[file]}:{offset}/{part}" if part else f"{self.files[file]}:{offset}"
            for file, offset, part in zip(*columns, strict=True)
        ]

    def row(self, uid: str) -> int:
        """Return the row of a uid, even if the row does not count.

        Raises
        ------
        SampleNotFound
        """
        file, offset, part = _split_uid(uid)
        if file in self.files:
            matches = np.flatnonzero(
                (self._metadata["offset"] == offset)
                & (self._metadata["part"] == part)
                & (self._metadata["file"] == self.files.index(file))
                & (self.state != DEAD)
            )
            if len(matches):
                return int(matches[-1])
        raise SampleNotFound(f"run {self.name!r} holds no sample {uid[:120]!r}")

    def locator(self, row: int) -> Locator:
        """Return where a row's line is in its file: byte offset, length, line number, part and hash."""
        offset, length, part, digest = (
            int(self._metadata[n][row]) for n in ("offset", "length", "part", "hash")
        )
        return Locator(offset, length, int(self.lines(np.array([row]))[0]), part, digest)

    def lines(self, rows: np.ndarray) -> np.ndarray:
        """Return the line numbers of ``rows``, from 1; 0 if a number is not known yet."""
        lines = self._metadata["line"][rows]
        if self.backlog_starts:
            file, offset = self._metadata["file"][rows], self._metadata["offset"][rows]
            lines = lines.copy()
            for number, start in self.backlog_starts.items():
                lines[(file == number) & (offset >= start)] = 0
        return lines

    def file(self, row: int) -> str:
        """Return the path of the file that contains a row, relative to the run's folder."""
        return self.files[self._metadata["file"][row]]

    def sample_rows(self, rows: np.ndarray, most: int) -> np.ndarray:
        """Return at most ``most`` of these rows: those with the smallest hashes of their uids.

        So a chosen sample stays chosen until samples with smaller hashes arrive.
        """
        if len(rows) <= most:
            return rows
        return np.sort(rows[np.argpartition(self.uid_hashes(rows), most)[:most]])

    def uid_hashes(self, rows: np.ndarray) -> np.ndarray:
        """Return a hash of the uid of each row."""
        file, offset, part = (self._metadata[name][rows] for name in ("file", "offset", "part"))
        position = mix(offset.astype(np.uint64)) ^ part.astype(np.uint64)
        return mix(position ^ self._file_hashes[file])

    @cached_property
    def _file_hashes(self) -> np.ndarray:
        """Hash of each file's name, by file number."""
        return np.array([line_hash(name.encode()) for name in self.files], np.uint64)


def _split_uid(uid: str) -> tuple[str, int, int]:
    """Return file, byte offset and part of a uid; an empty file name and -1 if it is malformed."""
    file, _, position = uid.rpartition(":")
    offset, _, part = position.partition("/")
    try:
        return file, int(offset), int(part or 0)
    except ValueError:
        return "", -1, -1
