"""Means of signals by place and step, with their errors; results of steps that did not change are reused."""

from __future__ import annotations

import numpy as np

from rlpanel.findings.engine.block_tables import BlockTables
from rlpanel.findings.engine.places import places_of
from rlpanel.findings.engine.row_batch import RowBatch
from rlpanel.findings.engine.signal import Signal
from rlpanel.findings.engine.step_blocks import StepBlocks
from rlpanel.store.snapshot.run_view import RunView


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
        self._tables: dict[str, np.ndarray] = {}
        self._position, self._stale = _stale_steps(view, self.steps, previous)
        usable = previous is not None and previous.places == self.places
        self._earlier = previous._tables if previous is not None and usable else {}
        changed = StepBlocks(view, rows, self.steps[self._stale])
        self._whole: BlockTables | None = BlockTables(blocks, self.places)
        self._fresh: BlockTables | None = BlockTables(changed, self.places)

    def available(self, signal: Signal) -> bool:
        """Return True if the run has all columns that the signal needs."""
        if self._view is None:
            raise ValueError("the series were released")
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
        """Drop what only this check needs, and return the result for the next check.

        A snapshot that is kept would keep its columns after the run has replaced them by larger ones.
        """
        self._view = self._fresh = self._whole = None
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
