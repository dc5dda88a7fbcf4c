"""The trainer's own scalars among the curves: their names, their points, and how far they are from ours.

A curve is named by its column; a scalar's name stands behind `PREFIX`, so that the two never meet.
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
#: What 32-bit numbers and another order of summation make of two numbers that are the same.
_ROUNDING = 1e-5


def scalar_of(curve: str) -> str | None:
    """The scalar that a curve's name stands for; None for a sample column."""
    return curve.removeprefix(PREFIX) if curve.startswith(PREFIX) else None


def has(view: RunView, curve: str) -> bool:
    """Whether there is something to draw under a curve's name."""
    scalar = scalar_of(curve)
    return view.has(curve) if scalar is None else scalar in view.snapshot.scalars.names


def options(snapshot: Snapshot) -> dict[str, str]:
    """The scalars for the menu of curves: label → curve."""
    return {f"trainer's log: {name}": f"{PREFIX}{name}" for name in sorted(snapshot.scalars.names)}


def describe(curve: str) -> column_info.ColumnInfo:
    """What a curve is; a scalar has the colour of the column that it equals."""
    scalar = scalar_of(curve)
    if scalar is None:
        return column_info.describe(curve)
    own = column_of(scalar)
    color = column_info.describe(own).color if own else "muted"
    label = column_info.describe(scalar).label if not scalar.strip() else scalar
    return column_info.ColumnInfo(
        curve, label, detail="trainer's log", help="Logged by the trainer, one number a step.", color=color
    )


def points(view: RunView, curve: str, display: Display) -> series.Points:
    """Points of a curve, whichever it is; a scalar has no band."""
    scalar = scalar_of(curve)
    if scalar is None:
        return series.curve(view, curve, display)
    found = view.snapshot.scalars.series(scalar)
    return series.bare(found.steps, found.values, display)


def values(view: RunView, curve: str, step: int) -> tuple[float, float]:
    """A curve's value at a step and at the step before; NaN where there is none."""
    scalar = scalar_of(curve)
    if scalar is None:
        means = view.step_values(curve)
        at = view.snapshot.steps.position(step)
    else:
        found = view.snapshot.scalars.series(scalar)
        means = found.values
        at = int(np.searchsorted(found.steps, step))
        at = at if at < len(means) and found.steps[at] == step else -1
    nothing = float("nan")
    return (float(means[at]) if at >= 0 else nothing, float(means[at - 1]) if at > 0 else nothing)


@dataclass(frozen=True)
class ScalarDifference:
    """The largest distance between a column's step means and the scalar that should equal them.

    Attributes
    ----------
    largest, step : float, int
        How large it is, and where.
    steps : int
        Steps that both have, where every sample has the column: a part's mean is not the whole's.
    partial : int
        Steps left out because some samples lack it.
    size : float
        The largest of the logged values, without sign.
    """

    scalar: str
    largest: float
    step: int
    steps: int
    partial: int
    size: float

    @property
    def html(self) -> str:
        """For a card's head; the whole sentence is in its title."""
        where = f" at step {self.step}" if self.largest else ""
        tip = (
            f"The trainer logged the same number as {self.scalar}: over {self.steps:,} steps the largest "
            f"difference is {self.largest:.2g}{where}."
        )
        if self.partial:
            tip += f" Left out: {self.partial:,} where some samples lack it."
        same = self.largest <= _ROUNDING * self.size
        words = "= log" if same else f"log Δ {number(self.largest)}"
        return f'<span class="unit log" title="{safe_text(tip)}">{words}</span>'


def matching_scalars(view: RunView, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The curves of the scalars that equal one of these columns; one a column."""
    found: dict[str, str] = {}
    for name in view.snapshot.scalars.names:
        own = _own(view.snapshot, name)
        if own in columns and view.has(own):
            found.setdefault(own, f"{PREFIX}{name}")
    return tuple(found.values())


def difference(view: RunView, curves: tuple[str, ...]) -> ScalarDifference | None:
    """How far the first scalar among the curves is from the column it equals; None without such a pair."""
    for curve in curves:
        scalar = scalar_of(curve)
        own = _own(view.snapshot, scalar) if scalar is not None else None
        if scalar is not None and own is not None and view.has(own):
            return _difference(view, scalar, own)
    return None


def _own(snapshot: Snapshot, scalar: str) -> str | None:
    """Our number that a scalar equals in this run; trainers log training samples' under the plain names."""
    if snapshot.has_splits and snapshot.split != TRAIN:
        return None
    return column_of(scalar, str(snapshot.constants.get("algo", "")).lower())


def _difference(view: RunView, scalar: str, own: str) -> ScalarDifference | None:
    snapshot = view.snapshot
    logged, steps = snapshot.scalars.series(scalar), snapshot.steps.values
    both, at, ours = np.intersect1d(logged.steps, steps, assume_unique=True, return_indices=True)
    apart = np.abs(logged.values[at] - view.step_values(own)[ours])
    whole = np.ones(len(at), bool)
    if own in snapshot.steps.columns and not skips_missing(scalar):
        whole = snapshot.steps.stat(own, COUNT)[ours] == snapshot.steps.samples[ours]
    seen = np.isfinite(apart) & whole
    if not seen.any():
        return None
    worst = int(np.argmax(np.where(seen, apart, -1.0)))
    size = float(np.abs(logged.values[at][seen]).max())
    return ScalarDifference(
        scalar, float(apart[worst]), int(both[worst]), int(seen.sum()), int((~whole).sum()), size
    )
