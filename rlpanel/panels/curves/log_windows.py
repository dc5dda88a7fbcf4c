"""Assigns our steps to the points of a trainer's log: a point may cover several steps, or come later."""

from __future__ import annotations

import time

import numpy as np

from rlpanel.metrics.engine import trainer_names
from rlpanel.metrics.engine.metric import split_statistic
from rlpanel.metrics.engine.trainer_names import TrainerScalar
from rlpanel.store.columns.scalar_log import Series
from rlpanel.store.columns.step_stats import COUNT
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import newest_complete_step

#: Start of the window of steps that no point covers.
_NEVER = np.iinfo(np.int64).max


class LogWindows:
    """Means of our steps over the steps that each logged point covers.

    Attributes
    ----------
    delay : int
        Number of steps by which the trainer logs a number later than its rollout.
    lengths : ndarray of int, shape (P,)
        Number of steps since the point before.
    means : ndarray, shape (P,)
        Mean of our steps.
    has_steps, comparable : ndarray of bool, shape (P,)
        Points with at least one of our steps, and those whose steps are all there and complete.
    """

    def __init__(self, view: RunView, logged: Series, curve: str, row: TrainerScalar) -> None:
        facts, points = view.snapshot.constants.logged, len(logged.steps)
        per_rollout = trainer_names.steps_per_rollout(facts) or 1
        self.delay = per_rollout - 1 if row.last_pass else 0
        steps = view.snapshot.steps.values + self.delay
        self.lengths = _window_lengths(logged, trainer_names.count(facts, "logging_steps"))
        of_step = np.searchsorted(logged.steps, steps)
        inside = steps > np.append(logged.steps - self.lengths, _NEVER)[of_step]
        of_step = of_step[inside]
        values, complete = view.step_values(curve)[inside], _complete(view, curve, row)[inside]
        counts = np.bincount(of_step, minlength=points)
        sums = np.bincount(of_step, weights=np.where(complete, values, 0.0), minlength=points)
        good = np.bincount(of_step, weights=complete & np.isfinite(values), minlength=points)
        with np.errstate(all="ignore"):
            self.means = sums / counts
        self.has_steps = counts > 0
        expected = _expected_steps(self.lengths, row, per_rollout)
        self.comparable = (
            self.has_steps & (good == counts) & (counts >= expected) & np.isfinite(logged.values)
        )

    @property
    def common(self) -> bool:
        """Return True if a logged point covers any of our steps."""
        return bool(self.has_steps.any())


def _window_lengths(logged: Series, logging_steps: int | None) -> np.ndarray:
    """Return the number of steps that each point covers; steps begin at 1, so the first may cover fewer."""
    gaps = np.diff(logged.steps)
    usual = logging_steps or (int(gaps.min()) if len(gaps) else 1)
    first = np.clip(logged.steps[:1], 1, usual)
    return np.concatenate([first, gaps])


def _complete(view: RunView, curve: str, row: TrainerScalar) -> np.ndarray:
    """Return which steps are written completely and have the curve's column in every sample.

    The mean over some samples cannot equal the mean over all. A step metric has its own rule for that.
    """
    steps, column = view.snapshot.steps, split_statistic(curve)[0]
    newest = newest_complete_step(view.snapshot, time.time())
    written = steps.values <= (0 if newest is None else newest)
    if row.skips_missing or column not in steps.columns:
        return written
    return written & (steps.stat(column, COUNT) == steps.expected(column))


def _expected_steps(lengths: np.ndarray, row: TrainerScalar, steps_per_rollout: int) -> np.ndarray:
    """Return how many of our steps a point must cover.

    Our steps are rollouts. A number of each optimizer step is only known at a rollout's first step.
    """
    if row.frequency == "optimizer step":
        return lengths
    return np.maximum(lengths // steps_per_rollout, 1)
