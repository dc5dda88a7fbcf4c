"""Signals: numbers of each sample whose level over the steps the rules test, and the rows that they read.

A signal is computed once for all rules, for the whole run, for each rank, and for each category. Rows come in
blocks of consecutive steps, so that a rule needs memory for one block at a time. Runs have batches for all
their rows at the same time, so that a batch keeps little of each row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.step_metric_cache import group_keys, step_batches


class RowBatch:
    """Samples of some complete steps.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int, shape (N,)
        Rows that count, ascending.
    steps : ndarray of int, shape (S,)
        Their steps, ascending.
    earlier : ndarray of int, optional
        All rows of the step before, if no step of the run lies between any two of these. By default they
        are looked for in the whole run.
    """

    def __init__(
        self, view: RunView, rows: np.ndarray, steps: np.ndarray, earlier: np.ndarray | None = None
    ) -> None:
        self.view = view
        self.rows = rows
        self.steps = steps
        self._earlier = earlier
        #: Rows without a gap need no copy.
        is_range = len(rows) > 0 and int(rows[-1]) - int(rows[0]) == len(rows) - 1
        self._selected = slice(int(rows[0]), int(rows[-1]) + 1) if is_range else rows

    def __len__(self) -> int:
        return len(self.rows)

    def has(self, column: str) -> bool:
        """Return True if the run has stored the number column."""
        return self.view.snapshot.is_stored(column)

    def number(self, column: str) -> np.ndarray:
        """Return a number column as statistics count it, shape (N,); all NaN if the run does not have it."""
        if not self.has(column):
            return np.full(len(self.rows), np.nan)
        return self.view.snapshot.counted(column, self._selected)

    def logged(self, column: str) -> np.ndarray:
        """Return a number column as it was logged in each row, shape (N,); all NaN if there is none."""
        if not self.has(column):
            return np.full(len(self.rows), np.nan)
        return self.view.snapshot.number(column)[self._selected]

    @property
    def has_outcome(self) -> np.ndarray:
        """Mask of the rows whose outcome counts, shape (N,): the last of each episode."""
        further = self.view.snapshot.further
        return np.ones(len(self.rows), bool) if further is None else ~further[self._selected]

    def metadata(self, column: str) -> np.ndarray:
        """Return a metadata column such as ``rank``, shape (N,)."""
        return self.view.snapshot.metadata(column)[self._selected]

    def label_codes(self, column: str) -> tuple[np.ndarray, list[str]]:
        """Return a label column as codes, shape (N,), and the text of each code; -1 means "not logged"."""
        codes, names = self.view.snapshot.label_codes(column)
        return codes[self._selected], names

    def with_step_before(self) -> np.ndarray:
        """Return these rows and all rows of the step before each of their steps, in any order."""
        if self._earlier is not None:
            return np.concatenate([self._earlier, self.rows])
        snapshot = self.view.snapshot
        every = snapshot.steps.values
        at = np.searchsorted(every, self.steps)
        return snapshot.rows_of_steps(every[np.unique(np.concatenate([at, np.maximum(at - 1, 0)]))])

    @cached_property
    def position(self) -> np.ndarray:
        """Position in ``steps`` of each row's step, shape (N,)."""
        return np.searchsorted(self.steps, self.metadata("step")).astype(np.int32)

    @property
    def group(self) -> np.ndarray:
        """Index of each row's group within its step, counted over all steps from 0; shape (N,).

        Without groups, each row is a group of its own.
        """
        if not self.view.grouped:
            return np.arange(len(self.rows), dtype=np.int32)
        return self._groups

    @cached_property
    def _groups(self) -> np.ndarray:
        keys = group_keys(self.view.snapshot, self.rows)
        order = np.lexsort((keys, self.position))
        step, key = self.position[order], keys[order]
        # Rows without a group have the key -1 and stay alone.
        starts = (np.diff(step, prepend=-1) != 0) | (np.diff(key, prepend=key[:1]) != 0) | (key == -1)
        group = np.empty(len(self.rows), np.int32)
        group[order] = np.cumsum(starts) - 1
        return group

    def group_sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sum over each group's finite values, shape (G,)."""
        return np.bincount(self.group, np.where(np.isfinite(values), values, 0.0))

    def group_counts(self, values: np.ndarray) -> np.ndarray:
        """Return the number of finite values of each group, shape (G,)."""
        return np.bincount(self.group, np.isfinite(values).astype(float))

    def less_group_mean(self, values: np.ndarray) -> np.ndarray:
        """Return each value minus the mean of its group's finite values, shape (N,)."""
        with np.errstate(all="ignore"):
            return values - (self.group_sums(values) / self.group_counts(values))[self.group]


#: Usual number of rows of a block.
BLOCK_ROWS = 64 << 10


