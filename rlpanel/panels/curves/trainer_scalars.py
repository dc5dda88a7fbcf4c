"""The trainer's own scalars as curves: names, points, and the numbers of ours that they are drawn over.

A curve is named by its column. A scalar's name gets the prefix `PREFIX`, so that the two never collide.
"""

from __future__ import annotations

import numpy as np

from rlpanel.display_settings import Display
from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.trainer_names import USERS_MEAN, rows_of
from rlpanel.panels.curves.log_comparison import LogComparison, comparisons
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots import series
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot

PREFIX = "log:"


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
        return described(curve)
    equal = [curve for row, curve in rows_of(scalar) if row is not USERS_MEAN]
    color = column_info.describe(equal[0]).color if equal else "muted"
    label = described(scalar).label if not scalar.strip() else scalar
    return column_info.ColumnInfo(
        curve,
        label,
        detail=tr("trainer log"),
        help=tr("Logged by the trainer, one number per step."),
        color=color,
    )


def points(view: RunView, curve: str, display: Display) -> series.Points:
    """Return the points of a column or scalar; a scalar has no band."""
    scalar = scalar_of(curve)
    if scalar is None:
        return series.curve(view, curve, display, series.band_of(view, curve, display.band))
    logged = view.snapshot.scalars.series(scalar)
    return series.points_without_band(logged.steps, logged.values, display)


def values(view: RunView, curve: str, step: int) -> tuple[np.ndarray, int]:
    """Return a curve's values, and the position of a step in them; -1 if the step has no value."""
    scalar = scalar_of(curve)
    if scalar is None:
        return view.step_values(curve), view.snapshot.steps.position(step)
    logged = view.snapshot.scalars.series(scalar)
    position = int(np.searchsorted(logged.steps, step))
    found = position < len(logged.steps) and logged.steps[position] == step
    return logged.values, position if found else -1


def resolve(view: RunView, name: str) -> str:
    """Translate a trainer's name into a curve of the run; other names are returned unchanged."""
    if has_data(view, name):
        return name
    facts = view.snapshot.constants.logged
    rows = [(row, curve) for row, curve in rows_of(name) if view.has(curve)]
    known = [curve for row, curve in rows if all(condition.holds(facts) for condition in row.conditions)]
    if known:
        return known[0]
    return rows[0][1] if len(rows_of(name)) == 1 and rows else name


def drawn_over(view: RunView, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the curve names of the scalars that are drawn over these columns, at most one per column."""
    found = []
    for column in columns:
        comparable = [c for c in comparisons(view, column) if c.verdict != "not comparable"]
        found += [f"{PREFIX}{comparison.scalar}" for comparison in comparable[:1]]
    return tuple(found)


def comparison_of(view: RunView, columns: tuple[str, ...]) -> LogComparison | None:
    """Return the comparison for a card's head: the first column's that can be compared, else any."""
    found = [comparison for column in columns for comparison in comparisons(view, column)]
    return next((c for c in found if c.verdict != "not comparable"), next(iter(found), None))
