"""Means of signals by place and step, with standard errors clustered by group.

Samples of one group share a prompt, so they are not independent: the error of a step's mean is computed from
the groups' sums of residuals. Results of steps that did not change are reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from rlpanel.findings.engine.places import Place, codes_of, places_of, rows_by_dimension
from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.findings.engine.signal import Signal
from rlpanel.store.snapshot.run_view import RunView

#: Parts of a table.
MEAN, VARIANCE, SAMPLES, GROUPS = range(4)
#: With fewer groups in a place, the spread between groups of the whole step is used.
_FEWEST_GROUPS = 3


class PlaceSeries:
    """Means of signals by place and step, computed when they are first asked for.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int, shape (N,)
        Rows of complete steps.
    steps : ndarray of int, shape (S,)
        Complete steps, ascending.
    previous : PlaceSeries, optional
        An earlier result of the same run and split; its numbers of unchanged steps are reused.

    Attributes
    ----------
    places : tuple of Place
        K places, the whole run first.
    """

    def __init__(
        self, view: RunView, rows: np.ndarray, steps: np.ndarray, previous: PlaceSeries | None = None
    ) -> None:
        self.steps = steps
        self.version = view.snapshot.version
        self.places = places_of(RowBatch(view, rows, steps))
        self._view = view
        self._tables: dict[str, np.ndarray] = {}
        self._position, self._stale = _stale_steps(view, steps, previous)
        usable = previous is not None and previous.places == self.places
        self._earlier = previous._tables if previous is not None and usable else {}
        everything = np.ones(len(steps), bool)
        self._fresh: _Batch | None = _Batch(view, rows, steps, self._stale, self.places)
        self._whole: _Batch | None = _Batch(view, rows, steps, everything, self.places)

    def available(self, signal: Signal) -> bool:
        """Return True if the run has all columns that the signal needs."""
        snapshot = self._view.snapshot
        return all(snapshot.has_number(need) for need in signal.needs)

    def table(self, signal: Signal) -> np.ndarray:
        """Return the means of a signal, shape (4, K, S).

        Its parts are the mean, the variance of the mean, the number of samples and of groups.
        """
        if signal.name not in self._tables:
            self._tables[signal.name] = self._compute(signal)
        return self._tables[signal.name]

    def release(self) -> PlaceSeries:
        """Drop what only this check needs, and return the result for the next check."""
        self._fresh = self._whole = None
        self._earlier = {}
        return self

    def _compute(self, signal: Signal) -> np.ndarray:
        if self._fresh is None or self._whole is None:
            raise ValueError("the series were released")
        if signal.name not in self._earlier:
            return self._whole.table(signal)
        table = self._earlier[signal.name][:, :, self._position]
        if self._stale.any():
            table[:, :, self._stale] = self._fresh.table(signal)
        return table


def _stale_steps(
    view: RunView, steps: np.ndarray, previous: PlaceSeries | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of each step in the previous result, and the mask of changed steps, shape (S,)."""
    if previous is None or not len(previous.steps) or previous.version > view.snapshot.version:
        return np.zeros(len(steps), int), np.ones(len(steps), bool)
    position, stale = view.snapshot.steps.compare_steps(previous.steps, previous.version)
    return position[: len(steps)], stale[: len(steps)]


class _Batch:
    """Rows of some steps, prepared when the first signal is computed."""

    def __init__(
        self,
        view: RunView,
        rows: np.ndarray,
        steps: np.ndarray,
        chosen: np.ndarray,
        places: Sequence[Place],
    ) -> None:
        self._input = view, rows, steps, chosen
        self._places = places

    def table(self, signal: Signal) -> np.ndarray:
        """Return the means of a signal by place and chosen step, shape (4, K, chosen)."""
        table = self._clusters.moments(np.asarray(signal.values(self._rows), np.float64))
        _borrow_spread(table)
        if signal.kind == "share":
            _floor_of_share(table, by_group=signal.by_group)
        return table

    @cached_property
    def _rows(self) -> RowBatch:
        view, rows, steps, chosen = self._input
        if not chosen.all():
            rows = rows[np.isin(view.snapshot.metadata("step")[rows], steps[chosen])]
        return RowBatch(view, rows, steps[chosen])

    @cached_property
    def _clusters(self) -> _Clusters:
        return _Clusters(self._rows, self._places)


