"""Immutable data of a run at one version: columns, statistics by step, state of files, progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np

from rlpanel.metrics.engine.column_info import ALIASES, is_outcome, pooling_columns, zero_means_missing
from rlpanel.metrics.engine.constants import USUAL_CONSTANTS, Constants
from rlpanel.number_text import size_text
from rlpanel.sources.files.file_access import Unread
from rlpanel.sources.inference.inference import Inference
from rlpanel.store.columns.columns import StepsOfBlocks
from rlpanel.store.columns.related_rows import FurtherRows
from rlpanel.store.columns.row_table import DEAD, DUPLICATE, OLDER, REPEATED, counts
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
from rlpanel.store.snapshot.remarks import (
    Remark,
    attempt_remarks,
    evaluation_remarks,
    field_remarks,
    group_remarks,
)
from rlpanel.store.snapshot.sample_places import BadLineAt, SamplePlaces


@dataclass(frozen=True)
class Progress:
    """Reading progress of a run.

    Attributes
    ----------
    bytes_read, bytes_total : int
        Bytes on disk, summed over all files that exist. They stay different while a file's last line has no
        newline, since an unfinished line is not read.
    caught_up : bool
        True if all complete lines found at the last check were read, or if the user stopped the backlog.
    halted : bool
        True if the user stopped the reading of a backlog.
    rate : float
        Bytes per second over the last seconds; 0 if it is not known yet.
    """

    bytes_read: int = 0
    bytes_total: int = 0
    caught_up: bool = False
    halted: bool = False
    rate: float = field(default=0.0, compare=False)

    @property
    def waiting(self) -> int:
        """Number of unread bytes: the backlog, and unfinished lines at the ends of files."""
        return self.bytes_total - self.bytes_read

    @property
    def fraction(self) -> float:
        """Share of bytes that were read, between 0 and 1; 1 if there are no bytes."""
        return self.bytes_read / self.bytes_total if self.bytes_total else 1.0


def describe(done: int, total: int, rate: float) -> str:
    """Return the progress as text: ``34% of 10.2 GB · 512 MB/s · 13 s left``."""
    share = done / total if total else 1.0
    words = [f"{min(share, 1.0):.0%} of {size_text(total)}"]
    if rate > 0:
        words += [f"{size_text(rate)}/s", f"{_duration((total - done) / rate)} left"]
    return " · ".join(words)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 0.0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


#: Number of steps whose rows are remembered.
MAX_KNOWN = 8
_NO_STEPS = Steps()


@dataclass(frozen=True)
class Snapshot(SamplePlaces):
    """A run at one version. Row i is the same sample in every column; `alive` masks the rows that count.

    Attributes
    ----------
    version : int
        Increases with every commit.
    problems : tuple of str
        Messages about the files, folders and columns that cannot be read or shown at present.
    unread : tuple of Unread
        Files and folders that cannot be read at present; the run is incomplete while there are any.
    newer_writers : tuple of str
        Says which files were written by a newer version of their trainer than the tested one.
    empty_count : int
        Number of good lines that hold no sample, such as padding of a batch.
    restarts : tuple of int
        Steps at which a restarted job began another attempt (see `attempts`).
    newest_line : float
        Modification time of the file with the newest line, in seconds since the epoch; 0 before any line.
    scalars : Scalars
        The trainer's own scalar log, which has its own version.
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
    inferences : tuple of Inference
        What was inferred about files that no format describes.
    counts_rows : bool
        True if statistics count the outcome of each row, see `by_rows`.
    has_live : bool
        True if live files beside the log name rollouts that are being generated.
    """

    version: int = 0
    rows: int = 0
    steps: Steps = field(default_factory=Steps)
    bad_lines: tuple[BadLineAt, ...] = ()
    bad_count: int = 0
    blank_count: int = 0
    empty_count: int = 0
    problems: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    newer_writers: tuple[str, ...] = ()
    ranks: int = 0
    restarts: tuple[int, ...] = ()
    newest_line: float = 0.0
    progress: Progress = field(default_factory=Progress)
    scalars: Scalars = field(default_factory=Scalars)
    _numbers: dict[str, np.ndarray] = field(default_factory=dict)
    _labels: dict[str, tuple[np.ndarray, list[str]]] = field(default_factory=dict)
    constants: Constants = USUAL_CONSTANTS
    split: str = TRAIN
    shares_evaluation: Mapping[int, str] = field(default_factory=dict)
    once_per_step: Mapping[int, str] = field(default_factory=dict)
    own_remarks: tuple[Remark, ...] = ()
    inferences: tuple[Inference, ...] = ()
    _by_split: Mapping[str, Steps] = field(default_factory=dict)
    _with_discarded: bool = False
    _further: FurtherRows | None = None
    counts_rows: bool = False
    has_live: bool = False
    _blocks: StepsOfBlocks = field(default_factory=StepsOfBlocks)

    # -- counts, columns and rows -----------------------------------------------------------------------

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
        steps = steps.by_rows if self.counts_rows else steps
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
        return self if self._further is None else replace(self, steps=self.steps.by_rows, counts_rows=True)

    @property
    def further(self) -> np.ndarray | None:
        """Mask of the rows whose outcome statistics leave out, shape (rows,); None if there are none.

        They are the further outputs of an episode, of which the last output counts (see `EpisodeUnits`).
        """
        return None if self._further is None or self.counts_rows else self._further.mask

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
        return self._of_split(discarded_split(self.split))

    def _of_split(self, split: str) -> np.ndarray:
        """Return a mask of the rows of a split, shape (rows,)."""
        codes, names = self._labels[SPLIT_COLUMN]
        return limit_codes(codes, names) == split_code(split, names)

    @cached_property
    def _split_state(self) -> np.ndarray:
        """State of each row, with the rows of other splits marked as dead, shape (rows,)."""
        if not self.has_splits:
            return self.state
        in_split = self._of_split(self.split)
        if self._with_discarded:
            in_split |= self.discarded & np.isin(self._metadata["step"], self.steps.values)
        return np.where(in_split, self.state, np.uint8(DEAD))

    @property
    def alive_in_all_splits(self) -> np.ndarray:
        """Mask of the rows that count in their split, shape (rows,)."""
        return counts(self.state)

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """Notes on what this split's numbers depend on and the log lacks, such as mixed-in evaluations."""
        makers = (evaluation_remarks, attempt_remarks, group_remarks, field_remarks)
        found = chain(self.own_remarks, *(make(self) for make in makers))
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
        if column not in self._with_values:  # views, metrics and rules ask again and again
            name = ALIASES.get(column, column)
            self._with_values[column] = (
                name in self.steps.columns and self.steps.has_value(name) and not self._is_filler(name)
            )
        return self._with_values[column]

    @cached_property
    def _with_values(self) -> dict[str, bool]:
        return {}

    def _is_filler(self, column: str) -> bool:
        """Return True if the column holds only the zeros that trainers log in place of missing values."""
        known = column in self.steps.columns  # else only another split has it
        return column in zero_means_missing() and not (known and self.steps.has_value(column, nonzero=True))

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
        known = self._further is not None and not self.counts_rows
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
            known = np.flatnonzero(mask) if step is None else self._rows_at(np.array([step]), mask)
            if len(self._known_rows) >= MAX_KNOWN:
                self._known_rows.clear()
            self._known_rows[step, older] = known
        return known

    def rows_of_steps(self, steps: np.ndarray) -> np.ndarray:
        """Return the rows of ascending ``steps`` that count, in order of arrival."""
        return self._rows_at(steps, self.alive)

    def _rows_at(self, steps: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return self._blocks.rows(self._metadata["step"], steps, mask)

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


#: Seconds without a new line after which the newest step counts as complete.
IDLE_SECONDS = 1.0


def newest_complete_step(snapshot: Snapshot, now: float) -> int | None:
    """Return the newest step that is not still being written, see `Steps.newest_complete`; or None."""
    return snapshot.steps.newest_complete(settled=now - snapshot.newest_line > IDLE_SECONDS)
