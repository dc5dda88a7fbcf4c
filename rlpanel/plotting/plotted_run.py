"""What plots of a run share: the run, the steps that are shown, and elements that link their samples.

Elements are drawn from a table of samples, and drawn again from the samples that a viewer selects:
`holoviews.link_selections` filters the table behind each element and calls the operation that made it. So a
box in one plot shows the means, counts and points of the same samples in the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import holoviews as hv
import numpy as np
import pandas as pd
import param
from holoviews.core.operation import Operation

from rlpanel.errors import SettingError
from rlpanel.metrics.engine.column_info import ALIASES
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.step_metric_cache import group_keys

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


#: Columns that tell which group and which sample a row is, by 52 bits of a hash; groups within their step.
GROUP, SAMPLE = "group of the sample", "uid of the sample"
_BITS = np.uint64((1 << 52) - 1)
#: Maximum numbers of values of a table with all columns; a larger one has only the columns of its plot.
LINKED_VALUES = 20_000_000

Draw = Callable[[pd.DataFrame], Any]


class Redraw(Operation):
    """Draws an element from the samples that are left after a selection."""

    draw = param.Callable(doc="Returns the element from a data frame of samples.")

    def _process(self, element: Any, key: Any = None) -> Any:
        return self.p.draw(element.data)


def sample_table(view: RunView, rows: np.ndarray, columns: Sequence[str]) -> hv.Dataset:
    """Return the samples as a dataset: ``step``, ``rank``, `GROUP`, `SAMPLE` and number columns.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int, shape (N,)
    columns : sequence of str
        Columns of the plot. Up to `LINKED_VALUES` values, all other number columns are added, so that a
        selection in a plot of other columns can be shown here.
    """
    snapshot = view.snapshot
    stored = [name for name in snapshot.numbers if snapshot.has_number(name)]
    names = dict.fromkeys(columns)
    if len(rows) * len(stored) <= LINKED_VALUES:
        names |= dict.fromkeys(stored)
    data = {name: np.asarray(view.values(name, rows), float) for name in names if name != "step"}
    place = {name: snapshot.metadata(name)[rows].astype(float) for name in ("step", "rank")}
    place |= {GROUP: group_numbers(snapshot, rows), SAMPLE: sample_numbers(snapshot, rows)}
    return hv.Dataset(pd.DataFrame(place | data), ["step"], ["rank", GROUP, SAMPLE, *data])


def group_numbers(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return the value of `GROUP` for each row; NaN without a group."""
    keys = group_keys(snapshot, rows)
    return np.where(keys < 0, np.nan, (keys.astype(np.uint64) & _BITS).astype(float))


def sample_numbers(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return the value of `SAMPLE` for each row."""
    return (snapshot.uid_hashes(rows) & _BITS).astype(float)


def linked(table: hv.Dataset, draw: Draw, selects: Callable[[hv.dim], Any] | None = None) -> Any:
    """Return the element that ``draw`` makes of the table; a selection makes it again of fewer samples.

    A selection hides a sample by removing its row, or by replacing its numbers with NaN.

    Parameters
    ----------
    table : Dataset
    draw : callable
    selects : callable, optional
        For marks that are not samples: turns the expression of the marks in a box into that of samples, or
        into None if a box in this element does not select.
    """
    # An operation adds itself, its table and the transforms of the table to what it returns, unless it is
    # called by `apply`, as it is when it may be dynamic.
    source = table if selects is None else table.clone(transforms=[selects])
    return Redraw.instance(draw=draw)(source, dynamic=False)
