"""What a report is made of: a context that stands still, and which of its samples go along."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from rlpanel.errors import SettingError
from rlpanel.panels.session.context import Context, Selection
from rlpanel.settings import Display
from rlpanel.store.query.query import Query, QueryResult, QuerySpec
from rlpanel.store.snapshot.complete_steps import newest_complete


def frozen(context: Context, **wanted: Any) -> Context:
    """A context of its own at what another shows now, for views of their own on any thread.

    Parameters
    ----------
    **wanted
        Parameters of `Selection` that differ; without a step the newest complete one is shown.
    """
    selection = {**context.selection.param.values(), **wanted}
    if selection["step"] is None:
        selection["step"] = newest_complete(context.snapshot, time.time())
    return Context(
        index=context.index,
        view=context.view,
        selection=Selection(**{**selection, "follow": False}),
        display=Display(**context.display.param.values()),
    )


def check_step(context: Context) -> None:
    """Refuse a step that the run does not have; SettingError names the nearest."""
    step, steps = context.selection.step, context.snapshot.steps
    if step is None:
        raise SettingError(f"run {context.snapshot.name!r} holds no samples yet")
    if steps.position(step) < 0:
        nearest = context.nearest_step(float(step))
        raise SettingError(
            f"step {step} is not in run {context.snapshot.name!r}; step {nearest} is the nearest"
        )


def ask(context: Context) -> QueryResult:
    """What the context's question finds."""
    assert context.index is not None
    selection = context.selection
    question = QuerySpec(
        selection.step if selection.scope == "step" else None,
        older=context.display.older_attempts,
        filter=selection.filter,
        search=selection.search,
        sort=selection.sort,
    )
    if context.notes is not None:
        context.notes.refresh()
    return list(Query(context.index, context.snapshot, question, context.notes).outcomes())[-1]


def chosen(context: Context, outcome: QueryResult, most: int) -> np.ndarray:
    """The rows to carry: the first where an order was asked for, else a draw by uid.

    The selected sample is always among them.
    """
    rows = outcome.rows[:most] if context.selection.sort else context.snapshot.draw(outcome.rows, most)
    if not context.selection.uid:
        return rows
    selected = context.snapshot.row(context.selection.uid)
    return rows if selected in rows else np.append(rows[: most - 1], selected)


def place(context: Context, uids: list[str]) -> int:
    """Which of these samples is shown first."""
    return uids.index(context.selection.uid) if context.selection.uid in uids else 0
