"""Splits of a run: train, eval, ...; and the step statistics of each, updated in O(batch) as rows arrive.

A sample's split is the value of ``split`` in its line; a sample without it belongs to training. Splits are
separate throughout: for duplicates, for older attempts and for step statistics.

Steps are stored in chunks; a chunk that a snapshot may see is copied before it is written (copy on write).
Rows that come from the cache are only counted; the statistics of a column are computed when they are first
needed (`step_stats`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rlpanel.metrics.engine.column_info import is_outcome
from rlpanel.store.columns.columns import Labels
from rlpanel.store.columns.step_stats import (
    PART_ROWS,
    DeferredColumns,
    OutcomeColumn,
    RowsByStep,
    Steps,
    merge,
    summarize,
)

#: Steps per chunk: a commit that changes one step copies this many.
CHUNK = 64


class StepTable:
    """Statistics of all steps; each step has a slot, in order of arrival."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._slot: dict[int, int] = {}
        self._step_info = np.zeros((3, CHUNK), np.int64)  # step, samples, version of the last change
        self._chunks: list[np.ndarray] = []
        self._visible: set[int] = set()
        self._deferred: DeferredColumns | None = None

    def add(self, steps: np.ndarray, values: Mapping[str, np.ndarray], version: int) -> None:
        """Merge new rows into the statistics.

        Parameters
        ----------
        steps : ndarray of int, shape (N,)
        values : mapping of str to ndarray, shape (N,)
        version : int
            Recorded as the version that last changed these steps.
        """
        self.compute_deferred()
        if not len(steps):
            return
        rows = self._count(steps, version)
        if values:
            self._add_columns(values)
            self._merge(rows, values, self._writable)

    def add_deferred(
        self,
        rows: np.ndarray | None,
        steps: np.ndarray,
        values: Mapping[str, np.ndarray | OutcomeColumn],
        version: int,
    ) -> None:
        """Count new rows; the statistics of a column are computed when they are first needed.

        Parameters
        ----------
        rows : ndarray of int, optional
            The new rows among the N of the arrays; all by default.
        steps : ndarray of int, shape (N,)
        values : mapping of str to ndarray or OutcomeColumn, shape (N,)
            Must not change.
        version : int
            Recorded as the version that last changed these steps.
        """
        self.compute_deferred()
        parts: list[tuple[slice | np.ndarray, RowsByStep]] = []
        for start in range(0, len(steps) if rows is None else len(rows), PART_ROWS):
            some = slice(start, start + PART_ROWS)
            where = some if rows is None else rows[some]  # a slice is not copied
            parts.append((where, self._count(steps[where], version)))
        if parts and values:
            self._add_columns(values)
            chunks = self._chunks = [self._writable(index) for index in range(len(self._chunks))]
            self._deferred = DeferredColumns(
                lambda rows, columns: self._merge(rows, columns, chunks.__getitem__), parts, values
            )

    def compute_deferred(self, release: Callable[[], None] | None = None) -> None:
        """Compute the statistics that `add_deferred` left; ``release`` is called now and then."""
        if self._deferred is not None:
            self._deferred.compute_all(release)
            self._deferred = None

    def clear(self, steps: np.ndarray, version: int) -> None:
        """Reset these steps. A merge cannot subtract, so the caller adds the remaining rows again."""
        self.compute_deferred()
        for step in np.unique(steps).tolist():
            slot = self._slot.get(step)
            if slot is None:
                continue
            self._writable(slot // CHUNK)[:, :, slot % CHUNK] = _EMPTY
            self._step_info[1:, slot] = 0, version

    def freeze(self) -> Steps:
        """Return an immutable view; later writes go to copies."""
        self._visible = set(range(len(self._chunks)))
        steps, samples, touched = self._step_info[:, : len(self._slot)].copy()
        return Steps(tuple(self._columns), steps, samples, touched, tuple(self._chunks), self._deferred)

    def _count(self, steps: np.ndarray, version: int) -> RowsByStep:
        """Count new rows of these steps, and return them sorted by step."""
        order = None if (steps[1:] >= steps[:-1]).all() else np.argsort(steps, kind="stable")
        steps = steps if order is None else steps[order]
        starts = np.concatenate([[0], np.flatnonzero(steps[1:] != steps[:-1]) + 1])
        slots = np.array([self._slot_of(step) for step in steps[starts].tolist()], dtype=np.int64)
        self._step_info[1, slots] += np.diff(np.append(starts, len(steps)))
        self._step_info[2, slots] = version
        if order is not None and len(order) <= PART_ROWS:
            order = order.astype(np.uint16)  # deferred columns keep it
        return RowsByStep(order, starts, slots)

    def _merge(
        self,
        rows: RowsByStep,
        values: Mapping[str, np.ndarray],
        chunk_at: Callable[[int], np.ndarray],
    ) -> None:
        """Merge the statistics of rows into chunks, which ``chunk_at`` returns by number."""
        order, starts, slots = rows
        stats = summarize([column if order is None else column[order] for column in values.values()], starts)
        column_indices = np.array([self._columns[name] for name in values])
        chunk_numbers = slots // CHUNK
        for index in np.unique(chunk_numbers).tolist():
            in_chunk = chunk_numbers == index
            cells = np.ix_(np.arange(5), column_indices, slots[in_chunk] % CHUNK)
            chunk = chunk_at(index)
            chunk[cells] = merge(chunk[cells], stats[:, :, in_chunk])

    def _slot_of(self, step: int) -> int:
        slot = self._slot.get(step)
        if slot is None:
            slot = self._slot[step] = len(self._slot)
            if slot // CHUNK == len(self._chunks):
                self._chunks.append(_empty(len(self._columns)))
            if slot == self._step_info.shape[1]:
                self._step_info = np.concatenate([self._step_info, np.zeros_like(self._step_info)], axis=1)
            self._step_info[0, slot] = step
        return slot

    def _add_columns(self, columns: Iterable[str]) -> None:
        names = [name for name in columns if name not in self._columns]
        if names:
            self._columns |= {name: index for index, name in enumerate(names, len(self._columns))}
            self._chunks = [np.concatenate([chunk, _empty(len(names))], axis=1) for chunk in self._chunks]
            self._visible.clear()

    def _writable(self, index: int) -> np.ndarray:
        if index in self._visible:
            self._chunks[index] = self._chunks[index].copy()
            self._visible.discard(index)
        return self._chunks[index]


#: Statistics of an empty set of rows.
_EMPTY = np.array([[0.0], [np.nan], [np.nan], [np.nan], [np.nan]])


def _empty(columns: int) -> np.ndarray:
    """Return a chunk whose steps have no rows."""
    return np.tile(_EMPTY[:, :, None], (1, columns, CHUNK))


TRAIN = "train"
#: Split of samples that were not trained on; those of another split are in ``discarded <split>``.
DISCARDED = "discarded"

#: Name of the label column that holds the split.
SPLIT_COLUMN = "split"
#: Code of training samples, whether their lines name the split or not.
TRAIN_CODE = -1
#: Number of separate splits, in order of appearance; the statistics of each cost memory.
MAX_SPLITS = 16
#: Name and code that all further splits share.
REST, REST_CODE = "(other splits)", -2

RowSelector = slice | np.ndarray
#: Pairs of a split's name and its rows.
SplitRows = list[tuple[str, RowSelector]]


def is_evaluation_split(split: str) -> bool:
    """Return whether a split holds evaluations of the policy, not training or discarded samples."""
    return split not in ("", TRAIN) and not split.startswith(DISCARDED)


def limit_codes(codes: np.ndarray, names: list[str]) -> np.ndarray:
    """Return split codes with one code for all training samples and one for splits beyond the limit."""
    if TRAIN in names:
        codes = np.where(codes == names.index(TRAIN), TRAIN_CODE, codes)
    return np.where(codes >= MAX_SPLITS, REST_CODE, codes) if len(names) > MAX_SPLITS else codes


def split_name(code: int, names: list[str]) -> str:
    """Return the name of the split with this code."""
    return {TRAIN_CODE: TRAIN, REST_CODE: REST}.get(code) or names[code]


def split_code(split: str, names: list[str]) -> int:
    """Return the code that `limit_codes` gives to rows of this split."""
    if split == TRAIN:
        return TRAIN_CODE
    return names.index(split) if split in names else REST_CODE


def group_rows(codes: np.ndarray, names: list[str]) -> SplitRows:
    """Group rows by split.

    Parameters
    ----------
    codes : ndarray of int, shape (N,)
        As returned by `limit_codes`; codes of names change when the table is compacted.
    names : list of str
    """
    present = np.unique(codes).tolist()
    if len(present) == 1:
        return [(split_name(present[0], names), slice(None))]
    return [(split_name(code, names), np.flatnonzero(codes == code)) for code in present]


def split_codes(
    labels: Mapping[str, Labels], rows: int, where: RowSelector
) -> tuple[np.ndarray, list[str]] | None:
    """Return codes and names of the splits of some rows; None if no line has a split."""
    column = labels.get(SPLIT_COLUMN)
    return (
        None if column is None else (limit_codes(column.codes.view(rows)[where], column.names), column.names)
    )


def default_split(by_split: Mapping[str, Steps]) -> str:
    """Return the split shown by default: training if there is any, else the one with the most samples."""
    if TRAIN in by_split or not by_split:
        return TRAIN
    return min(by_split, key=lambda name: (-int(by_split[name].samples.sum()), name))


def discarded_split(split: str) -> str:
    """Return the name of the split of samples that were discarded from a split."""
    return DISCARDED if split == TRAIN else f"{DISCARDED} {split}"


def display_name(run: str, split: str) -> str:
    """Return the name of a run while one of its splits is shown, such as ``run · eval``."""
    return run if split == TRAIN else f"{run} · {split}"


class SplitSteps:
    """Step statistics and number of rows of each split; dead rows are not counted.

    Further outputs of an episode have a table of their own. In the table of all rows their outcomes are
    missing, so both together give the statistics by row.
    """

    def __init__(self) -> None:
        self._tables: dict[str, StepTable] = {}
        self._further: dict[str, StepTable] = {}
        self._rows: Counter[str] = Counter()

    def count(self, parts: SplitRows, rows: int, sign: int = 1) -> None:
        """Count ``rows`` rows in total as added, or as dead (sign -1)."""
        for name, where in parts:
            self._rows[name] += sign * (rows if isinstance(where, slice) else len(where))

    def add(
        self,
        parts: SplitRows,
        steps: np.ndarray,
        values: Mapping[str, np.ndarray],
        version: int,
        further: np.ndarray | None = None,
    ) -> None:
        """Add new rows to the statistics of their splits, see `StepTable.add`.

        ``further`` is a mask of the rows that are further outputs of an episode.
        """
        if further is not None and further.any():
            outcomes = {name: column for name, column in values.items() if is_outcome(name)}
            values = {**values, **{name: np.where(further, np.nan, outcomes[name]) for name in outcomes}}
            for name, where in parts:
                also = further[where]
                if also.any():
                    part = {column: numbers[where][also] for column, numbers in outcomes.items()}
                    _table(self._further, name).add(steps[where][also], part, version)
        for name, where in parts:
            part = {column: numbers[where] for column, numbers in values.items()}
            _table(self._tables, name).add(steps[where], part, version)

    def add_deferred(
        self,
        parts: Sequence[tuple[str, np.ndarray | None]],
        steps: np.ndarray,
        values: Mapping[str, np.ndarray],
        version: int,
        further: np.ndarray | None = None,
    ) -> None:
        """Count the rows of each split, all rows if they are None, see `StepTable.add_deferred`.

        ``further`` is as for `add`.
        """
        masked: Mapping[str, np.ndarray | OutcomeColumn] = values
        if further is not None and further.any():
            outcomes = {name: column for name, column in values.items() if is_outcome(name)}
            masked = {**values, **{name: OutcomeColumn(outcomes[name], further) for name in outcomes}}
            for name, rows in parts:
                also = np.flatnonzero(further) if rows is None else rows[further[rows]]
                if len(also):
                    _table(self._further, name).add_deferred(also, steps, outcomes, version)
        for name, rows in parts:
            _table(self._tables, name).add_deferred(rows, steps, masked, version)

    def compute_deferred(self, release: Callable[[], None] | None = None) -> None:
        """Compute the statistics that `add_deferred` left, see `StepTable.compute_deferred`."""
        for table in (*self._tables.values(), *self._further.values()):
            table.compute_deferred(release)

    def clear(self, steps: np.ndarray, version: int) -> None:
        """Reset the statistics of these steps, see `StepTable.clear`."""
        for table in (*self._tables.values(), *self._further.values()):
            table.clear(steps, version)

    def freeze(self) -> dict[str, Steps]:
        """Return an immutable view of the statistics of each split that has rows, by name."""
        frozen = {name: _table(self._tables, name).freeze() for name, rows in self._rows.items() if rows}
        return {
            name: replace(steps, further=self._further[name].freeze()) if name in self._further else steps
            for name, steps in frozen.items()
        }


def _table(tables: dict[str, StepTable], split: str) -> StepTable:
    if split not in tables:
        tables[split] = StepTable()
    return tables[split]
