"""The two sets of samples that a contrast on the board compares, by the session's selection."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from rlpanel.analysis.difference import ContrastSide
from rlpanel.analysis.step_windows import StepWindows, rows_in, windows_at
from rlpanel.errors import FilterError, SettingError
from rlpanel.panels.language.labels import marked, tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.context_parts import MarkedSteps
from rlpanel.panels.ui.theme import SEVERITY_COLORS
from rlpanel.store.query.filter import Filter
from rlpanel.store.query.filter_columns import FilterScope
from rlpanel.store.snapshot.snapshot import Snapshot

#: Choices of the two sets.
FILTERED, STEPS, RANGES, RUNS = "filtered", "steps", "ranges", "runs"
CHOICES = {
    marked("Filtered samples / the rest"): FILTERED,
    marked("This step / another step"): STEPS,
    marked("Steps / other steps"): RANGES,
    marked("This run / another run"): RUNS,
}
#: Number of steps of a range by default.
USUAL_STEPS = 10

_RANGE = re.compile(r"\s*(\d+)\s*(?:[-–:]\s*(\d+)\s*)?")


@dataclass(frozen=True)
class Sides:
    """The two sets of a contrast.

    Attributes
    ----------
    a, b : ContrastSide
    within, within_b : str
        Filter expressions that the samples of ``a`` and ``b`` pass, besides being of the steps.
    step, step_b : int or None
        Steps of ``a`` and ``b``; None if there are several.
    exclude : frozenset of str
        Columns by which ``a`` was chosen.
    """

    a: ContrastSide
    b: ContrastSide
    within: str = ""
    within_b: str = ""
    step: int | None = None
    step_b: int | None = None
    exclude: frozenset[str] = frozenset()


def parse_range(text: str) -> tuple[int, int]:
    """Return the first and last step of ``7`` or ``3–9``.

    Raises
    ------
    SettingError
        If the text is neither.
    """
    found = _RANGE.fullmatch(text)
    if found is None:
        raise SettingError(tr("{text!r} is not a range of steps: write 7 or 3–9", text=text.strip()[:40]))
    first, last = int(found[1]), int(found[2] or found[1])
    return min(first, last), max(first, last)


def marked_of(context: Context) -> MarkedSteps | None:
    """Return the opened finding; without one, the worst of a curve that goes on, unless a step was chosen."""
    if context.shaded_steps is not None or not context.selection.follow:
        return context.shaded_steps
    current = (found for found in context.shaded_by_column.values() if found.color != SEVERITY_COLORS["info"])
    return next(current, None)


def ranges_of(found: MarkedSteps, snapshot: Snapshot) -> StepWindows | None:
    """Return the steps that a finding compares: by default those after its onset, and as many before it."""
    if found.compared is not None:
        return StepWindows(*found.compared)
    return windows_at(snapshot.steps.values, found.steps[0], found.steps[-1]) if found.steps else None


def range_text(bounds: tuple[int, int]) -> str:
    """Return a range of steps as `parse_range` reads it."""
    return str(bounds[0]) if bounds[0] == bounds[1] else f"{bounds[0]}–{bounds[1]}"


def usual_ranges(snapshot: Snapshot) -> tuple[str, str]:
    """Return the last and the first steps of the run as ranges, which do not overlap."""
    steps = snapshot.steps.values
    if len(steps) < 2:
        return "", ""
    count = min(USUAL_STEPS, len(steps) // 2)
    return f"{steps[-count]}–{steps[-1]}", f"{steps[0]}–{steps[count - 1]}"


def sides_of(context: Context, choice: str, a: str, b: str) -> Sides:
    """Return the two sets.

    Parameters
    ----------
    context : Context
    choice : str
        A value of `CHOICES`.
    a, b : str
        Ranges of steps for `RANGES` and `RUNS`, where an empty one means all steps; for `STEPS`, ``b`` is the
        other step, by default the one before.

    Raises
    ------
    SettingError
        If a range is not valid, or something else is missing; the message says what to do.
    """
    index, view, snapshot = context.index, context.view, context.snapshot
    step = context.selection.step
    if index is None or step is None:
        raise SettingError(tr("this run has no samples yet"))
    if choice == FILTERED:
        return _filtered(context, step)
    if choice == STEPS:
        steps = snapshot.steps
        position = steps.position(step)
        if not b.strip() and position < 1:
            raise SettingError(tr("this is the first step: write the step to compare with"))
        other = parse_range(b)[0] if b.strip() else int(steps.values[position - 1])
        here, there = (
            ContrastSide(tr("step {step:,}", step=at), index, view, snapshot.rows_of(at))
            for at in (step, other)
        )
        return Sides(here, there, step=step, step_b=other)
    here_range, there_range = (parse_range(text) if text.strip() else None for text in (a, b))
    rows, within = _in_range(snapshot, here_range)
    here = ContrastSide(_name(tr("this run"), here_range), index, view, rows)
    if choice == RANGES:
        rows, within_b = _in_range(snapshot, there_range)
        return Sides(
            here, ContrastSide(_name(tr("this run"), there_range), index, view, rows), within, within_b
        )
    other_run = context.other_run
    if other_run is None or context.selection.compared_run == context.selection.run:
        raise SettingError(tr("choose another run of this folder"))
    rows = _in_range(other_run.view.snapshot, there_range)[0]
    there = ContrastSide(_name(other_run.label, there_range), other_run.index, other_run.view, rows)
    return Sides(here, there, within)


def _filtered(context: Context, step: int) -> Sides:
    """Return the samples that pass the grid's filter and search, and the others of the step or run."""
    index, snapshot, selection = context.index, context.snapshot, context.selection
    if context.filtered_uids is None or index is None:
        raise SettingError(tr("filter or search the samples first: these are compared with the rest"))
    at = step if selection.scope == "step" else None
    rows = snapshot.rows_of(at)
    passing = np.array([uid in context.filtered_uids for uid in snapshot.uids(rows)], bool)
    scope = tr("step {step:,}", step=step) if at is not None else tr("the run")
    a = ContrastSide(tr("filtered samples of {scope}", scope=scope), index, context.view, rows[passing])
    b = ContrastSide(tr("the rest of {scope}", scope=scope), index, context.view, rows[~passing])
    where = selection.filter
    without = f"not ({where})" if where else ""
    return Sides(a, b, where, without, at, at, _columns_of(snapshot, rows, where))


def _columns_of(snapshot: Snapshot, rows: np.ndarray, text: str) -> frozenset[str]:
    """Return the columns that a filter uses."""
    if not text.strip():
        return frozenset()
    try:
        return frozenset(Filter(text, FilterScope(snapshot, rows).kinds()).columns)
    except FilterError:  # it uses a computed column, such as a tag, that is not compared anyway
        return frozenset()


def _in_range(snapshot: Snapshot, bounds: tuple[int, int] | None) -> tuple[np.ndarray, str]:
    """Return the rows of these steps, and the filter for them."""
    if bounds is None:
        return snapshot.alive_rows, ""
    return rows_in(snapshot, bounds), f"{bounds[0]} <= step <= {bounds[1]}"


def steps_label(bounds: tuple[int, int]) -> str:
    """Return steps in the language of the page."""
    if bounds[0] == bounds[1]:
        return tr("step {step:,}", step=bounds[0])
    return tr("steps {first:,}–{last:,}", first=bounds[0], last=bounds[1])


def _name(run: str, bounds: tuple[int, int] | None) -> str:
    if bounds is None:
        return run
    steps = steps_label(bounds)
    return steps if run == tr("this run") else f"{run}, {steps}"
