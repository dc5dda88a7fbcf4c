"""What a clicked share, difference or cluster does: it filters the grid, and selects a sample."""

from __future__ import annotations

from collections.abc import Sequence

from rlpanel.errors import SampleNotFound
from rlpanel.panels.session.context import Context


def both(*filters: str) -> str:
    """Return a filter that passes what all of these pass; empty ones pass everything."""
    given = [text for text in filters if text]
    return given[0] if len(given) == 1 else " and ".join(f"({text})" for text in given)


def show_samples(context: Context, where: str, uids: Sequence[str], step: int | None = None) -> None:
    """Filter the grid, and select the first of these samples that the run has.

    Parameters
    ----------
    context : Context
    where : str
        Filter expression; empty keeps the grid's filter, and only selects the sample.
    uids : sequence of str
    step : int, optional
        Step to show; None for a filter over the whole run.
    """
    selection = context.selection
    uid = next((uid for uid in uids if _step_of(context, uid) is not None), "")
    at = step if step is not None else _step_of(context, uid) if uid else None
    changes: dict[str, object] = {"follow": False, "token": -1, "uid": uid}
    if at is not None:
        changes["step"] = at
    if where:
        changes |= {"filter": where, "scope": "step" if step is not None else "run", "search": ""}
    selection.param.update(**changes)


def _step_of(context: Context, uid: str) -> int | None:
    """Return the step of a sample; None if the run does not have it."""
    try:
        return int(context.snapshot.metadata("step")[context.snapshot.row(uid)])
    except SampleNotFound:
        return None
