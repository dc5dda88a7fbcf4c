"""Input of a rule: a snapshot without the step that is still being written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlpanel.metrics.engine.column_info import describe
from rlpanel.settings import FindingSettings
from rlpanel.store.snapshot.complete_steps import newest_complete_step
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class RuleContext:
    """Snapshot, thresholds and time for one run of the rules, with access to complete steps only.

    Attributes
    ----------
    view : RunView
    thresholds : FindingSettings
    now : float
        Seconds since the epoch.
    """

    view: RunView
    thresholds: FindingSettings
    now: float

    @property
    def snapshot(self) -> Snapshot:
        """The run's data."""
        return self.view.snapshot

    @cached_property
    def steps(self) -> np.ndarray:
        """Complete steps, ascending, shape (S,)."""
        newest = newest_complete_step(self.snapshot, self.now)
        values = self.snapshot.steps.values
        return values[values <= newest] if newest is not None else values[:0]

    def series(self, column: str) -> np.ndarray | None:
        """Return a column's value for each complete step, shape (S,); None if the run does not have it."""
        if not self.view.has(column):
            return None
        return self.view.step_values(column)[: len(self.steps)]

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of complete steps, without those of restarted attempts and duplicates, shape (N,)."""
        rows = self.snapshot.alive_rows
        return rows[self.snapshot.metadata("step")[rows] <= self.steps[-1]] if len(self.steps) else rows[:0]

    @cached_property
    def row_steps(self) -> np.ndarray:
        """Position in `steps` of the step of each row of `rows`, shape (N,)."""
        return np.searchsorted(self.steps, self.snapshot.metadata("step")[self.rows])

    def column(self, name: str) -> np.ndarray:
        """Return the values of a numeric column at `rows`, shape (N,)."""
        return self.view.values(name, self.rows)

    @staticmethod
    def label(column: str) -> str:
        """Return the display name of a column."""
        return describe(column).axis
