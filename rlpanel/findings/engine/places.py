"""Places in which a problem may hold, and the means of signals by place and step, with their errors.

A place is the whole run, a rank, or a category of a label. Samples of one group share a prompt, so they are
not independent: the error of a step's mean is computed from the groups' sums of residuals. Means are computed
block by block; results of steps that did not change are reused.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from rlpanel.findings.engine.signal import RowBatch, Signal, StepBlocks
from rlpanel.findings.engine.window_scan import Base, Scan
from rlpanel.store.query.filter_syntax import quote
from rlpanel.store.snapshot.run_view import RunView

T = TypeVar("T")
#: A label with more values than this is an identifier, not a category.
_MAX_VALUES = 20
#: Most labels whose values are tried.
_MAX_LABELS = 6
#: Labels that are a result or describe the logging, and do not say where a sample comes from.
_NO_CATEGORY = frozenset({"group", "finish_reason", "split", "status", "stop_reason", "answer", "response"})
#: Dimension of the whole run, and of the ranks.
WHOLE, RANK = "", "rank"


@dataclass(frozen=True)
class Place:
    """A part of the samples.

    Attributes
    ----------
    dimension : str
        Empty for the whole run, ``rank``, or the name of a label.
    value : str
        The rank or the label's value; empty for the whole run.
    """

    dimension: str = WHOLE
    value: str = ""

    def __bool__(self) -> bool:
        return self.dimension != WHOLE

    @property
    def rank(self) -> int | None:
        """The rank; None if the place is none."""
        return int(self.value) if self.dimension == RANK else None

    @property
    def category(self) -> str:
        """The category, such as ``lang = zh``; empty if the place is none."""
        return f"{self.dimension} = {self.value}" if self.dimension not in {WHOLE, RANK} else ""

    @property
    def text(self) -> str:
        """The place in words: ``rank 1`` or ``lang = zh``; empty for the whole run."""
        return f"rank {self.value}" if self.dimension == RANK else self.category

    @property
    def where(self) -> str:
        """Filter expression for its samples; empty for the whole run, or if the name has no expression."""
        if self.dimension == RANK:
            return f"rank == {self.value}"
        if not self.dimension or "`" in self.dimension:
            return ""
        name = self.dimension if self.dimension.isidentifier() else f"`{self.dimension}`"
        return f"{name} == {quote(self.value)}"


#: The place that has all samples.
WHOLE_RUN = Place()


def places_of(rows: RowBatch) -> tuple[Place, ...]:
    """Return the whole run, its ranks if there are several, and its categories, from all rows of a run."""
    found = [WHOLE_RUN]
    rank = rows.metadata("rank")
    # Most runs have one rank in long stretches: the values at the stretches' starts are all there are.
    ranks = np.unique(rank[np.flatnonzero(np.diff(rank, prepend=rank[:1] - 1))] if len(rank) else rank)
    if len(ranks) > 1:
        found += [Place(RANK, str(rank)) for rank in ranks.tolist()]
    snapshot = rows.view.snapshot
    labels = 0
    for name in snapshot.labels:
        if name in _NO_CATEGORY or labels == _MAX_LABELS:
            continue
        codes, names = rows.label_codes(name)
        counts = np.bincount(codes + 1, minlength=len(names) + 1)[1:]
        used = np.flatnonzero(counts)
        if 2 <= len(used) <= _MAX_VALUES:
            found += [Place(name, names[code]) for code in used.tolist()]
            labels += 1
    return tuple(found)


def rows_by_dimension(places: Sequence[Place]) -> dict[str, np.ndarray]:
    """Return the positions of the places of each dimension."""
    names = np.array([place.dimension for place in places])
    return {name: np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}


def codes_of(rows: RowBatch, places: Sequence[Place]) -> np.ndarray:
    """Return the position in ``places`` of each row's place, shape (N,); -1 for another one or none.

    The places belong to one dimension.
    """
    dimension = places[0].dimension
    if dimension == WHOLE:
        return np.zeros(len(rows), np.int64)
    if dimension == RANK:
        ranks = np.array([int(place.value) for place in places])
        codes = np.searchsorted(ranks, rows.metadata("rank")).clip(max=len(ranks) - 1)
        return np.where(ranks[codes] == rows.metadata("rank"), codes, -1)
    logged, names = rows.view.snapshot.label_codes(dimension)
    position = {place.value: code for code, place in enumerate(places)}
    table = np.array([*(position.get(name, -1) for name in names), -1])
    return table[logged[rows.rows]]


#: Parts of a table.
MEAN, VARIANCE, SAMPLES, GROUPS = range(4)
#: Share by which the smallest difference of a test may move without a new scan.
_SAME_LEAST = 0.05
#: Most numbers of all signals that are computed together.
_TOGETHER = 1 << 18
#: With fewer groups in a place, the spread between groups of the whole step is used.
_MIN_GROUPS = 3


class BlockTables:
    """Tables of signals for some steps; the clusters of all blocks are kept for the next signal.

    Parameters
    ----------
    blocks : StepBlocks
    places : sequence of Place
        K places, the whole run first.
    """

    def __init__(self, blocks: StepBlocks, places: Sequence[Place]) -> None:
        self._blocks, self._places = blocks, places

    @property
    def batches(self) -> list[RowBatch]:
        """The rows of each block."""
        return self._blocks.batches

    def table(self, signal: Signal) -> np.ndarray:
        """Return mean, variance of the mean, number of samples and of groups, shape (4, K, S)."""
        numbers = [np.asarray(signal.values(rows), np.float64)[None] for rows in self._blocks.batches]
        return self._tables([signal], numbers)[:, 0]

    def tables(self, signals: Sequence[Signal]) -> dict[str, np.ndarray]:
        """Return the tables of several signals, computed together; without those that raise an error."""
        found: dict[str, list[np.ndarray]] = {}
        for each in signals:
            # Whoever asks for the table of one that fails has its error.
            with contextlib.suppress(Exception), np.errstate(all="ignore"):
                found[each.name] = [np.asarray(each.values(rows), np.float64) for rows in self.batches]
        known = [each for each in signals if each.name in found]
        if not known:
            return {}
        tables = self._tables(known, [np.stack(parts) for parts in zip(*found.values(), strict=True)])
        return {each.name: tables[:, at] for at, each in enumerate(known)}

    def _tables(self, signals: Sequence[Signal], numbers: Sequence[np.ndarray]) -> np.ndarray:
        """Return the tables of M signals from their numbers in each block, shape (4, M, K, S)."""
        parts = [of.moments(values) for of, values in zip(self._clusters, numbers, strict=True)]
        tables = np.concatenate(parts, axis=3)
        _borrow_spread(tables)
        for by_group in (False, True):
            which = [
                at
                for at, each in enumerate(signals)
                if each.kind in {"share", "odds"} and each.by_group == by_group
            ]
            if which:
                tables[:, which] = _with_floor_of_share(tables[:, which], by_group=by_group)
        return tables

    @cached_property
    def _clusters(self) -> list[_Clusters]:
        return [_Clusters(rows, self._places) for rows in self._blocks.batches]


class _Clusters:
    """Clusters of a block's rows: those of one group in one place. A cell is one place at one step.

    Each row belongs to one place of each dimension, so that it is counted once for each dimension.
    """

    def __init__(self, rows: RowBatch, places: Sequence[Place]) -> None:
        self._rows, self._steps, self._group = rows, len(rows.steps), rows.group
        self._places = len(places)
        self._dimensions = rows_by_dimension(places)
        found = [
            self._of_dimension(members, [places[member] for member in members.tolist()])
            for members in self._dimensions.values()
        ]
        first = np.cumsum([0, *(len(cells) for _, cells in found)])
        #: The clusters of each row, one dimension after the other, and the cell of each cluster.
        self._cluster = np.concatenate(
            [each + np.int32(start) for (each, _), start in zip(found, first, strict=False)]
        )
        self._cell = np.concatenate([cells for _, cells in found])

    def _of_dimension(self, members: np.ndarray, places: Sequence[Place]) -> tuple[np.ndarray, np.ndarray]:
        """Return the cluster of each row, and the cell of each cluster."""
        rows, outside = self._rows, self._places * self._steps
        codes = codes_of(rows, places)
        # Rows outside all places are counted in a last cell, which is dropped.
        cell = np.where(codes >= 0, members[codes] * self._steps + rows.position, outside)
        cluster = self._group
        if len(places) > 1 and rows.view.grouped:
            apart = cluster.astype(np.int64) * (len(places) + 1) + codes
            cluster = np.unique(apart, return_inverse=True)[1].astype(np.int32)
        of = np.full(int(cluster.max()) + 1 if len(cluster) else 0, outside, np.int32)
        of[cluster] = cell
        return cluster, of

    def moments(self, values: np.ndarray) -> np.ndarray:
        """Return mean, variance of the mean, number of samples and of groups of each cell.

        Parameters
        ----------
        values : ndarray of float, shape (M, N)
            Of M signals; NaN where one is not defined.

        Returns
        -------
        ndarray of float, shape (4, M, K, S)
        """
        finite = np.isfinite(values)
        known = None if finite.all() else finite.astype(np.float64)
        values = values if known is None else np.where(finite, values, 0.0)
        signals, clusters, cells = len(values), len(self._cell), self._places * self._steps
        cluster, cell = self._cluster, self._cell
        if signals > 1:  # each signal has clusters and cells of its own
            own = np.arange(signals)[:, None]
            cluster = (own * clusters + cluster).ravel()
            cell = (own * (cells + 1) + cell).ravel()
        every = (1, len(self._dimensions))

        def summed(by_cluster: np.ndarray) -> np.ndarray:
            return np.bincount(cell, by_cluster, minlength=signals * (cells + 1))

        weight = None if known is None else np.tile(known, every).ravel()
        count = np.bincount(cluster, weight, minlength=signals * clusters).astype(np.float64)
        total = np.bincount(cluster, np.tile(values, every).ravel(), minlength=signals * clusters)
        samples, groups = summed(count), summed((count > 0).astype(np.float64))
        with np.errstate(all="ignore"):
            mean = summed(total) / samples
            residual = total - count * mean[cell]
            squares = summed(np.where(count > 0, residual, 0.0) ** 2)
            variance = squares / samples**2 * groups / (groups - 1)
        table = np.stack([mean, variance, samples, groups]).reshape(4, signals, cells + 1)
        return table[..., :cells].reshape(4, signals, self._places, self._steps)


def _borrow_spread(table: np.ndarray) -> None:
    """Use the spread between groups of the whole step, in row 0, where a place has too few groups."""
    few = table[GROUPS, :, 1:] < _MIN_GROUPS
    if not few.any():
        return
    with np.errstate(all="ignore"):
        borrowed = table[VARIANCE, :, :1] * table[GROUPS, :, :1] / table[GROUPS, :, 1:]
    own = table[VARIANCE, :, 1:]
    table[VARIANCE, :, 1:] = np.where(few, np.fmax(borrowed, np.fmax(own, 0.0)), own)


def independent_samples(table: np.ndarray, *, by_group: bool) -> np.ndarray:
    """Return the number of independent samples of each place and step, shape (K, S).

    Samples of a group are alike, so that they count less than independent ones: their number is taken to be
    the geometric mean of samples and groups, or the number of groups if a number is one of groups.
    """
    samples, groups = table[SAMPLES], table[GROUPS]
    return groups if by_group else np.sqrt(samples * groups)


def _with_floor_of_share(table: np.ndarray, *, by_group: bool) -> np.ndarray:
    """Raise the variance of shares near 0 and 1, where few samples show no spread (add-half smoothing)."""
    independent = independent_samples(table, by_group=by_group)
    with np.errstate(all="ignore"):
        smooth = (table[MEAN] * independent + 0.5) / (independent + 1)
        table[VARIANCE] = np.fmax(table[VARIANCE], smooth * (1 - smooth) / np.maximum(independent, 1))
    return table


class PlaceSeries:
    """Means of signals by place and step, computed when they are first asked for.

    Parameters
    ----------
    blocks : StepBlocks
        All rows of the complete steps.
    previous : PlaceSeries, optional
        An earlier result of the same run and split; its numbers of unchanged steps are reused.

    Attributes
    ----------
    places : tuple of Place
        K places, the whole run first.
    """

    def __init__(self, blocks: StepBlocks, previous: PlaceSeries | None = None) -> None:
        view, rows, self.steps = blocks.view, blocks.rows, blocks.steps
        self.version = view.snapshot.version
        self.places = places_of(RowBatch(view, rows, self.steps))
        self._view: RunView | None = view
        self._tables: dict[str, GrowingTable] = {}
        self._signals: dict[str, Signal] = {}
        self._available: dict[tuple[str, ...], bool] = {}
        self._position, self._stale = _stale_steps(view, self.steps, previous)
        usable = previous is not None and previous.places == self.places
        self._earlier = previous._tables if previous is not None and usable else {}
        self._earlier_signals = previous._signals if previous is not None and usable else {}
        moved = self._stale | (self._position != np.arange(len(self.steps)))
        #: Number of first steps that are as they were in the earlier result.
        self.unchanged = first = int(moved.argmax()) if moved.any() else len(moved)
        if not self._earlier:
            self.unchanged = 0
        self._is_longer = previous is not None and first >= len(previous.steps)
        self._same = first
        #: Arrays of these steps, which the next check adds to.
        self._grown: dict[Hashable, GrowingTable] = {}
        self._earlier_grown = previous._grown if previous is not None else {}
        #: Results over all these steps, and the number of steps they are of.
        self._folded: dict[Hashable, tuple[int, Any]] = {}
        self._earlier_folded = previous._folded if previous is not None else {}
        #: States of the tests of series, which the next check goes on with.
        self.scans: dict[Hashable, Any] = {}
        self.earlier_scans = previous.scans if previous is not None and usable else {}
        #: Signals of those tests whose values are in a table, by name, sign, base and number of places.
        self.scan_signals: dict[tuple[str, int, Base, int], Signal] = {}
        self.earlier_scan_signals = previous.scan_signals if previous is not None and usable else {}
        #: Step metrics that a rule has read, now and in the check before.
        self.metrics: set[str] = set()
        self.earlier_metrics = previous.metrics if previous is not None else set()
        changed = StepBlocks(view, rows, self.steps[self._stale])
        self._whole: BlockTables | None = BlockTables(blocks, self.places)
        self._fresh: BlockTables | None = BlockTables(changed, self.places)
        self._changed: StepBlocks | None = changed
        self._together: dict[str, np.ndarray] | None = None
        self._by_step: dict[str, list[Any]] = {}
        self._earlier_by_step = previous._by_step if previous is not None else {}

    def available(self, signal: Signal) -> bool:
        """Return True if the run has all columns that the signal needs."""
        known = self._available.get(signal.needs)
        if known is not None:
            return known
        if self._view is None:
            raise ValueError("the series were released")
        known = all(self._view.snapshot.has_number(need) for need in signal.needs)
        self._available[signal.needs] = known
        return known

    def table(self, signal: Signal) -> np.ndarray:
        """Return the means of a signal, shape (4, K, S).

        Its parts are the mean, the variance of the mean, the number of samples and of groups.
        """
        return self._table(signal).values

    def bounds(self, signal: Signal) -> tuple[float, float]:
        """Return the smallest and the largest mean of a signal over all places and steps."""
        return self._table(signal).bounds

    def _table(self, signal: Signal) -> GrowingTable:
        if signal.name not in self._tables:
            self._tables[signal.name] = self._compute(signal)
            self._signals[signal.name] = signal
        return self._tables[signal.name]

    def scan(self, key: Hashable, least: float, base: Base) -> Scan:
        """Return the state of a test after the unchanged steps; a new one if it used others.

        A slightly smaller or larger difference of interest than before does not begin anew.
        """
        known: Scan | None = self.earlier_scans.get(key)
        known = known and known.reusable(self.unchanged)
        return known if known is not None and _alike(known.least, least) else Scan(least, base)

    def grown(self, key: Hashable, compute: Callable[[int], np.ndarray]) -> np.ndarray:
        """Return an array of these steps; only the steps from the first changed one on are computed.

        Parameters
        ----------
        key : hashable
            Identifies the array, and all but its steps that it is made of, such as columns or ranks.
        compute : callable
            Returns the array of the steps from a position on, shape (..., S). Each step's part may depend on
            this step and on earlier ones.
        """
        if key not in self._grown:
            known = self._earlier_grown.get(key)
            first = 0 if known is None else min(self._same, known.values.shape[-1])
            new = compute(first)
            if known is None:
                self._grown[key] = GrowingTable(new)
            elif first == known.values.shape[-1]:
                self._grown[key] = known.with_steps(new)
            else:
                self._grown[key] = GrowingTable(np.concatenate([known.values[..., :first], new], axis=-1))
        return self._grown[key].values

    def folded(self, key: Hashable, compute: Callable[[int, T | None], T]) -> T:
        """Return a result over all these steps; unless an earlier step changed, only new ones are added.

        Parameters
        ----------
        key : hashable
            As in `grown`.
        compute : callable
            Returns the result from that of the steps before a position, None if it is the first one. It
            leaves that one as it is.
        """
        if key not in self._folded:
            count, known = self._earlier_folded.get(key, (0, None))
            if count > self._same:
                count, known = 0, None
            is_new = known is None or count < len(self.steps)
            self._folded[key] = len(self.steps), compute(count, known) if is_new else known
        result: T = self._folded[key][1]
        return result

    def by_step(self, name: str, compute: Callable[[RowBatch], Sequence[T]]) -> list[T]:
        """Return a result of each step; those of steps that did not change are reused.

        Parameters
        ----------
        name : str
            Identifies the result.
        compute : callable
            Returns the result of each step of some rows.
        """
        if name not in self._by_step:
            if self._changed is None or self._whole is None:
                raise ValueError("the series were released")
            known = self._earlier_by_step.get(name)
            if known is None:
                self._by_step[name] = [each for rows in self._whole.batches for each in compute(rows)]
            else:
                if self._is_longer:  # each further step has a new result
                    found = [*known, *known[:1] * (len(self.steps) - len(known))]
                else:
                    found = [known[at] for at in self._position.tolist()]
                new = (each for rows in self._changed.batches for each in compute(rows))
                for at, each in zip(np.flatnonzero(self._stale).tolist(), new, strict=False):
                    found[at] = each
                self._by_step[name] = found
        return self._by_step[name]

    def array_by_step(self, name: str, compute: Callable[[RowBatch], np.ndarray]) -> np.ndarray:
        """Return numbers of each step, shape (..., S); those of steps that did not change are reused.

        Parameters
        ----------
        name : str
            Identifies the numbers.
        compute : callable
            Returns the numbers of each step of some rows, shape (..., S).
        """
        if self._changed is None or self._whole is None:
            raise ValueError("the series were released")
        changed, whole = self._changed, self._whole

        def read(first: int) -> np.ndarray:
            is_rest = first > 0 and bool(self._stale[first:].all())
            batches = changed.batches if is_rest else whole.batches
            found = np.concatenate([compute(rows) for rows in batches], axis=-1)
            return found if is_rest else found[..., first:]

        return self.grown(name, read)

    def release(self) -> PlaceSeries:
        """Drop what only this check needs, and return the result for the next check.

        A snapshot that is kept would keep its columns after the run has replaced them by larger ones.
        """
        self._view = self._fresh = self._whole = self._changed = self._together = None
        self._earlier, self._earlier_signals, self._earlier_by_step = {}, {}, {}
        self.earlier_scans, self.earlier_scan_signals = {}, {}
        self._earlier_grown, self._earlier_folded = {}, {}
        return self

    def _compute(self, signal: Signal) -> GrowingTable:
        if self._fresh is None or self._whole is None:
            raise ValueError("the series were released")
        if signal.name not in self._earlier:
            return GrowingTable(self._whole.table(signal))
        earlier, steps = self._earlier[signal.name], len(self.steps)
        if self.unchanged == earlier.values.shape[-1]:
            new = self._new_steps(signal, self._fresh) if self._stale.any() else earlier.values[..., :0]
            return earlier.with_steps(new)
        table = earlier.values[:, :, self._position[:steps]]
        if self._stale.any():
            table[:, :, self._stale] = self._new_steps(signal, self._fresh)
        return GrowingTable(table)

    def _new_steps(self, signal: Signal, fresh: BlockTables) -> np.ndarray:
        """Return a signal's table of the changed steps; those of few rows have one for all known signals."""
        found = self._of_new_steps(fresh).get(signal.name)
        return found if found is not None else fresh.table(signal)

    def _of_new_steps(self, fresh: BlockTables) -> dict[str, np.ndarray]:
        if self._together is None:
            signals = [each for each in self._earlier_signals.values() if self.available(each)]
            few = sum(map(len, fresh.batches)) * len(signals) <= _TOGETHER
            self._together = fresh.tables(signals) if few else {}
        return self._together


