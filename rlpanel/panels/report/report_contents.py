"""Input of a report: a frozen copy of the session's context, and the selection of samples."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from rlpanel.display_settings import Display
from rlpanel.errors import SettingError
from rlpanel.panels.session.context import Context, Selection
from rlpanel.store.query.query import Query, QueryResult, QuerySpec
from rlpanel.store.snapshot.snapshot import newest_complete_step


def frozen(context: Context, **overrides: Any) -> Context:
    """Return a copy of a context that does not follow the run, for views on any thread.

    Parameters
    ----------
    **overrides
        Parameters of `Selection` to override. Without a step the newest complete one is selected.
    """
    selection = {**context.selection.param.values(), **overrides}
    if selection["step"] is None:
        selection["step"] = newest_complete_step(context.snapshot, time.time())
    return Context(
        index=context.index,
        view=context.view,
        selection=Selection(**{**selection, "follow": False}),
        display=Display(**context.display.param.values()),
    )


def check_step(context: Context) -> None:
    """Raise SettingError if the run does not have the selected step; the message names the nearest step."""
    step, steps = context.selection.step, context.snapshot.steps
    if step is None:
        raise SettingError(f"run {context.snapshot.name!r} has no samples yet")
    if steps.position(step) < 0:
        nearest = context.nearest_step(float(step))
        raise SettingError(
            f"step {step} is not in run {context.snapshot.name!r}; step {nearest} is the nearest"
        )


def run_query(context: Context) -> QueryResult:
    """Run the query of the context's selection: scope, filter, search and sort order."""
    assert context.index is not None
    selection = context.selection
    spec = QuerySpec(
        selection.step if selection.scope == "step" else None,
        older=context.display.older_attempts,
        filter=selection.filter,
        search=selection.search,
        sort=selection.sort,
    )
    if context.notes is not None:
        context.notes.refresh()
    return list(Query(context.index, context.snapshot, spec, context.notes).results())[-1]


def select_rows(context: Context, outcome: QueryResult, most: int) -> np.ndarray:
    """Return the rows to include: the first ones if sorted, otherwise a reproducible random draw by uid.

    The selected sample is always included.
    """
    rows = outcome.rows[:most] if context.selection.sort else context.snapshot.sample_rows(outcome.rows, most)
    if not context.selection.uid:
        return rows
    selected = context.snapshot.row(context.selection.uid)
    return rows if selected in rows else np.append(rows[: most - 1], selected)


def first_position(context: Context, uids: list[str]) -> int:
    """Return the position of the sample that is shown first."""
    return uids.index(context.selection.uid) if context.selection.uid in uids else 0
