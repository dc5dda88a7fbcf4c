"""The trainer's own scalars as curves: names, points, and their difference from our step means.

A curve is named by its column. A scalar's name gets the prefix `PREFIX`, so that the two never collide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.trainer_names import column_of, skips_missing
from rlpanel.panels.plots import series
from rlpanel.panels.ui.theme import number, safe_text
from rlpanel.settings import Display
from rlpanel.store.columns.splits import TRAIN
from rlpanel.store.columns.step_stats import COUNT
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

PREFIX = "log:"
#: Relative difference that 32-bit floats and another order of summation can cause between equal numbers.
_ROUNDING = 1e-5


def scalar_of(curve: str) -> str | None:
    """Return the scalar that a curve's name refers to; None for a sample column."""
    return curve.removeprefix(PREFIX) if curve.startswith(PREFIX) else None


def has_data(view: RunView, curve: str) -> bool:
    """Return whether the run has data for a curve."""
    scalar = scalar_of(curve)
    return view.has(curve) if scalar is None else scalar in view.snapshot.scalars.names


def options(snapshot: Snapshot) -> dict[str, str]:
    """Return the scalars for the menu of curves: label → curve name."""
    return {f"trainer log: {name}": f"{PREFIX}{name}" for name in sorted(snapshot.scalars.names)}


def describe(curve: str) -> column_info.ColumnInfo:
    """Describe a curve; a scalar takes the colour of the column that it equals."""
    scalar = scalar_of(curve)
    if scalar is None:
        return column_info.describe(curve)
    column = column_of(scalar)
    color = column_info.describe(column).color if column else "muted"
    label = column_info.describe(scalar).label if not scalar.strip() else scalar
    return column_info.ColumnInfo(
        curve, label, detail="trainer log", help="Logged by the trainer, one number per step.", color=color
    )


def points(view: RunView, curve: str, display: Display) -> series.Points:
    """Return the points of a column or scalar; a scalar has no band."""
    scalar = scalar_of(curve)
    if scalar is None:
        return series.curve(view, curve, display)
    logged = view.snapshot.scalars.series(scalar)
    return series.points_without_band(logged.steps, logged.values, display)


def values(view: RunView, curve: str, step: int) -> tuple[float, float]:
    """Return a curve's value at a step and at the step before; NaN if there is no value."""
    scalar = scalar_of(curve)
    if scalar is None:
        means = view.step_values(curve)
        position = view.snapshot.steps.position(step)
    else:
        logged = view.snapshot.scalars.series(scalar)
        means = logged.values
        position = int(np.searchsorted(logged.steps, step))
        position = position if position < len(means) and logged.steps[position] == step else -1
    nan = float("nan")
    return (
        float(means[position]) if position >= 0 else nan,
        float(means[position - 1]) if position > 0 else nan,
    )


@dataclass(frozen=True)
class ScalarDifference:
    """The largest difference between a column's step means and the scalar that should equal them.

    Attributes
    ----------
    largest, step : float, int
        The largest absolute difference, and the step where it occurs.
    steps : int
        Compared steps: both logs have them, and every sample of the step has the column. The mean over some
        samples cannot equal the mean over all.
    partial : int
        Steps left out because some samples lack the column.
    size : float
        The largest absolute value of the scalar.
    """

    scalar: str
    largest: float
    step: int
    steps: int
    partial: int
    size: float

    @property
    def html(self) -> str:
        """The comparison as a short HTML label for the card's head, with the details as its tooltip."""
        where = f" at step {self.step}" if self.largest else ""
        tip = (
            f"The trainer logs the same quantity as {self.scalar}. The largest difference over "
            f"{self.steps:,} steps is {self.largest:.2g}{where}."
        )
        if self.partial:
            tip += f" {self.partial:,} steps are left out because some samples lack it."
        equal = self.largest <= _ROUNDING * self.size
        label = (
            'matches<span class="optional"> trainer</span> log'
            if equal
            else f'differs<span class="optional"> from trainer log</span> by {number(self.largest)}'
        )
        return f'<span class="unit log" title="{safe_text(tip)}">{label}</span>'


def matching_scalars(view: RunView, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the curve names of the scalars that equal these columns, at most one per column."""
    curve_of: dict[str, str] = {}
    for name in view.snapshot.scalars.names:
        column = _equal_column(view.snapshot, name)
        if column in columns and view.has(column):
            curve_of.setdefault(column, f"{PREFIX}{name}")
    return tuple(curve_of.values())


def difference(view: RunView, curves: tuple[str, ...]) -> ScalarDifference | None:
    """Compare the first scalar that equals a column with that column; None if no curve is such a scalar."""
    for curve in curves:
        scalar = scalar_of(curve)
        column = _equal_column(view.snapshot, scalar) if scalar is not None else None
        if scalar is not None and column is not None and view.has(column):
            return _compare(view, scalar, column)
    return None


def _equal_column(snapshot: Snapshot, scalar: str) -> str | None:
    """Return the column that a scalar equals in this run, if any.

    Under plain names trainers log statistics of training samples, so other splits have none.
    """
    if snapshot.has_splits and snapshot.split != TRAIN:
        return None
    return column_of(scalar, str(snapshot.constants.get("algo", "")).lower())


def _compare(view: RunView, scalar: str, column: str) -> ScalarDifference | None:
    snapshot = view.snapshot
    logged, steps = snapshot.scalars.series(scalar), snapshot.steps.values
    common, theirs, ours = np.intersect1d(logged.steps, steps, assume_unique=True, return_indices=True)
    differences = np.abs(logged.values[theirs] - view.step_values(column)[ours])
    complete = np.ones(len(theirs), bool)
    if column in snapshot.steps.columns and not skips_missing(scalar):
        complete = snapshot.steps.stat(column, COUNT)[ours] == snapshot.steps.samples[ours]
    compared = np.isfinite(differences) & complete
    if not compared.any():
        return None
    worst = int(np.argmax(np.where(compared, differences, -1.0)))
    size = float(np.abs(logged.values[theirs][compared]).max())
    return ScalarDifference(
        scalar,
        largest=float(differences[worst]),
        step=int(common[worst]),
        steps=int(compared.sum()),
        partial=int((~complete).sum()),
        size=size,
    )