def _alike(old: float, new: float) -> bool:
    return abs(old - new) <= _SAME_LEAST * abs(old)


def _bounds(values: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest number; infinite ones without any."""
    low = float(np.fmin.reduce(values, axis=None, initial=np.inf))
    return low, float(np.fmax.reduce(values, axis=None, initial=-np.inf))


class GrowingTable:
    """A table whose steps grow in place, so that a new step copies no earlier one.

    Parameters
    ----------
    values : ndarray of float, shape (4, K, S)

    Attributes
    ----------
    values : ndarray of float, shape (4, K, S)
    """

    def __init__(self, values: np.ndarray, room: _Room | None = None) -> None:
        self.values, self._room = values, room
        self._bounds: tuple[float, float] | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest mean of all places and steps; infinite without any."""
        if self._bounds is None:
            self._bounds = _bounds(self.values[MEAN])
        return self._bounds

    def with_steps(self, new: np.ndarray) -> GrowingTable:
        """Return the table with further steps; this one keeps its own."""
        found = self._longer(new)
        if self._bounds is not None:
            low, high = _bounds(new[MEAN])
            found._bounds = min(low, self._bounds[0]), max(high, self._bounds[1])
        return found

    def _longer(self, new: np.ndarray) -> GrowingTable:
        steps = self.values.shape[-1]
        room = self._room
        if room is None or not room.take(steps, steps + new.shape[-1]):
            room = _Room(self.values, new.shape[-1])
        room.values[..., steps : steps + new.shape[-1]] = new
        return GrowingTable(room.values[..., : steps + new.shape[-1]], room)


class _Room:
    """Values with room for further steps; each step is written by one table only."""

    def __init__(self, values: np.ndarray, more: int) -> None:
        self._lock = threading.Lock()
        self._used = values.shape[-1] + more
        self.values = np.empty((*values.shape[:-1], self._used + max(16, self._used // 4)))
        self.values[..., : values.shape[-1]] = values

    def take(self, first: int, stop: int) -> bool:
        """Reserve the steps from ``first`` to ``stop``; False if another table has them, or without room."""
        with self._lock:
            free = self._used == first and stop <= self.values.shape[-1]
            self._used = stop if free else self._used
            return free


def _stale_steps(
    view: RunView, steps: np.ndarray, previous: PlaceSeries | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of each step in the previous result, and the mask of changed steps, shape (S,)."""
    if previous is None or not len(previous.steps) or previous.version > view.snapshot.version:
        return np.zeros(len(steps), int), np.ones(len(steps), bool)
    position, stale = view.snapshot.steps.compare_steps(previous.steps, previous.version)
    return position[: len(steps)], stale[: len(steps)]