class StepBlocks:
    """Rows of some steps, in blocks of steps.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int, shape (N,)
        Ascending; rows of other steps are left out.
    steps : ndarray of int, shape (S,)
        Ascending.
    is_complete : bool
        True if no step of the run lies between two of them, or before the first.
    block_rows : int
        Largest number of rows of a block, unless a single step has more.
    """

    def __init__(
        self,
        view: RunView,
        rows: np.ndarray,
        steps: np.ndarray,
        *,
        is_complete: bool = False,
        block_rows: int = BLOCK_ROWS,
    ) -> None:
        self.view, self.rows, self.steps = view, rows, steps
        self._is_complete, self._block_rows = is_complete, block_rows

    @cached_property
    def batches(self) -> list[RowBatch]:
        """The rows of each block, one block at least. All steps are in one of them, in their order."""
        step = self.view.snapshot.metadata("step")
        found: list[RowBatch] = []
        earlier: np.ndarray | None = np.empty(0, np.uint32) if self._is_complete else None
        for block in step_batches(step, self.rows, self.steps, self._block_rows):
            batch = RowBatch(self.view, block.rows, self.steps[block.first : block.last], earlier)
            if earlier is not None:
                earlier = block.rows[batch.position == len(batch.steps) - 1]
            found.append(batch)
        return found


Kind = Literal["share", "odds", "level", "positive"]
Values = Callable[[RowBatch], np.ndarray]


@dataclass(frozen=True)
class Signal:
    """A number of each sample.

    Attributes
    ----------
    name : str
        Unique name.
    kind : str
        ``share``: 0 or 1; ``odds``: 0 or 1 whose share is compared by its logit; ``level``: any number;
        ``positive``: a positive number that is compared by its logarithm, so that a change is a factor.
    needs : tuple of str
        Columns of which the run must have all.
    values : callable
        Returns the numbers of rows, shape (N,); NaN where the signal is not defined.
    by_group : bool
        True if all samples of a group have the same value.
    column : str
        The number column that the signal is; empty for a number that is computed.
    """

    name: str
    kind: Kind
    needs: tuple[str, ...]
    values: Values
    by_group: bool = False
    column: str = ""


SIGNALS: dict[str, Signal] = {}


def signal(
    name: str, *needs: str, kind: Kind = "share", by_group: bool = False
) -> Callable[[Values], Signal]:
    """Register the decorated function as a signal; see `Signal` for the parameters.

    Raises
    ------
    ValueError
        If the name is taken.
    """

    def register(values: Values) -> Signal:
        if name in SIGNALS:
            raise ValueError(f"signal {name!r} is declared twice")
        SIGNALS[name] = Signal(name, kind, needs, values, by_group)
        return SIGNALS[name]

    return register


def column_signal(name: str, kind: Kind = "level") -> Signal:
    """Return the signal that is a number column itself; it is registered when it is first used.

    Each kind of a column is a signal of its own: findings must not depend on which kind was asked for first,
    by a rule or in another run. A run may log a column under a rule's name, such as ``truncated``; hence a
    name of its own.
    """
    own = f"column {name}" if kind == "level" else f"column {name}, {kind}"
    if own not in SIGNALS:
        SIGNALS[own] = Signal(own, kind, (name,), lambda rows: rows.number(name), column=name)
    return SIGNALS[own]


def flag_signal(name: str, kind: Literal["odds", "share"]) -> Signal:
    """Return the signal of a column of 0 and 1: its share, or its odds, compared by their logit.

    Unlike the column's own signal, a share has an error where all values are 0.
    """
    own = f"{kind} of {name}"
    if own not in SIGNALS:
        SIGNALS[own] = Signal(own, kind, (name,), lambda rows: rows.number(name), column=name)
    return SIGNALS[own]


@signal("each_sample")
def each_sample(rows: RowBatch) -> np.ndarray:
    """Return 1 for each sample: its table counts samples and groups."""
    return np.ones(len(rows))


def mark(condition: np.ndarray, defined: np.ndarray) -> np.ndarray:
    """Return 1 where the condition holds, 0 where it does not, and NaN where it is not defined."""
    return np.where(defined, condition.astype(float), np.nan)


#: Window of the running median, in steps.
WINDOW = 15


def stretches(mask: np.ndarray) -> np.ndarray:
    """Return start and exclusive end of each stretch of consecutive marked steps, shape (R, 2)."""
    return np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(int))).reshape(-1, 2)


def long_stretches(mask: np.ndarray, count: int) -> np.ndarray:
    """Return the mask without stretches shorter than ``count`` steps, shape (S,)."""
    result = np.zeros(len(mask), bool)
    for start, end in stretches(mask).tolist() if mask.any() else ():
        result[start:end] = end - start >= count
    return result


def running_median(values: np.ndarray, least: int) -> np.ndarray:
    """Return the median of the finite values among the `WINDOW` steps before each step.

    Parameters
    ----------
    values : ndarray of float, shape (S,) or (K, S)
        Of one series or of several.
    least : int
        Minimum number of finite values.

    Returns
    -------
    ndarray of float, shape (S,) or (K, S)
        NaN for steps with fewer values before them.
    """
    steps = values.shape[-1]
    if not values.size:
        return values
    padded = np.full((*values.shape[:-1], WINDOW + steps - 1), np.nan)
    padded[..., WINDOW:] = values[..., :-1]
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW, axis=-1).reshape(-1, WINDOW)
    windows = np.sort(windows, axis=1)  # NaN last
    count = np.isfinite(windows).sum(axis=1)
    rows = np.arange(len(windows))
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, WINDOW - 1)
    middle = (windows[rows, low] + windows[rows, high]) / 2
    return np.where(count >= max(least, 1), middle, np.nan).reshape(values.shape)
