"""Shows a finding: selects its step, filter, sort order, token colour, tab, curve and an example sample."""

from __future__ import annotations

from typing import Literal

import numpy as np

from rlpanel.errors import FilterError, SampleNotFound
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.places import RANK, Place
from rlpanel.panels.curves.curve_selection import show_curve
from rlpanel.panels.session.context import Context
from rlpanel.store.query.query import Query, QuerySpec, parse_order
from rlpanel.store.snapshot.snapshot import Snapshot

#: Steps of a finding that a click can lead to; ``before`` is the last step before the onset.
StepChoice = Literal["onset", "before", "worst"]
#: Tab in which a finding without a tab is shown.
_TAB = "tokens"


def show_finding(context: Context, finding: Finding, choice: StepChoice = "onset") -> None:
    """Select what shows a finding, in one update; what the run does not have is left out.

    Parameters
    ----------
    context : Context
    finding : Finding
    choice : str
        Which of its steps to select; the selected step stays if the finding has no such step.
    """
    step = step_choices(finding, context.snapshot)[choice]
    step = context.selection.step if step is None else step
    updates = {
        "finding": finding.key,
        "step": step,
        "follow": False,
        "scope": "step",
        "search": "",
        "filter": _filter(context, finding, step),
        "sort": _sort(context.snapshot, finding),
        "uid": finding.uid if _is_in_step(context.snapshot, finding.uid, step) else "",
        "token": -1,
        "page": "",
        "tab": finding.tab or _TAB,
    }
    if _has_token_metric(context, finding.color):
        updates["metric"] = finding.color
    elif not _has_token_metric(context, context.selection.metric):  # that of a run shown before
        updates["metric"] = context.selection.param.metric.default
    context.selection.param.update(**updates)
    show_curve(context, finding.column)


def show_affected(context: Context, finding: Finding) -> None:
    """Show the affected samples of a finding whose split is not the one that was checked.

    The board then shows that split, and with it no finding of the checked one.
    """
    step = context.selection.step if finding.onset is None else finding.onset
    context.selection.param.update(
        split=finding.split,
        finding="",
        step=step,
        follow=False,
        scope="step",
        search="",
        sort="",
        uid="",
        token=-1,
        filter=finding.where,
    )


def step_choices(finding: Finding, snapshot: Snapshot) -> dict[StepChoice, int | None]:
    """Return the steps of a finding that a click can lead to; None where it has no such step."""
    steps, before = snapshot.steps.values, None
    if finding.onset is not None:
        position = int(np.searchsorted(steps, finding.onset))
        before = int(steps[position - 1]) if position else None
    worst = finding.worst if finding.worst != finding.onset else None
    return {"onset": finding.onset, "before": before, "worst": worst}


def _filter(context: Context, finding: Finding, step: int | None) -> str:
    """Return the finding's filter; its place only if no sample of the step passes; else no filter."""
    candidates = [finding.where, *(place.where for place in _places(finding))]
    return next((text for text in candidates if text and _passes_some(context, text, step)), "")


def _places(finding: Finding) -> list[Place]:
    """Return the rank and the category that a finding is limited to."""
    label, _, value = finding.category.partition(" = ")
    ranks = [Place(RANK, str(finding.rank))] if finding.rank is not None else []
    return [*ranks, Place(label, value)] if label else ranks


def _passes_some(context: Context, text: str, step: int | None) -> bool:
    """Return whether a filter is valid and passes a sample of the step, as far as columns can tell."""
    if context.index is None:
        return False
    try:
        query = Query(context.index, context.snapshot, QuerySpec(step, filter=text), context.notes)
    except FilterError:
        return False
    if query.reads or query.patient:  # reading texts would block the event loop
        return True
    return bool(len(list(query.results())[-1].rows))


def _sort(snapshot: Snapshot, finding: Finding) -> str:
    order = parse_order(finding.sort)
    return finding.sort if order is not None and snapshot.has_number(order.name) else ""


def _is_in_step(snapshot: Snapshot, uid: str, step: int | None) -> bool:
    try:
        return bool(uid) and int(snapshot.metadata("step")[snapshot.row(uid)]) == step
    except SampleNotFound:
        return False


def _has_token_metric(context: Context, name: str) -> bool:
    """Return whether samples of the run have a token metric."""
    return bool(name) and any(context.view.has(f"{name}_{part}") for part in ("mean", "sum"))
