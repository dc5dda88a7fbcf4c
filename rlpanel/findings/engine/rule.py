"""Registry of the rules. The check, the docs and the help of the settings read it.

Input of a rule: a snapshot without the step that is still being written.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any

import numpy as np

from rlpanel.analysis.step_texts import RunTexts
from rlpanel.findings.engine.column_stats import ColumnStats, with_std
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.places import RANK, PlaceSeries
from rlpanel.findings.engine.signal import RowBatch, Signal, StepBlocks
from rlpanel.findings.engine.window_scan import row_median
from rlpanel.metrics.engine.column_info import describe, step_names
from rlpanel.settings import FindingSettings
from rlpanel.store.columns.step_stats import MAX
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot, newest_complete_step

#: Steps after which something that is missing is late, also as a time: in median step times.
PATIENT_STEPS = 3
#: Seconds of a step whose duration is not known, and the least duration of a step.
UNKNOWN_STEP, MIN_STEP = 600.0, 1.0


@dataclass(frozen=True)
class RuleContext:
    """Snapshot, thresholds and time for one run of the rules, with access to complete steps only.

    Attributes
    ----------
    view : RunView
    thresholds : FindingSettings
    now : float
        Seconds since the epoch.
    previous : PlaceSeries, optional
        Means by place and step of an earlier check of the same run and split.
    texts : RunTexts, optional
        Numbers and phrases of the texts of some samples; None where only the store is at hand.
    arrivals : tuple of (float, int)
        Times of the newest line in earlier checks, and the number of complete steps: how long steps take
        where samples have no time.
    """

    view: RunView
    thresholds: FindingSettings
    now: float
    previous: PlaceSeries | None = None
    texts: RunTexts | None = None
    arrivals: tuple[tuple[float, int], ...] = ()

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

    @cached_property
    def step_seconds(self) -> float:
        """Median seconds between the newest lines of two steps; NaN if their times are not known."""
        steps = self.snapshot.steps
        if "time" not in steps.columns:
            return float("nan")
        durations = np.diff(steps.stat("time", MAX))
        durations = durations[np.isfinite(durations)]
        return float(np.median(durations)) if len(durations) else float("nan")

    @cached_property
    def is_overdue(self) -> bool:
        """True if the next line is overdue: none has come for `PATIENT_STEPS` median step times."""
        usual = self.step_seconds
        if not usual > 0 and len(self.arrivals) > 2:
            times, counts = np.array(self.arrivals).T
            usual = float(np.median(np.diff(times) / np.diff(counts)))
        usual = max(usual, MIN_STEP) if usual > 0 else UNKNOWN_STEP
        return self.now - self.snapshot.newest_line > PATIENT_STEPS * usual

    def series(self, column: str) -> np.ndarray | None:
        """Return a column's value for each complete step, shape (S,); None if the run does not have it."""
        if column in step_names():
            values = self._metric(column)[: len(self.steps)]
        elif self.snapshot.has_number(column):
            values = self.view.step_values(column)[: len(self.steps)]
        else:
            return None
        return values if np.isfinite(values).any() else None

    def _metric(self, name: str) -> np.ndarray:
        """Return a step metric; it is computed together with all that the check before has read."""
        known: dict[str, np.ndarray] = self.results.setdefault(RuleContext._metric, {})
        if name not in known:
            known |= self.view.step_metrics_of([*{name, *self.place_series.earlier_metrics} - known.keys()])
        self.place_series.metrics.add(name)
        return known[name]

    def spread(self, column: str) -> float:
        """Return the median over the steps of the samples' standard deviation; NaN if none is known."""
        known: dict[str, float] = self.results.setdefault(RuleContext.spread, {})
        if column not in known:
            if column in self.step_stats:
                known[column] = self.step_stats.usual_std(column)
            else:
                found = self.snapshot.steps.std(column)[: len(self.steps)]  # raises an error for another name
                known[column] = float(row_median(found[None])[0])
        return known[column]

    @cached_property
    def step_stats(self) -> ColumnStats:
        """Statistics of all stored columns at the complete steps."""
        steps, size = self.snapshot.steps, len(self.steps)

        def read(first: int) -> np.ndarray:
            return with_std(steps.stats_of(steps.columns, first)[..., : size - first])

        series = self.place_series
        return ColumnStats(steps.columns, series.grown(("columns", steps.columns), read), series.folded)

    @cached_property
    def change_z(self) -> float:
        """The setting of this name: nearly all rules read it, and a setting is checked each time."""
        return float(self.thresholds.change_z)

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of complete steps, without those of restarted attempts and duplicates, shape (N,)."""
        rows = self.snapshot.alive_rows
        if len(self.steps) == len(self.snapshot.steps.values):
            return rows
        return rows[self.snapshot.metadata("step")[rows] <= self.steps[-1]] if len(self.steps) else rows[:0]

    @cached_property
    def row_steps(self) -> np.ndarray:
        """Position in `steps` of the step of each row of `rows`, shape (N,)."""
        found = np.searchsorted(self.steps, self.snapshot.metadata("step")[self.rows])
        return found.astype(np.int32)

    @cached_property
    def blocks(self) -> StepBlocks:
        """The same rows in blocks of steps."""
        return StepBlocks(self.view, self.rows, self.steps, is_complete=True)

    @cached_property
    def place_series(self) -> PlaceSeries:
        """Means of signals by place and step."""
        return PlaceSeries(self.blocks, self.previous)

    def available(self, signal: Signal) -> bool:
        """Return True if the run has all columns that the signal needs."""
        return self.place_series.available(signal)

    def table(self, signal: Signal) -> np.ndarray:
        """Return the means of a signal by place and step, see `PlaceSeries.table`."""
        return self.place_series.table(signal)

    def ranks(self) -> tuple[list[str], np.ndarray]:
        """Return the names of the ranks and their positions in `PlaceSeries.places`; none for one rank."""
        places = self.place_series.places
        rows = np.flatnonzero([place.dimension == RANK for place in places])
        return [places[row].value for row in rows.tolist()], rows

    @cached_property
    def texts_moments(self) -> dict[str, np.ndarray]:
        """Mean of each number of the texts, and its variance, at the complete steps, shape (S, 2) each."""
        return self.texts.moments(self.steps.tolist()) if self.texts is not None else {}

    @cached_property
    def with_discarded(self) -> RuleContext:
        """The same steps with the samples that were discarded from this split."""
        wide = self.snapshot.with_discarded
        return self if wide is self.snapshot else replace(self, view=RunView(wide), previous=None)

    @cached_property
    def results(self) -> dict[Any, Any]:
        """Results that several rules need, by the arguments of the test."""
        return {}

    @cached_property
    def all_rows(self) -> RowBatch:
        """All rows of complete steps at once: for columns that take little memory, else use `blocks`."""
        return RowBatch(self.view, self.rows, self.steps)

    def column(self, name: str) -> np.ndarray:
        """Return the values of a stored number column at `rows`, shape (N,)."""
        return self.all_rows.number(name)

    @staticmethod
    def label(column: str) -> str:
        """Return the display name of a column."""
        return describe(column).axis


Check = Callable[[RuleContext], Iterator[Finding]]


@dataclass(frozen=True)
class Rule:
    """A registered rule.

    Attributes
    ----------
    name : str
        Name of the decorated function.
    label : str
        Title on the screen.
    check : callable
        Yields the findings of a run, with the rule's name filled in.
    thresholds : tuple of str
        Names of the settings that the rule reads.
    help : str
        The function's docstring.
    clock : bool
        True if its findings can change while no line is written.
    """

    name: str
    label: str
    check: Check
    thresholds: tuple[str, ...]
    help: str
    clock: bool = False


RULES: dict[str, Rule] = {}


def rule(label: str, *thresholds: str, clock: bool = False) -> Callable[[Check], Check]:
    """Register the decorated function under its own name; fill name and title into its findings.

    Parameters
    ----------
    label : str
        Title on the screen.
    thresholds : str
        Names of the settings that the rule reads.
    clock : bool
        True if its findings can change while no line is written.

    Raises
    ------
    ValueError
        If the name is taken.
    """

    def register(check: Check) -> Check:
        name = check.__name__
        if name in RULES:
            raise ValueError(f"rule {name!r} is declared twice")

        @wraps(check)
        def named(context: RuleContext) -> Iterator[Finding]:
            for finding in check(context):
                yield replace(finding, rule=name, title=label)

        description = " ".join((inspect.getdoc(check) or "").split())
        RULES[name] = Rule(name, label, named, thresholds, description, clock)
        return named

    return register
