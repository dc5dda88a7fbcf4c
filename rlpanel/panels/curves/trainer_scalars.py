"""The trainer's own scalars as curves, and their comparison with our numbers, point by point."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlpanel.display_settings import Display
from rlpanel.metrics.engine import column_info, trainer_names
from rlpanel.metrics.engine.metric import split_statistic
from rlpanel.metrics.engine.trainer_names import USERS_MEAN, TrainerScalar, rows_of
from rlpanel.number_text import number
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import current_language, tr, trn
from rlpanel.panels.plots import series
from rlpanel.panels.ui.theme import safe_text
from rlpanel.store.columns.scalar_log import Series
from rlpanel.store.columns.splits import TRAIN
from rlpanel.store.columns.step_stats import COUNT
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot, newest_complete_step
from rlpanel.store.snapshot.snapshot_cache import cached_on

# -- log comparison ------------------------------------------------------------------------------------
# Compares our numbers with the trainer's scalars that should equal them, point by point.
#
# A scalar that is logged every few steps is a mean over them, so it is compared with the mean of our steps
# since the point before. A point may also come later than the steps that it covers.


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


#: Two points are equal within this share of the larger one, or within this difference: trainers add 32-bit
#: floats in another order.
RELATIVE, ABSOLUTE = 1e-5, 1e-6

Verdict = Literal["equal", "differs", "not comparable"]


@dataclass(frozen=True)
class LogComparison:
    """Result of comparing a curve with a scalar of the trainer's log.

    Attributes
    ----------
    scalar, curve : str
        The trainer's name, and ours.
    verdict : str
        ``not comparable`` if the points differ and it is unknown, or known not to be so, that both are the
        same number.
    reason : str
        Why it is not comparable.
    points, partial : int
        Compared points, and points left out because our steps or their samples are incomplete.
    different : int
        Points that differ by more than the tolerance.
    largest, step : float, int
        The largest difference and its step.
    delay : int
        Number of steps by which the trainer logs it later.
    window : int
        Largest number of our steps that a point is the mean of.
    tolerance : float
        Absolute tolerance.
    """

    scalar: str
    curve: str
    verdict: Verdict
    reason: str = ""
    points: int = 0
    partial: int = 0
    different: int = 0
    largest: float = 0.0
    step: int = 0
    delay: int = 0
    window: int = 1
    tolerance: float = ABSOLUTE

    @property
    def html(self) -> str:
        """The comparison as a short HTML label for the card's head, with the details as its tooltip."""
        label = {
            "equal": tr("matches trainer log"),
            "differs": tr("differs from trainer log by {largest}", largest=number(self.largest)),
            "not comparable": tr("trainer log: not comparable"),
        }[self.verdict]
        attributes = f'data-verdict="{self.verdict}" title="{safe_text(self.tip)}"'
        return f'<span class="unit log" {attributes}>{label}</span>'

    @property
    def tip(self) -> str:
        """The details in plain text."""
        if self.verdict == "not comparable":
            return tr(
                "The trainer's {scalar} cannot be compared: {reason}.", scalar=self.scalar, reason=self.reason
            )
        parts = [tr("The trainer logs this number as {scalar}.", scalar=self.scalar)]
        if self.verdict == "equal":
            parts.append(tr("Both are equal at {count}.", count=_points(self.points)))
        else:
            parts.append(
                tr(
                    "They differ at {different:,} of {count}, most at step {step}: by {largest}.",
                    different=self.different,
                    count=_points(self.points),
                    step=self.step,
                    largest=number(self.largest),
                )
            )
        parts.append(
            tr(
                "Equal means within {value:.3%} or {tolerance}.",
                value=RELATIVE,
                tolerance=number(self.tolerance),
            )
        )
        if self.window > 1:
            parts.append(
                tr("A logged point is compared with the mean of up to {window} steps.", window=self.window)
            )
        if self.delay:
            later = trn("{count:,} step", "{count:,} steps", self.delay)
            parts.append(tr("The trainer logs the last pass through a rollout {later} later.", later=later))
        if self.partial:
            parts.append(
                tr("Left out: {count}, whose steps or samples are incomplete.", count=_points(self.partial))
            )
        return " ".join(parts)


