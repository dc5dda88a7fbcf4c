"""The steps and the columns that a plot can show."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import ALIASES
from rlpanel.store.snapshot.run_view import RunView

#: A step, the first and the last of several, or None for all.
Steps: TypeAlias = int | tuple[int, int] | None


def rows_at(view: RunView, steps: Steps) -> np.ndarray:
    """Return the rows of the samples that count at these steps.

    Raises
    ------
    SettingError
        If there are no samples.
    """
    snapshot = view.snapshot
    if isinstance(steps, tuple):
        rows = snapshot.alive_rows
        step = snapshot.metadata("step")[rows]
        rows = rows[(step >= steps[0]) & (step <= steps[1])]
    else:
        rows = snapshot.rows_of(steps)
    if not len(rows):
        known = snapshot.steps.values
        there = f"its steps are {known[0]} to {known[-1]}" if len(known) else "it has no samples yet"
        raise SettingError(f"no samples at {steps_text(steps)} in {snapshot.name}; {there}")
    return rows


def steps_text(steps: Steps) -> str:
    """Return the steps in words: ``step 3``, ``steps 3–7`` or ``all steps``."""
    if steps is None:
        return "all steps"
    return f"steps {steps[0]}–{steps[1]}" if isinstance(steps, tuple) else f"step {steps}"


def check_column(view: RunView, column: str) -> None:
    """Raise SettingError if the run has no number column of this name with a finite value."""
    known = [name for name in view.snapshot.numbers if view.snapshot.has_number(name)]
    if ALIASES.get(column, column) not in known:
        raise SettingError(
            f"no numbers {column!r} in {view.snapshot.name}; available: {', '.join(known) or 'none'}"
        )