class _Clusters:
    """Clusters of rows: those of one group in one place. A cell is one place at one step.

    Each row belongs to one place of each dimension, so that it is counted once for each dimension.
    """

    def __init__(self, rows: RowBatch, places: Sequence[Place]) -> None:
        self.shape = len(places), len(rows.steps)
        self.cells = len(places) * len(rows.steps)
        clusters, cells, start = [], [], 0
        dimensions = rows_by_dimension(places)
        for members in dimensions.values():
            codes = codes_of(rows, [places[member] for member in members.tolist()])
            # Rows outside all places are counted in a last cell, which is dropped.
            cell = np.where(codes >= 0, members[codes] * len(rows.steps) + rows.position, self.cells)
            cluster = rows.group
            if len(members) > 1 and rows.view.grouped:
                cluster = np.unique(rows.group * (len(members) + 1) + codes, return_inverse=True)[1]
            of = np.full(int(cluster.max()) + 1 if len(cluster) else 0, self.cells)
            of[cluster] = cell
            clusters.append(cluster + start)
            cells.append(of)
            start += len(of)
        self.repeats = len(dimensions)
        self.cluster, self.cell_of = np.concatenate(clusters), np.concatenate(cells)

    def moments(self, values: np.ndarray) -> np.ndarray:
        """Return mean, variance of the mean, number of samples and of groups of each cell, (4, K, S)."""
        values = np.tile(values, self.repeats)
        finite = np.isfinite(values)
        size = len(self.cell_of)
        if finite.all():
            count = self._all_counts
            total = np.bincount(self.cluster, values, minlength=size)
        else:
            count = np.bincount(self.cluster, finite.astype(np.float64), minlength=size)
            total = np.bincount(self.cluster, np.where(finite, values, 0.0), minlength=size)
        samples, groups = self._sum(count), self._sum((count > 0).astype(np.float64))
        with np.errstate(all="ignore"):
            mean = self._sum(total) / samples
            residual = total - count * np.append(mean, 0.0)[self.cell_of]
            squares = self._sum(np.where(count > 0, residual, 0.0) ** 2)
            variance = squares / samples**2 * groups / (groups - 1)
        return np.stack([mean, variance, samples, groups]).reshape(4, *self.shape)

    @cached_property
    def _all_counts(self) -> np.ndarray:
        return np.bincount(self.cluster, minlength=len(self.cell_of)).astype(np.float64)

    def _sum(self, by_cluster: np.ndarray) -> np.ndarray:
        """Sum over the clusters of each cell, shape (cells,)."""
        return np.bincount(self.cell_of, by_cluster, minlength=self.cells + 1)[: self.cells]


def _borrow_spread(table: np.ndarray) -> None:
    """Use the spread between groups of the whole step, in row 0, where a place has too few groups."""
    few = table[GROUPS, 1:] < _FEWEST_GROUPS
    if not few.any():
        return
    with np.errstate(all="ignore"):
        borrowed = table[VARIANCE, 0] * table[GROUPS, 0] / table[GROUPS, 1:]
    own = table[VARIANCE, 1:]
    table[VARIANCE, 1:] = np.where(few, np.fmax(borrowed, np.fmax(own, 0.0)), own)


def independent_samples(table: np.ndarray, *, by_group: bool) -> np.ndarray:
    """Return the number of independent samples of each place and step, shape (K, S).

    Samples of a group are alike, so that they count less than independent ones: their number is taken to be
    the geometric mean of samples and groups, or the number of groups if a number is one of groups.
    """
    samples, groups = table[SAMPLES], table[GROUPS]
    return groups if by_group else np.sqrt(samples * groups)


def _floor_of_share(table: np.ndarray, *, by_group: bool) -> None:
    """Raise the variance of shares near 0 and 1, where few samples show no spread (add-half smoothing)."""
    independent = independent_samples(table, by_group=by_group)
    with np.errstate(all="ignore"):
        smooth = (table[MEAN] * independent + 0.5) / (independent + 1)
        table[VARIANCE] = np.fmax(table[VARIANCE], smooth * (1 - smooth) / np.maximum(independent, 1))