def comparisons(view: RunView, curve: str) -> tuple[LogComparison, ...]:
    """Return the comparisons of a curve with all scalars that should equal it.

    Under plain names trainers log statistics of training samples, so other splits have none. While a backlog
    is read, or if the user stopped that, steps lack samples, so there are none either.
    """
    snapshot = view.snapshot
    if (snapshot.has_splits and snapshot.split != TRAIN) or not view.has(curve):
        return ()
    if snapshot.backlog_starts or snapshot.progress.halted:
        return ()
    key = (current_language(), curve)  # the reasons are labels
    return cached_on(view, "comparisons", key, lambda: _compare_all(view, curve))


def _compare_all(view: RunView, curve: str) -> tuple[LogComparison, ...]:
    results = []
    for scalar in view.snapshot.scalars.names:
        rows = rows_of(scalar)
        for row in (row for row, ours in rows if ours == curve):
            result = _compare(view, scalar, curve, row)
            others = [(other, ours) for other, ours in rows if other is not row]
            if result and not (result.verdict == "not comparable" and _is_known(view, scalar, others)):
                results.append(result)
    return tuple(results)


def _is_known(view: RunView, scalar: str, rows: Sequence[tuple[TrainerScalar, str]]) -> bool:
    """Return True if the scalar is known to be the number of one of these rows, or equals it."""
    for row, curve in rows:
        if _conditions(view, row, False) or not view.has(curve):
            continue
        result = _compare(view, scalar, curve, row) if _conditions(view, row, None) else None
        if result is None or result.verdict == "equal":
            return True
    return False


def _conditions(view: RunView, row: TrainerScalar, result: bool | None) -> list[str]:
    """Return the conditions that do not hold (False), or of which ``run.json`` says nothing (None)."""
    facts = view.snapshot.constants.logged
    return [condition.text for condition in row.conditions if condition.holds(facts) is result]


def _doubt(view: RunView, row: TrainerScalar) -> str:
    """Return why a difference may not be one; empty if there is no doubt."""
    if unknown := _conditions(view, row, None):
        return tr("run.json does not say that {facts}", facts=tr(", and that ").join(unknown))
    return tr("some of the run's files cannot be read") if view.snapshot.unread else ""


def _compare(view: RunView, scalar: str, curve: str, row: TrainerScalar) -> LogComparison | None:
    logged = view.snapshot.scalars.series(scalar)
    windows = LogWindows(view, logged, curve, row)
    if not windows.common:
        return None
    if failed := _conditions(view, row, False):
        reason = tr("they are equal only if {facts}", facts=tr(", and ").join(failed))
        return LogComparison(scalar, curve, "not comparable", reason)
    ours, theirs, compared = windows.means, logged.values, windows.comparable
    partial = int((windows.has_steps & ~compared & np.isfinite(theirs)).sum())
    if not compared.any():
        reason = tr("every point covers samples that lack it, or steps that are not in the rows")
        return LogComparison(scalar, curve, "not comparable", reason, partial=partial)
    with np.errstate(invalid="ignore"):
        difference = np.where(compared, np.abs(ours - theirs), 0.0)
        allowed = ABSOLUTE + row.rounding + RELATIVE * np.fmax(np.abs(ours), np.abs(theirs))
    different = compared & (difference > allowed)
    if different.any() and (reason := _doubt(view, row)):
        return LogComparison(scalar, curve, "not comparable", reason)
    worst = int(np.argmax(difference))
    return LogComparison(
        scalar,
        curve,
        "differs" if different.any() else "equal",
        points=int(compared.sum()),
        partial=partial,
        different=int(different.sum()),
        largest=float(difference[worst]),
        step=int(logged.steps[worst]),
        delay=windows.delay,
        window=int(windows.lengths[compared].max()),
        tolerance=ABSOLUTE + row.rounding,
    )


def _points(count: int) -> str:
    return trn("{count:,} point", "{count:,} points", count)


# -- trainer scalars -----------------------------------------------------------------------------------
# The trainer's own scalars as curves: names, points, and the numbers of ours that they are drawn over.
#
# A curve is named by its column. A scalar's name gets the prefix `PREFIX`, so that the two never collide.


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
