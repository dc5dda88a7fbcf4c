"""The data of a run at one version: columns, statistics by step and facts about its files. It never changes.

`rlpanel.store.snapshot.run_view.RunView` computes what is not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from rlpanel.errors import SampleNotFound
from rlpanel.metrics.engine.column_info import ALIASES, pooling_columns, zero_means_missing
from rlpanel.metrics.engine.constants import USUAL_CONSTANTS, Constants
from rlpanel.sources.files.unreadable import Unread
from rlpanel.sources.readers.tail import line_hash
from rlpanel.sources.records.record_types import Locator
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.hash_set import mix
from rlpanel.store.columns.run_table import DEAD, DUPLICATE, OLDER, REPEATED, counts
from rlpanel.store.columns.scalar_log import Scalars
from rlpanel.store.columns.splits import SPLIT_COLUMN, TRAIN, display_name, limit_codes, split_code
from rlpanel.store.columns.step_stats import COUNT, MAX, MIN, Steps


@dataclass(frozen=True)
class BadLineAt:
    """A bad line with its file."""

    file: str
    line: int
    offset: int
    reason: str


@dataclass(frozen=True)
class Progress:
    """How far the reader has come.

    Attributes
    ----------
    bytes_read, bytes_total : int
        Of all living files, on disk. They differ for good where a last line has no newline: it waits.
    caught_up : bool
        Whether every whole line that stood on disk at the last look is in, or somebody stopped the rest.
    halted : bool
        Whether somebody stopped the reading of a backlog.
    rate : float
        Bytes a second over the last seconds; 0 while nobody can tell.
    """

    bytes_read: int = 0
    bytes_total: int = 0
    caught_up: bool = False
    halted: bool = False
    rate: float = field(default=0.0, compare=False)

    @property
    def waiting(self) -> int:
        """Bytes not taken in: backlog, and half lines at the ends of files."""
        return self.bytes_total - self.bytes_read

    @property
    def fraction(self) -> float:
        """Between 0 and 1."""
        return self.bytes_read / self.bytes_total if self.bytes_total else 1.0


def _no_rows() -> dict[str, np.ndarray]:
    return {name: np.empty(0, dtype) for name, dtype in Columns.PLACE.items()}


@dataclass(frozen=True)
class Snapshot:
    """A run at one version. Row i of every column is the same sample; `alive` masks those that count.

    A row number holds for one snapshot: a later one may have left dead rows behind. A uid stays.

    Attributes
    ----------
    version : int
        Goes up with every commit.
    state : ndarray of uint8
        What each row counts for, as `rlpanel.store.columns.run_table` has it.
    files : tuple of str
        Names below the run, by file number.
    restarts : tuple of int
        Steps at which a rank went back and began another attempt (see `restart_detection`).
    problems : tuple of str
        What cannot be read just now, in words.
    unread : tuple of Unread
        The files and folders among it: while there is one, the run is not whole.
    constants : Constants
        What is known of the training.
    newest_line : float
        When the file that brought the newest line was written, seconds since the epoch; 0 if never.
    scalars : Scalars
        The trainer's own log, with a version of its own.
    loose : mapping of int to int
        Files whose lines have no numbers yet, and from which offset on.
    name : str
        Of the run, and of the split where that is not training.
    split : str
        Whose samples count here; others are there as well, see `in_split`.
    """

    name: str
    version: int = 0
    rows: int = 0
    steps: Steps = field(default_factory=Steps)
    state: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint8))
    files: tuple[str, ...] = ()
    bad_lines: tuple[BadLineAt, ...] = ()
    bad_count: int = 0
    blank_count: int = 0
    problems: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    ranks: int = 0
    restarts: tuple[int, ...] = ()
    newest_line: float = 0.0
    progress: Progress = field(default_factory=Progress)
    scalars: Scalars = field(default_factory=Scalars)
    loose: Mapping[int, int] = field(default_factory=dict)
    _place: dict[str, np.ndarray] = field(default_factory=_no_rows)
    _numbers: dict[str, np.ndarray] = field(default_factory=dict)
    _labels: dict[str, tuple[np.ndarray, list[str]]] = field(default_factory=dict)
    constants: Constants = USUAL_CONSTANTS
    split: str = TRAIN
    _by_split: Mapping[str, Steps] = field(default_factory=dict)

    # -- what there is ---------------------------------------------------------------------------

    @property
    def samples(self) -> int:
        """Samples that count."""
        return int(self.steps.samples.sum())

    @property
    def splits(self) -> dict[str, int]:
        """Samples that count in each split, training first."""
        names = sorted(self._by_split, key=lambda name: (name != TRAIN, name))
        return {name: int(self._by_split[name].samples.sum()) for name in names}

    @property
    def has_splits(self) -> bool:
        """Whether there are samples of more than one split."""
        return len(self._by_split) > 1

    @property
    def all_samples(self) -> int:
        """Samples that count in any split."""
        return sum(self.splits.values()) if self.has_splits else self.samples

    def in_split(self, split: str) -> Snapshot:
        """The same with the samples of another split; this one where there is none of the name."""
        if split == self.split or split not in self._by_split:
            return self
        run = self.name.removesuffix(display_name("", self.split))
        return replace(self, name=display_name(run, split), split=split, steps=self._by_split[split])

    @cached_property
    def _standing(self) -> np.ndarray:
        """What each row counts for in this split; those of others are as good as dead."""
        if not self.has_splits:
            return self.state
        codes, names = self._labels[SPLIT_COLUMN]
        mine = limit_codes(codes, names) == split_code(self.split, names)
        return np.where(mine, self.state, np.uint8(DEAD))

    @cached_property
    def alive(self) -> np.ndarray:
        """Which rows count: not those of other splits, replaced files, older attempts and duplicates."""
        return counts(self._standing)

    @cached_property
    def older(self) -> int:
        """Samples of older attempts, kept beside those that count."""
        return int(np.count_nonzero(self._standing == OLDER))

    @cached_property
    def duplicates(self) -> int:
        """Samples that do not count, because an equal line came before and chance cannot have made it."""
        return int(np.count_nonzero(self._standing == DUPLICATE))

    @cached_property
    def repeats(self) -> int:
        """Samples that count although an equal line came before: chance may have made it."""
        return int(np.count_nonzero(self._standing == REPEATED))

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """Number columns, aliases, filled columns and columns that are for pooling alone left out."""
        return tuple(
            name for name in self._numbers if name not in pooling_columns() and not self._filled(name)
        )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Label columns; not those that only rows of replaced files had."""
        there = self.state != DEAD
        if there.all():
            return tuple(self._labels)
        return tuple(name for name, (codes, _) in self._labels.items() if (codes[there] >= 0).any())

    def has_number(self, column: str) -> bool:
        """Whether the run has a number column of this name that holds a finite value."""
        name = ALIASES.get(column, column)
        return (
            name in self.steps.columns
            and bool((self.steps.stat(name, COUNT) > 0).any())
            and not self._filled(name)
        )

    def _filled(self, column: str) -> bool:
        """Whether all there is of the column are the zeros that trainers fill in for what they have not."""
        if column not in zero_means_missing():
            return False
        if column not in self.steps.columns:  # only another split has it
            return True
        low, high = self.steps.stat(column, MIN), self.steps.stat(column, MAX)
        return not (low < 0).any() and not (high > 0).any()

    # -- rows ------------------------------------------------------------------------------------

    def number(self, column: str) -> np.ndarray:
        """A number column, shape (rows,)."""
        return self._numbers[ALIASES.get(column, column)]

    def is_stored(self, column: str) -> bool:
        """Return True if there is a number column of this name, whatever it holds."""
        return column in self._numbers

    @property
    def group_codes(self) -> np.ndarray | None:
        """The logged group of each row as a number, -1 where none; None where the run logs no groups."""
        return self._labels["group"][0] if "group" in self.labels else None

    def place(self, column: str) -> np.ndarray:
        """A column of `rlpanel.store.columns.columns.Columns.PLACE`, shape (rows,)."""
        return self._place[column]

    def label(self, column: str, rows: np.ndarray) -> list[str | None]:
        """The texts of a label column at ``rows``."""
        codes, names = self._labels[column]
        return [names[code] if code >= 0 else None for code in codes[rows].tolist()]

    def coded(self, column: str) -> tuple[np.ndarray, list[str]]:
        """A label column as codes, shape (rows,), and the texts they stand for; -1 is "not logged"."""
        return self._labels[column]

    def rows_of(self, step: int | None, *, older: bool = False) -> np.ndarray:
        """The rows of a step (all steps for None) that count, in order of arrival.

        With ``older`` those of older attempts too.
        """
        wanted = self.alive | (self._standing == OLDER) if older else self.alive
        return np.flatnonzero(wanted if step is None else (self._place["step"] == step) & wanted)

    @cached_property
    def living(self) -> np.ndarray:
        """All rows that count."""
        return np.flatnonzero(self.alive)

    def sampled_rows(self, step: int, most: int, *, older: bool = False) -> np.ndarray:
        """At most ``most`` of a step's rows: always the same ones, whatever order they came in.

        With ``older`` those of older attempts too.
        """
        return self.draw(self.rows_of(step, older=older), most)

    def draw(self, rows: np.ndarray, most: int) -> np.ndarray:
        """At most ``most`` of these rows.

        The draw goes by a hash of the sample's uid, so a sample that is shown stays shown until one with
        a smaller hash comes.
        """
        if len(rows) <= most:
            return rows
        file, offset, part = (self._place[name][rows] for name in ("file", "offset", "part"))
        place = mix(offset.astype(np.uint64)) ^ part.astype(np.uint64)
        keys = mix(place ^ self._file_hashes[file])
        return np.sort(rows[np.argpartition(keys, most)[:most]])

    @cached_property
    def _file_hashes(self) -> np.ndarray:
        return np.array([line_hash(name.encode()) for name in self.files], np.uint64)

    # -- one sample ------------------------------------------------------------------------------

    def uid(self, row: int) -> str:
        """The sample's name: file, byte offset, and its part where a line holds several."""
        return self.uids(np.array([row]))[0]

    def uids(self, rows: np.ndarray) -> list[str]:
        """The names of the samples at ``rows``."""
        places = zip(*(self._place[name][rows].tolist() for name in ("file", "offset", "part")), strict=True)
        return [
            f"{self.files[file]}:{offset}/{part}" if part else f"{self.files[file]}:{offset}"
            for file, offset, part in places
        ]

    def row(self, uid: str) -> int:
        """The row of a uid, whether it counts or was set aside.

        Raises
        ------
        SampleNotFound
        """
        file, offset, part = _split_uid(uid)
        if file in self.files:
            found = np.flatnonzero(
                (self._place["offset"] == offset)
                & (self._place["part"] == part)
                & (self._place["file"] == self.files.index(file))
                & (self.state != DEAD)
            )
            if len(found):
                return int(found[-1])
        raise SampleNotFound(f"run {self.name!r} holds no sample {uid[:120]!r}")

    def locator(self, row: int) -> Locator:
        """Where a row's bytes stand."""
        offset, length, part, digest = (
            int(self._place[n][row]) for n in ("offset", "length", "part", "hash")
        )
        return Locator(offset, length, int(self.lines(np.array([row]))[0]), part, digest)

    def lines(self, rows: np.ndarray) -> np.ndarray:
        """The line numbers of ``rows``, from 1; 0 where nobody knows them yet."""
        lines = self._place["line"][rows]
        if self.loose:
            file, offset = self._place["file"][rows], self._place["offset"][rows]
            lines = lines.copy()
            for number, start in self.loose.items():
                lines[(file == number) & (offset >= start)] = 0
        return lines

    def file(self, row: int) -> str:
        """The name of the file that holds a row."""
        return self.files[self._place["file"][row]]


def _split_uid(uid: str) -> tuple[str, int, int]:
    file, _, place = uid.rpartition(":")
    offset, _, part = place.partition("/")
    try:
        return file, int(offset), int(part or 0)
    except ValueError:
        return "", -1, -1
