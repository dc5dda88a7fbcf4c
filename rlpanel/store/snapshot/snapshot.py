"""Immutable data of a run at one version: columns, statistics by step, and the state of its files.

`rlpanel.store.snapshot.run_view.RunView` computes what is not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median

import numpy as np

from rlpanel.errors import SampleNotFound
from rlpanel.metrics.engine.column_info import ALIASES, is_outcome, pooling_columns, zero_means_missing
from rlpanel.metrics.engine.constants import USUAL_CONSTANTS, Constants
from rlpanel.sources.files.unreadable import Unread
from rlpanel.sources.readers.tail import line_hash
from rlpanel.sources.records.record_types import Locator
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.related_rows import FurtherRows, mix
from rlpanel.store.columns.run_table import DEAD, DUPLICATE, OLDER, REPEATED, counts
from rlpanel.store.columns.scalar_log import Scalars
from rlpanel.store.columns.splits import (
    SPLIT_COLUMN,
    TRAIN,
    discarded_split,
    display_name,
    limit_codes,
    split_code,
)
from rlpanel.store.columns.step_stats import Steps
from rlpanel.store.snapshot.read_progress import Progress
from rlpanel.store.snapshot.remarks import Remark, attempt_remarks, evaluation_remarks, group_remarks


@dataclass(frozen=True)
class BadLineAt:
    """A line that could not be parsed: file, position and reason."""

    file: str
    line: int
    offset: int
    reason: str


#: Number of steps whose rows are remembered.
MAX_KNOWN = 8
_NO_STEPS = Steps()


def _no_rows() -> dict[str, np.ndarray]:
    return {name: np.empty(0, dtype) for name, dtype in Columns.METADATA.items()}


@dataclass(frozen=True)
class Snapshot:
    """A run at one version. Row i is the same sample in every column; `alive` masks the rows that count.

    Row numbers are valid for one snapshot only, because dead rows may be removed later. A uid stays valid.

    Attributes
    ----------
    name : str
        Name of the run, followed by the split's name unless the split is training.
    version : int
        Increases with every commit.
    state : ndarray of uint8
        State of each row: counted, repeated, duplicate, older attempt or dead (see `run_table`).
    files : tuple of str
        Paths relative to the run's folder, by file number.
    problems : tuple of str
        Messages about the files, folders and columns that cannot be read or shown at present.
    unread : tuple of Unread
        Files and folders that cannot be read at present; the run is incomplete while there are any.
    newer_writers : tuple of str
        Says which files were written by a newer version of their trainer than the tested one.
    restarts : tuple of int
        Steps at which a restarted job began another attempt (see `attempts`).
    newest_line : float
        Modification time of the file with the newest line, in seconds since the epoch; 0 before any line.
    scalars : Scalars
        The trainer's own scalar log, which has its own version.
    backlog_starts : mapping of int to int
        File number → byte offset from which on line numbers are not known yet.
    constants : Constants
        Training constants, such as β and γ.
    split : str
        The split whose samples count; rows of other splits are stored as well, see `in_split`.
    shares_evaluation : mapping of int to str
        How evaluations get into files without a mark, by number of the file.
    once_per_step : mapping of int to str
        What is logged once per step in a file, by its number: a ``line``, or each value of a column.
    own_remarks : tuple of Remark
        Remarks that do not depend on the samples.
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
    newer_writers: tuple[str, ...] = ()
    ranks: int = 0
    restarts: tuple[int, ...] = ()
    newest_line: float = 0.0
    progress: Progress = field(default_factory=Progress)
    scalars: Scalars = field(default_factory=Scalars)
    backlog_starts: Mapping[int, int] = field(default_factory=dict)
    _metadata: dict[str, np.ndarray] = field(default_factory=_no_rows)
    _numbers: dict[str, np.ndarray] = field(default_factory=dict)
    _labels: dict[str, tuple[np.ndarray, list[str]]] = field(default_factory=dict)
    constants: Constants = USUAL_CONSTANTS
    split: str = TRAIN
    shares_evaluation: Mapping[int, str] = field(default_factory=dict)
    once_per_step: Mapping[int, str] = field(default_factory=dict)
    own_remarks: tuple[Remark, ...] = ()
    _by_split: Mapping[str, Steps] = field(default_factory=dict)
    _with_discarded: bool = False
    _further: FurtherRows | None = None
    _by_rows: bool = False

    # -- counts and columns -----------------------------------------------------------------------

    @property
    def samples(self) -> int:
        """Number of samples that count, in this split."""
        return int(self.steps.samples.sum())

    @property
    def splits(self) -> dict[str, int]:
        """Number of samples that count by split, training first."""
        names = sorted(self._by_split, key=lambda name: (name != TRAIN, name))
        return {name: int(self._by_split[name].samples.sum()) for name in names}

    @property
    def has_splits(self) -> bool:
        """True if the run has samples of more than one split."""
        return len(self._by_split) > 1

    @property
    def all_samples(self) -> int:
        """Number of samples that count, in all splits."""
        return sum(self.splits.values()) if self.has_splits else self.samples

    def in_split(self, split: str) -> Snapshot:
        """Return the snapshot for another split; the snapshot itself if the run does not have that split."""
        if split == self.split or split not in self._by_split:
            return self
        run, steps = self.name.removesuffix(display_name("", self.split)), self._by_split[split]
        steps = steps.by_rows if self._by_rows else steps
        return replace(self, name=display_name(run, split), split=split, steps=steps)

    @property
    def episodes(self) -> int:
        """Number of samples that count in this split, of which those of one episode count once."""
        return int(self.steps.episodes.sum())

    @property
    def all_episodes(self) -> int:
        """Number of samples that count in all splits, of which those of one episode count once."""
        by_split = self._by_split.values() if self.has_splits else [self.steps]
        return sum(int(steps.episodes.sum()) for steps in by_split)

    @property
    def has_episodes(self) -> bool:
        """True if an episode has several samples in this split, so `by_rows` has other statistics."""
        return self.steps.further is not None and bool(len(self.steps.further.values))

    @cached_property
    def by_rows(self) -> Snapshot:
        """The same snapshot with statistics that count the outcome of each row, not once per episode.

        The snapshot itself if no episode has several rows.
        """
        return self if self._further is None else replace(self, steps=self.steps.by_rows, _by_rows=True)

    @property
    def counts_rows(self) -> bool:
        """True if statistics count the outcome of each row, see `by_rows`."""
        return self._by_rows

    @property
    def further(self) -> np.ndarray | None:
        """Mask of the rows whose outcome statistics leave out, shape (rows,); None if there are none.

        They are the further outputs of an episode, of which the last output counts (see `EpisodeUnits`).
        """
        return None if self._further is None or self._by_rows else self._further.mask

    @property
    def discarded_steps(self) -> Steps:
        """Statistics of the samples that were discarded from this split."""
        return self._by_split.get(discarded_split(self.split), _NO_STEPS)

    @cached_property
    def with_discarded(self) -> Snapshot:
        """The same snapshot in which the rows that were discarded from this split count, too.

        Its `steps` remain those of this split, and rows of other steps do not count. The snapshot itself if
        nothing was discarded.
        """
        return replace(self, _with_discarded=True) if len(self.discarded_steps.values) else self

    @cached_property
    def discarded(self) -> np.ndarray:
        """Mask of the rows that were discarded from this split, shape (rows,)."""
        codes, names = self._labels[SPLIT_COLUMN]
        return limit_codes(codes, names) == split_code(discarded_split(self.split), names)

    @cached_property
    def _split_state(self) -> np.ndarray:
        """State of each row, with the rows of other splits marked as dead, shape (rows,)."""
        if not self.has_splits:
            return self.state
        codes, names = self._labels[SPLIT_COLUMN]
        in_split = limit_codes(codes, names) == split_code(self.split, names)
        if self._with_discarded:
            in_split |= self.discarded & np.isin(self._metadata["step"], self.steps.values)
        return np.where(in_split, self.state, np.uint8(DEAD))

    @property
    def alive_in_all_splits(self) -> np.ndarray:
        """Mask of the rows that count in their split, shape (rows,)."""
        return counts(self.state)

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """What this split's numbers depend on and the files do not tell, such as mixed-in evaluations."""
        found = (*self.own_remarks, *evaluation_remarks(self), *attempt_remarks(self), *group_remarks(self))
        return tuple(remark for remark in found if remark.split == self.split)

    @cached_property
    def alive(self) -> np.ndarray:
        """Mask of the rows that count, shape (rows,).

        Rows of other splits, replaced files and older attempts do not count, nor do duplicates.
        """
        return counts(self._split_state)

    @cached_property
    def older(self) -> int:
        """Number of samples of older attempts, which are stored but do not count."""
        return int(np.count_nonzero(self._split_state == OLDER))

    @cached_property
    def duplicates(self) -> int:
        """Number of samples excluded because they equal an earlier line, which cannot be a coincidence."""
        return int(np.count_nonzero(self._split_state == DUPLICATE))

    @cached_property
    def duplicate_rows(self) -> np.ndarray:
        """Row numbers of the samples excluded because they equal an earlier line."""
        return np.flatnonzero(self._split_state == DUPLICATE)

    @cached_property
    def repeats(self) -> int:
        """Number of samples that equal an earlier line but count, because it may be a coincidence."""
        return int(np.count_nonzero(self._split_state == REPEATED))

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """Names of the number columns, without aliases, filler columns and hidden columns for pooling."""
        return tuple(
            name for name in self._numbers if name not in pooling_columns() and not self._is_filler(name)
        )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the label columns, without those that only rows of replaced files have."""
        exists = self.state != DEAD
        if exists.all():
            return tuple(self._labels)
        return tuple(name for name, (codes, _) in self._labels.items() if (codes[exists] >= 0).any())

    def has_number(self, column: str) -> bool:
        """Return True if the number column has a finite value and is not mere filler."""
        name = ALIASES.get(column, column)
        return name in self.steps.columns and self.steps.has_value(name) and not self._is_filler(name)

    def _is_filler(self, column: str) -> bool:
        """Return True if the column holds only the zeros that trainers log in place of missing values."""
        if column not in zero_means_missing():
            return False
        if column not in self.steps.columns:  # only another split has it
            return True
        return not self.steps.has_value(column, nonzero=True)

    # -- rows ------------------------------------------------------------------------------------

    def number(self, column: str) -> np.ndarray:
        """Return a number column, shape (rows,)."""
        return self._numbers[ALIASES.get(column, column)]

    def counted(self, column: str, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return a number column at ``rows`` as statistics count it.

        An outcome, such as a reward, is NaN in the rows that are further outputs of an episode. Use `number`
        for the logged value of single samples.
        """
        values = self.number(column)[rows]
        if self.further is None or not is_outcome(ALIASES.get(column, column)):
            return values
        return np.where(self.further[rows], np.nan, values)

    def with_outcome(self, rows: np.ndarray) -> np.ndarray:
        """Return those of ``rows`` whose outcome counts: one of each episode."""
        return rows if self.further is None else rows[~self.further[rows]]

    def prompts(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return a hash of the prompt that the outcome at each of ``rows`` belongs to.

        It is the row's own prompt, or that of the episode's first row if an episode has several.
        """
        known = self._further is not None and not self._by_rows
        return (self._further.prompts if known and self._further else self._metadata["prompt_hash"])[rows]

    def is_stored(self, column: str) -> bool:
        """Return True if the run has a number column of this name, even without a finite value."""
        return column in self._numbers

    @property
    def group_codes(self) -> np.ndarray | None:
        """Code of each row's logged group, -1 if it has none; None if the run logs no groups."""
        return self._labels["group"][0] if "group" in self.labels else None

    def metadata(self, column: str) -> np.ndarray:
        """Return a metadata column, which every row has (step, rank, file, ...); shape (rows,)."""
        return self._metadata[column]

    def label(self, column: str, rows: np.ndarray) -> list[str | None]:
        """Return the texts of a label column at ``rows``; None where it was not logged."""
        codes, names = self._labels[column]
        return [names[code] if code >= 0 else None for code in codes[rows].tolist()]

    def label_codes(self, column: str) -> tuple[np.ndarray, list[str]]:
        """Return a label column as codes, shape (rows,), and the text of each code; -1 means "not logged"."""
        return self._labels[column]

    def rows_of(self, step: int | None, *, older: bool = False) -> np.ndarray:
        """Return the rows of a step (None: all steps) that count, in order of arrival.

        With ``older``, rows of older attempts are included.
        """
        if step is None and not older:
            return self.alive_rows
        known = self._known_rows.get((step, older))
        if known is None:
            mask = self.alive | (self._split_state == OLDER) if older else self.alive
            known = np.flatnonzero(mask if step is None else (self._metadata["step"] == step) & mask)
            if len(self._known_rows) >= MAX_KNOWN:
                self._known_rows.clear()
            self._known_rows[step, older] = known
        return known

    @cached_property
    def _known_rows(self) -> dict[tuple[int | None, bool], np.ndarray]:
        """Rows of the steps that were asked for last: all parts of a page ask for the same step."""
        return {}

    @cached_property
    def alive_rows(self) -> np.ndarray:
        """Row numbers of all rows that count."""
        return np.flatnonzero(self.alive)

    def sampled_rows(self, step: int, most: int, *, older: bool = False) -> np.ndarray:
        """Return at most ``most`` of a step's rows; the choice does not depend on their order of arrival.

        With ``older``, rows of older attempts are included.
        """
        return self.sample_rows(self.rows_of(step, older=older), most)

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

    # -- one sample ------------------------------------------------------------------------------

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


def _split_uid(uid: str) -> tuple[str, int, int]:
    """Return file, byte offset and part of a uid; an empty file name and -1 if it is malformed."""
    file, _, position = uid.rpartition(":")
    offset, _, part = position.partition("/")
    try:
        return file, int(offset), int(part or 0)
    except ValueError:
        return "", -1, -1


#: Seconds without a new line after which the newest step counts as complete.
IDLE_SECONDS = 1.0


def newest_complete_step(snapshot: Snapshot, now: float) -> int | None:
    """Return the newest step that is not still being written; None if there is no step.

    The last step counts as complete once it has the median number of samples of the five steps before it, or
    if no line has arrived for a second. Until then the step before it is returned.
    """
    steps, samples = snapshot.steps.values, snapshot.steps.samples
    if not len(steps):
        return None
    usual = median(samples[-6:-1].tolist()) if len(samples) > 1 else 0
    settled = now - snapshot.newest_line > IDLE_SECONDS
    return int(steps[-1] if settled or samples[-1] >= usual else steps[-2])
