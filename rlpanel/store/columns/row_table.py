"""Table of a run: all rows, the state of each row (counted, duplicate, older attempt, dead), step statistics.

The values of a row never change, but its state may. When a file is replaced, its rows become dead. When a
job is restarted, rows of the older attempt are excluded. If equal lines cannot be a coincidence, only one of
them counts, and rows that a later table repeats do not. The statistics of the steps concerned are
then recomputed from the rows that count. Of the rows of an episode, the outcome of the last one counts (see
`EpisodeUnits`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from rlpanel.metrics.engine.compute import derive_columns
from rlpanel.settings import TableLimits
from rlpanel.sources.records.record_types import (
    Adapter,
    Chunk,
    Locator,
    once_per_step,
    repeats_rows,
    shares_evaluation,
)
from rlpanel.store.columns.attempts import Attempts, LineSequence
from rlpanel.store.columns.columns import Column, Columns
from rlpanel.store.columns.related_rows import (
    EpisodeUnits,
    HashSet,
    equal_before,
    is_copy,
    mix,
    repeated_rows,
)
from rlpanel.store.columns.row_builder import RowBuilder, Rows
from rlpanel.store.columns.splits import (
    MAX_SPLITS,
    SPLIT_COLUMN,
    TRAIN,
    TRAIN_CODE,
    RowSelector,
    SplitRows,
    SplitSteps,
    group_rows,
    split_codes,
)

#: States of a row. `COUNTED` and `REPEATED` rows count as samples; `REPEATED` ones equal an earlier line, but
#: plausibly by chance. `DEAD`: the line no longer exists. `DUPLICATE`: the sample was logged twice. `OLDER`:
#: the row belongs to an older attempt.
DEAD, COUNTED, REPEATED, DUPLICATE, OLDER = range(5)

#: A response with this surprisal in nats is never sampled twice: its probability is below 1 in 10^27.
#: Length is no criterion: a collapsed policy samples the same long response repeatedly, and those count.
DUPLICATE_SURPRISAL = 64.0
#: Numbers that equal rows of two tables have in common, besides prompt and response.
_TABLE_NUMBERS = frozenset({"reward", "advantage"})
#: Pending rows from which on they are added to the table at once.
PENDING_ROWS = 32_768


class RowTable:
    """Rows of a run with their states and step statistics.

    Parameters
    ----------
    limits : TableLimits, optional

    Attributes
    ----------
    files : list of str
        Names by file number. Of two equal lines the first by name and offset counts.
    tables : set of int
        Numbers of the files whose lines repeat rows of the lines before (`repeated_rows`).
    once_per_step : dict of int to str
        What is logged once per step in a file, by its number (`record_types.once_per_step`).
    shares_evaluation : dict of int to str
        How evaluations get into a file without a mark, by its number.
    columns : Columns
    steps : SplitSteps
        Step statistics of the rows that count, per split.
    state : ndarray of uint8
        State of each row, with spare capacity at the end; copied before a visible value changes.
    ranks : Counter
        Number of rows per rank, dead ones excluded.
    attempts : Attempts
    units : EpisodeUnits
        The rows that are further outputs of an episode, among those that count.
    stage : RowBuilder
        Builder with the records that were read and are not rows yet.
    backlog_starts : dict of int to int
        Files with unread ranges, with the offset of the first. From there on lines arrive in any order, and
        are numbered from the start of their range until `finish_file` is called.
    """

    def __init__(self, limits: TableLimits | None = None) -> None:
        self._limits = limits or TableLimits()
        self.files: list[str] = []
        self.tables: set[int] = set()
        self.once_per_step: dict[int, str] = {}
        self.shares_evaluation: dict[int, str] = {}
        self.columns = Columns()
        self.steps = SplitSteps()
        self.state = np.zeros(1024, np.uint8)
        self.ranks: Counter[int] = Counter()
        self.attempts = Attempts(self.files, self.once_per_step, self.tables)
        self.units = EpisodeUnits(self.files)
        self.stage = RowBuilder()
        self.backlog_starts: dict[int, int] = {}
        self._seen = HashSet()

    def note_format(self, file: int, adapter: Adapter) -> None:
        """Note what the format of a file means for its rows, before they are added."""
        if repeats_rows(adapter):
            self.tables.add(file)
        else:
            self.tables.discard(file)
        for known, text in (
            (self.once_per_step, once_per_step(adapter)),
            (self.shares_evaluation, shares_evaluation(adapter)),
        ):
            known.pop(file, None)
            if text:
                known[file] = text

    def add_chunk(self, file: int, chunk: Chunk, version: int) -> None:
        """Add the records of a chunk read from file number ``file``; they become rows now or later."""
        self.stage.add_chunk(file, chunk)
        if len(self.stage) >= PENDING_ROWS:
            self.add_staged(version)

    def add_rows(self, rows: Rows, version: int) -> None:
        """Add rows that another builder gathered, as worker processes return them."""
        self.stage.add_rows(rows)
        if len(self.stage) >= PENDING_ROWS:
            self.add_staged(version)

    def open_files(self, files: Mapping[int, int], version: int) -> None:
        """Declare files with unread ranges: from an offset on, lines arrive unordered and unnumbered."""
        self.add_staged(version)
        self.backlog_starts |= files

    def finish_file(self, file: int, starts: np.ndarray, before: np.ndarray, version: int) -> None:
        """Assign line numbers and find restarts once a file has no unread ranges.

        Parameters
        ----------
        file : int
        starts, before : ndarray of int, shape (P,)
            Offsets of the ranges, ascending, and the number of lines before each.
        version : int
        """
        self.add_staged(version)
        self.backlog_starts.pop(file, None)
        rows = self._rows_in_order(file)
        part = np.searchsorted(starts, self._column("offset")[rows], "right") - 1
        moved, part = rows[part >= 0], part[part >= 0]
        self.columns.renumber(moved, self._column("line")[moved] + before[part])
        self._find_attempts_in(file, rows, version)

    def count_rows(self, file: int) -> int:
        """Return the number of rows of a file that exist, also of those that do not count; none is staged."""
        return int(np.count_nonzero((self._column("file") == file) & self._is_alive()))

    def locators(self, file: int, offsets: Iterable[int]) -> list[Locator]:
        """Return the lines of a file that begin at these offsets, if rows came from them."""
        begins = self._column("offset")
        rows = np.flatnonzero((self._column("file") == file) & np.isin(begins, list(offsets)))
        rows = rows[self._state()[rows] != DEAD]
        rows = rows[np.unique(begins[rows], return_index=True)[1]]
        places = [self._column(name)[rows].tolist() for name in Locator._fields]
        return list(map(Locator, *places))

    def replace_lines(self, file: int, chunk: Chunk, version: int) -> None:
        """Replace the rows of lines that were read again, of a file without unread ranges."""
        self.add_staged(version)
        offsets = [line.offset for line in chunk.locators] + [line.offset for line in chunk.bad]
        is_replaced = (self._column("file") == file) & np.isin(self._column("offset"), offsets)
        self._bury(np.flatnonzero(is_replaced & self._is_alive()), set(), version)
        self.backlog_starts[file] = 0  # the lines come again in any order
        self.add_chunk(file, chunk, version)
        self.add_staged(version)
        del self.backlog_starts[file]
        self._find_attempts_in(file, self._rows_in_order(file), version)

    def _rows_in_order(self, file: int) -> np.ndarray:
        """Return the living rows of a file in the order of its lines."""
        rows = np.flatnonzero((self._column("file") == file) & self._is_alive())
        return rows[np.argsort(self._column("offset")[rows], kind="stable")]

    def _find_attempts_in(self, file: int, rows: np.ndarray, version: int) -> None:
        """Find the restarts among all rows of a file anew."""
        changed = self._classify_attempts(self.attempts.read_file(self.columns, file, rows, self._is_alive))
        if changed:
            self._recount_steps(changed, version)

    def add_staged(self, version: int) -> None:
        """Turn pending records into rows; their steps are marked as changed in ``version``."""
        new = self.stage.flush()
        if new is not None:
            self.add(new, version)

    def add(self, new: Rows, version: int) -> None:
        """Append rows; those of one file in line order, unless the file has unread ranges."""
        where = self.columns.append(new.metadata, new.numbers, new.labels)
        if where.stop > len(self.state):
            grown = np.zeros(max(where.stop, 2 * len(self.state)), np.uint8)
            grown[: where.start] = self.state[: where.start]
            self.state = grown
        self.state[where] = COUNTED
        self.ranks.update(new.metadata["rank"].tolist())
        parts = self._group_by_split(where)
        self.steps.count(parts, len(new))
        changed = self._find_restarts(where)
        changed |= self._mark_repeats(new)
        changed |= self.units.add(self.columns, where)
        if len(changed):
            self._recount_steps(changed | set(new.metadata["step"].tolist()), version)
        else:
            self.steps.add(parts, new.metadata["step"], new.numbers, version, self._further(where))

    @property
    def has_repeats(self) -> bool:
        """True if one of the lines repeats an earlier one."""
        return self._seen.has_repeats

    def restore(self, columns: Columns, version: int, *, has_repeats: bool = True) -> None:
        """Start from saved rows, whose files are in `files` already.

        Parameters
        ----------
        columns : Columns
        version : int
        has_repeats : bool
            False if no row repeats the line of another; then none is looked for.
        """
        rows = columns.rows
        numbers = {name: column.view(rows) for name, column in columns.numbers.items()}
        self.stage.declare_columns(numbers, columns.labels)
        for name, values in derive_columns(numbers, self.stage.constants).items():
            columns.numbers[name] = Column(np.float64, np.nan)
            columns.numbers[name].write(0, values)
        self.columns, self.state = columns, np.full(max(1024, rows), COUNTED, np.uint8)
        if not rows:
            return
        ranks, row_counts = np.unique(self._column("rank"), return_counts=True)
        self.ranks = Counter(dict(zip(ranks.tolist(), row_counts.tolist(), strict=True)))
        self.steps.count(self._group_by_split(slice(None)), rows)
        saved = Rows({name: self._column(name) for name in Columns.METADATA}, {}, {})
        self._find_restarts(slice(0, rows))
        if has_repeats or self.tables:
            self._mark_repeats(saved)
        else:
            self._seen.add_later(lambda: _keys_of(saved))
        self.units.restart(columns)
        self._recount_all(version)

    def add_columns(self, found: Mapping[str, np.ndarray], version: int) -> None:
        """Add backfilled columns to the first rows, and the columns derived from them.

        Parameters
        ----------
        found : mapping of str to ndarray of float, shape (N,)
            Values of the first N rows; rows added later keep their own.
        version : int
        """
        self.add_staged(version)
        rows, numbers = self.columns.rows, self.columns.numbers
        for name, values in found.items():
            later = numbers[name].view(rows)[len(values) :] if name in numbers else np.empty(0)
            numbers[name] = Column(np.float64, np.nan)
            numbers[name].write(0, np.concatenate([values, later]))
        current = {name: column.view(rows) for name, column in numbers.items()}
        for name, values in derive_columns(current, self.stage.constants).items():
            numbers[name] = Column(np.float64, np.nan)
            numbers[name].write(0, values)
        self.steps.clear(self._column("step"), version)
        self._recount_all(version)

    def _recount_all(self, version: int) -> None:
        """Count all rows that count; the statistics of a column are computed when they are first needed."""
        rows = self.columns.rows
        counted = np.flatnonzero(counts(self._state()))
        self.units.classify(self.columns, counted)
        parts: list[tuple[str, np.ndarray | None]] = []
        for split, where in self._group_by_split(counted):
            of_split = counted[where]
            parts.append((split, None if len(of_split) == rows else of_split))
        values = {name: column.view(rows) for name, column in self.columns.numbers.items()}
        self.steps.add_deferred(parts, self._column("step"), values, version, self._further(slice(0, rows)))
        self.columns.release()

    def compute_statistics(self) -> None:
        """Compute the step statistics that were not needed so far."""
        self.steps.compute_deferred(self.columns.release)

    def mark_dead(self, files: Iterable[int], version: int) -> None:
        """Mark the rows of these files as dead."""
        self.add_staged(version)
        numbers = set(files)
        self.backlog_starts = {
            file: start for file, start in self.backlog_starts.items() if file not in numbers
        }
        dead = np.flatnonzero(np.isin(self._column("file"), list(numbers)) & self._is_alive())
        self._bury(dead, numbers, version)

    def _bury(self, dead: np.ndarray, files: Collection[int], version: int) -> None:
        """Mark rows as dead; ``files`` are those of which no row is left."""
        if len(dead):
            self._set_state(dead, DEAD)
        changed = self.attempts.drop_files(self.columns, files, self._is_alive)
        if not len(dead):
            return
        self.ranks -= Counter(self._column("rank")[dead].tolist())
        self.steps.count(self._group_by_split(dead), len(dead), -1)
        touched = set(self._column("step")[dead].tolist())
        touched |= self._classify_attempts(changed)
        self._classify_repeats(touched)
        self._recount_steps(touched, version)
        if np.count_nonzero(self._state() == DEAD) > max(self._limits.dead_rows, self.columns.rows // 2):
            self._compact(version)

    # -- inside ----------------------------------------------------------------------------------

    def _column(self, name: str) -> np.ndarray:
        return self.columns.metadata[name].view(self.columns.rows)

    def _state(self) -> np.ndarray:
        return self.state[: self.columns.rows]

    def _is_alive(self) -> np.ndarray:
        return self._state() != DEAD

    def _split_codes(self, where: RowSelector) -> np.ndarray:
        """Return the split code of some rows; codes change when the table is compacted."""
        codes_and_names = split_codes(self.columns.labels, self.columns.rows, where)
        if codes_and_names is None:
            return np.full(len(self._column("file")[where]), TRAIN_CODE)
        return codes_and_names[0]

    def _group_by_split(self, where: RowSelector) -> SplitRows:
        """Return some rows grouped by split."""
        codes_and_names = split_codes(self.columns.labels, self.columns.rows, where)
        return [(TRAIN, slice(None))] if codes_and_names is None else group_rows(*codes_and_names)

    def _further(self, where: RowSelector) -> np.ndarray | None:
        """Return a mask of the further outputs of episodes among some rows; None if no row is one."""
        found = self.units.further(self.columns.rows)
        return None if found is None else found.mask[where]

    def _set_state(self, rows: np.ndarray, state: int | np.ndarray) -> None:
        self.state = self.state.copy()  # snapshots still refer to the old array
        self.state[rows] = state

    def _recount_steps(self, steps: set[int], version: int) -> None:
        """Recompute the statistics of these steps from the rows that count: a merge cannot subtract."""
        step_of_row = self._column("step")
        self.steps.clear(np.array(sorted(steps)), version)
        rows = np.flatnonzero(np.isin(step_of_row, list(steps)) & counts(self._state()))
        if len(rows):
            self.units.classify(self.columns, rows)
            numbers = self.columns.numbers.items()
            values = {name: column.view(self.columns.rows)[rows] for name, column in numbers}
            parts = self._group_by_split(rows)
            self.steps.add(parts, step_of_row[rows], values, version, self._further(rows))

    def _compact(self, version: int) -> None:
        """Compact the table: drop the dead rows."""
        living = np.flatnonzero(self._state() != DEAD)
        state = np.zeros(max(1024, len(living)), np.uint8)
        state[: len(living)] = self._state()[living]
        splits = self.columns.labels.get(SPLIT_COLUMN)
        was_full = splits is not None and len(splits.names) > MAX_SPLITS
        self.columns, self.state = self.columns.select(living), state
        self._seen = HashSet()
        self._seen.add(_keys_of(Rows({name: self._column(name) for name in Columns.METADATA}, {}, {})))
        self.units.restart(self.columns)
        self.units.classify(self.columns, np.flatnonzero(counts(self._state())))
        if was_full:  # the dropped rows may have made room for other splits
            self._classify_attempts(self.attempts.drop_files(self.columns, (), self._is_alive))
            self.steps = SplitSteps()
            self.steps.count(self._group_by_split(slice(None)), self.columns.rows)
            self._recount_all(version)

    # -- attempts --------------------------------------------------------------------------------

    def _find_restarts(self, new: slice) -> set[int]:
        """Find restarts among new rows, and mark the rows of older attempts; return the changed steps."""
        unordered = self.backlog_starts.keys()
        return self._classify_attempts(self.attempts.add(self.columns, new, self._is_alive, unordered))

    def _classify_attempts(self, sequences: set[LineSequence]) -> set[int]:
        """Set which rows of these sequences belong to older attempts; return the changed steps."""
        if not sequences:
            return set()
        rows, older = self.attempts.rows_in(self.columns, sequences, self._is_alive())
        other = older != (self.state[rows] == OLDER)
        if not other.any():
            return set()
        rows, older = rows[other], older[other]
        self._set_state(rows, np.where(older, OLDER, COUNTED))
        changed = set(self._column("step")[rows].tolist())
        self._classify_repeats(changed)
        return changed

    # -- duplicates ------------------------------------------------------------------------------

    def _mark_repeats(self, new: Rows) -> set[int]:
        """Find new lines that repeat earlier ones; return the steps in which other rows count now."""
        place = new.metadata
        repeats = self._seen.add(_keys_of(new))
        if self.tables:
            repeats |= np.isin(place["file"], list(self.tables))
        return self._classify_repeats(set(place["step"][repeats].tolist()))

    def _classify_repeats(self, steps: set[int]) -> set[int]:
        """Set the states of equal lines and of repeated tables in these steps.

        The first one by file and offset counts. The others count if their responses are probable enough to be
        sampled twice, or if one recorder wrote them to one file; but not if their table repeats them. Returns
        the steps in which other rows count now.
        """
        if not steps:
            return set()
        rows = np.flatnonzero(np.isin(self._column("step"), list(steps)) & (self._state() != DEAD))
        rows = rows[self.state[rows] != OLDER]
        if not len(rows):
            return set()
        step, line_hash, part, file, offset = (
            self._column(name)[rows] for name in ("step", "hash", "part", "file", "offset")
        )
        line = [step, self._split_codes(rows), line_hash, part]
        by_name = np.argsort(np.argsort(np.array(self.files, dtype=object)))[file]
        is_repeat = equal_before(line, [by_name, offset]) > 0
        state = np.where(is_repeat, REPEATED, COUNTED)
        is_improbable = self._is_improbable(rows)
        if (is_repeat & is_improbable).any():
            has_session = self.attempts.has_session(self.columns, rows)
            state[is_improbable & is_copy(line, by_name, offset, has_session)] = DUPLICATE
        if self.tables:
            state[self._is_in_table_before(rows)] = DUPLICATE
        changed = counts(state) != counts(self.state[rows])
        if (state != self.state[rows]).any():
            self._set_state(rows, state)
        return set(step[changed].tolist())

    def _is_in_table_before(self, rows: np.ndarray) -> np.ndarray:
        """Return a mask of rows that their table repeats from the table before."""
        is_repeated = np.isin(self._column("file")[rows], list(self.tables))
        rows = rows[is_repeated]
        place = {name: self._column(name)[rows] for name in ("file", "step", "offset", "part")}
        key = mix(self._column("prompt_hash")[rows]) ^ self._column("response_hash")[rows]
        for name in _TABLE_NUMBERS & self.columns.numbers.keys():
            values = self.columns.numbers[name].view(self.columns.rows)[rows]
            key ^= mix(values.view(np.uint64) ^ np.uint64(len(name)))
        is_repeated[is_repeated] = repeated_rows(place, key)
        return is_repeated

    def _is_improbable(self, rows: np.ndarray) -> np.ndarray:
        """Return a mask of responses too improbable to be sampled twice; all False without logprobs."""
        surprisal = self.columns.numbers.get("surprisal_sum")
        if surprisal is None:
            return np.zeros(len(rows), bool)
        return surprisal.view(self.columns.rows)[rows] >= DUPLICATE_SURPRISAL


def counts(state: np.ndarray) -> np.ndarray:
    """Return a mask of the rows that count as samples."""
    return (state == COUNTED) | (state == REPEATED)


def _keys_of(rows: Rows) -> np.ndarray:
    """Combine line hash, step and part into one key per row."""
    line, step, part = (rows.metadata[name] for name in ("hash", "step", "part"))
    return line ^ mix(step.astype(np.uint64) ^ (part.astype(np.uint64) << np.uint64(48)))
