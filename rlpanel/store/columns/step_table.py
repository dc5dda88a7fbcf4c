"""Step statistics that are updated in O(batch) as rows arrive.

Steps are stored in chunks; a chunk that a snapshot may see is copied before it is written (copy on write).
Rows that come from the cache are only counted; the statistics of a column are computed when they are first
needed (`deferred_columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from rlpanel.store.columns.deferred_columns import (
    PART_ROWS,
    DeferredColumns,
    OutcomeColumn,
    RowsByStep,
)
from rlpanel.store.columns.step_stats import Steps, merge, summarize

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
