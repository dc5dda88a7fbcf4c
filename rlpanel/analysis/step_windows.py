"""Two windows of steps that are compared, and the samples' parts of a curve in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import METRICS, Metric
from rlpanel.metrics.engine.segments import StepRows
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

# -- step windows --------------------------------------------------------------------------------------
# Two windows of steps that are compared: some steps, and as many right before them.


#: First and last step, both included.
StepRange: TypeAlias = tuple[int, int]
#: Most steps of a window that is not given.
WINDOW_STEPS = 5


class StepWindows(NamedTuple):
    """The steps of a change and those that they are compared with.

    Attributes
    ----------
    after, before : (int, int)
    """

    after: StepRange
    before: StepRange


def windows_at(steps: np.ndarray, first: int, last: int) -> StepWindows | None:
    """Return the first of the affected steps, and as many right before them; None if either is missing.

    Parameters
    ----------
    steps : ndarray of int, shape (S,)
        All steps, ascending.
    first, last : int
        The affected steps.
    """
    onset = int(np.searchsorted(steps, first))
    affected = int(np.searchsorted(steps, last, side="right")) - onset
    count = min(WINDOW_STEPS, onset, affected)
    if not count:  # also where the steps are those of another run, or not read yet
        return None
    return StepWindows(range_of(steps[onset : onset + count]), range_of(steps[onset - count : onset]))


def chosen_windows(
    snapshot: Snapshot, steps: int | StepRange, since: int | StepRange | None = None
) -> StepWindows:
    """Return the windows of a choice: by default, up to `WINDOW_STEPS` steps before are compared with.

    Raises
    ------
    SettingError
        If the run does not have the steps, or a window is compared with itself.
    """
    values = snapshot.steps.values
    after = _as_range(steps)
    _check(snapshot, after)
    if since is None:
        earlier = values[values < after[0]][-WINDOW_STEPS:]
        if not len(earlier):
            raise SettingError(
                f"step {after[0]} is the first one of {snapshot.name}: there is none before it"
            )
        return StepWindows(after, range_of(earlier))
    before = _as_range(since)
    _check(snapshot, before)
    if before[0] <= after[1] and after[0] <= before[1]:
        raise SettingError(f"{range_words(after)} is compared with itself: give other steps for {before[0]}")
    return StepWindows(after, before)


def _as_range(steps: int | StepRange) -> StepRange:
    return (int(steps), int(steps)) if isinstance(steps, int | np.integer) else (min(steps), max(steps))


def _check(snapshot: Snapshot, bounds: StepRange) -> None:
    values = snapshot.steps.values
    if not ((values >= bounds[0]) & (values <= bounds[1])).any():
        raise SettingError(f"{snapshot.name} has no {range_words(bounds)}")


def rows_in(snapshot: Snapshot, bounds: StepRange) -> np.ndarray:
    """Return the rows of these steps that count."""
    if bounds[0] == bounds[1]:
        return snapshot.rows_of(bounds[0])
    step = snapshot.metadata("step")
    return np.flatnonzero(snapshot.alive & (step >= bounds[0]) & (step <= bounds[1]))


def range_of(steps: np.ndarray) -> StepRange:
    """Return the first and the last of some steps."""
    return int(steps[0]), int(steps[-1])


def range_words(bounds: StepRange) -> str:
    """Return steps in words: ``step 5`` or ``steps 3–7``."""
    first, last = bounds
    return f"step {first:,}" if first == last else f"steps {first:,}–{last:,}"


def range_filter(bounds: StepRange) -> str:
    """Return the filter for the samples of these steps."""
    return f"step == {bounds[0]}" if bounds[0] == bounds[1] else f"{bounds[0]} <= step <= {bounds[1]}"


# -- curve parts ---------------------------------------------------------------------------------------
# The samples' parts of a curve: a step's value as the sum of parts over the sum of weights.
#
# A column's mean over samples has the values as parts and 1 as weights. A mean over tokens has sums over a
# sample's tokens as parts and numbers of tokens as weights. Only such curves can be split into shares.


@dataclass(frozen=True)
class CurveParts:
    """Parts and weights of the samples that count.

    Attributes
    ----------
    rows : ndarray of int, shape (N,)
        Rows with a finite value.
    parts, weights : ndarray of float, shape (N,)
    """

    rows: np.ndarray
    parts: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    @property
    def value(self) -> float:
        """Value of the curve over these samples; NaN without any."""
        return float(self.parts.sum()) / self.total if self.total else float("nan")

    @property
    def variance(self) -> float:
        """Variance of `value`, from the differences between samples; NaN for fewer than two."""
        count = len(self)
        if count < 2:
            return float("nan")
        deviations = (self.parts - self.value * self.weights) / self.total
        return float((deviations**2).sum()) * count / (count - 1)

    def deviations(self, reference: float) -> np.ndarray:
        """Return what each sample adds to ``value - reference``, shape (N,); they sum to it.

        ``(part - reference * weight) / total weight``
        """
        return (self.parts - reference * self.weights) / self.total


def curve_parts(view: RunView, curve: str, rows: np.ndarray) -> CurveParts:
    """Return the parts of a number column's mean or of a step metric.

    Parameters
    ----------
    view : RunView
    curve : str
        A number column, or a step metric that is a mean over samples or a sum over a number of tokens.
    rows : ndarray of int

    Raises
    ------
    SettingError
        If the run does not have the curve, or its value is not such a mean.
    """
    metric = METRICS.get(curve)
    if metric is not None and metric.level == "step":
        parts, weights = _metric_parts(view, metric, rows)
    elif view.snapshot.has_number(curve) or curve in view.derived:
        parts = view.counted(curve, rows)
        weights = np.ones(len(rows))
    else:
        raise SettingError(f"{view.snapshot.name} has no number {curve!r} for each sample")
    finite = np.isfinite(parts) & np.isfinite(weights)
    return CurveParts(rows[finite], parts[finite], weights[finite])


def can_split(metric: Metric) -> bool:
    """Return True if a step metric may be a mean over samples or over tokens."""
    pooled = len(metric.needs) == 2 and metric.needs[1].endswith("_count")
    single = len(metric.needs) == 1 and not metric.optional
    return metric.ordering == ("by",) and (pooled or single)


def _metric_parts(view: RunView, metric: Metric, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the parts and weights of a step metric, from its value for each sample alone."""
    snapshot = view.snapshot
    if can_split(metric) and all(snapshot.is_stored(need) for need in metric.needs):
        alone = StepRows(np.arange(len(rows)), lambda name: snapshot.counted(name, rows), view.constants)
        whole = StepRows(np.zeros(len(rows)), lambda name: snapshot.counted(name, rows), view.constants)
        values = alone.value(metric.name)
        weights = snapshot.counted(metric.needs[1], rows) if len(metric.needs) == 2 else np.ones(len(rows))
        parts = values * weights
        finite = np.isfinite(parts)
        # A metric that is not a mean, such as a variance, has another value over all samples.
        mean = parts[finite].sum() / weights[finite].sum() if finite.any() else np.nan
        if not len(rows) or np.allclose(mean, whole.value(metric.name), equal_nan=True):
            return parts, weights
    raise SettingError(f"{metric.name!r} is not a mean over samples or tokens, so it has no shares")
