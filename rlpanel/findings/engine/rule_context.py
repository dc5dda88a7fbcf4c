"""What a rule looks at: one snapshot without the step that is still being written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlpanel.metrics.engine.column_info import describe
from rlpanel.settings import FindingSettings
from rlpanel.store.snapshot.complete_steps import newest_complete
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class RuleContext:
    """One look at a run.

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
        """The complete steps, ascending, shape (S,)."""
        newest = newest_complete(self.snapshot, self.now)
        values = self.snapshot.steps.values
        return values[values <= newest] if newest is not None else values[:0]

    def series(self, column: str) -> np.ndarray | None:
        """A number a complete step, shape (S,); None where the run does not log what it needs."""
        if not self.view.has(column):
            return None
        return self.view.step_values(column)[: len(self.steps)]

    @cached_property
    def rows(self) -> np.ndarray:
        """The rows of complete steps that count, shape (N,)."""
        rows = self.snapshot.living
        return rows[self.snapshot.place("step")[rows] <= self.steps[-1]] if len(self.steps) else rows[:0]

    @cached_property
    def row_steps(self) -> np.ndarray:
        """Where in `steps` each of `rows` stands, shape (N,)."""
        return np.searchsorted(self.steps, self.snapshot.place("step")[self.rows])

    def column(self, name: str) -> np.ndarray:
        """A number column at `rows`, shape (N,)."""
        return self.view.values(name, self.rows)

    @staticmethod
    def label(column: str) -> str:
        """A column's name for people."""
        return describe(column).axis
