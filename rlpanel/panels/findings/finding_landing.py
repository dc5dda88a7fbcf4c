"""Shows a finding: selects its step, filter, sort order, token colour, curve, and the place that shows it.

That place is a sample, its tab, and in it a turn, a token or the end of the response. What was set is kept,
so that closing the finding gives back what the viewer had before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rlpanel.errors import FilterError, RLPanelError, SampleNotFound
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.places import RANK, Place
from rlpanel.panels.conversation.conversation_payload import failed_turn, has_turns
from rlpanel.panels.curves.curve_bar import show_curve, without_last_curve
from rlpanel.panels.session.context import Context, Selection, shared_sample
from rlpanel.panels.tokens.metric_rows import build_rows
from rlpanel.schema import Sample
from rlpanel.store.query.query import Query, QuerySpec, parse_order
from rlpanel.store.snapshot.snapshot import Snapshot

#: Steps of a finding that a click can lead to; ``before`` is the last step before the onset.
StepChoice = Literal["onset", "before", "worst"]
#: Parameters of the selection that closing a finding restores. Step and sample stay: they are in sight.
_RESTORED = ("filter", "sort", "scope", "search", "curves", "metric", "tab", "turn", "token", "explain")


@dataclass(frozen=True)
class Landing:
    """Settings that opening a finding has changed.

    Attributes
    ----------
    before, made : dict
        Values of the selection before and after, by parameter.
    """

    before: Mapping[str, Any]
    made: Mapping[str, Any]

    def undo(self, selection: Selection) -> None:
        """Restore what the viewer had before, except for what has changed since."""
        selection.param.update(**self._undone(selection))

    def original(self, selection: Selection) -> dict[str, Any]:
        """Return the values that `undo` would lead to."""
        return _values(selection) | self._undone(selection)

    def _undone(self, selection: Selection) -> dict[str, Any]:
        return {
            name: self.before[name] for name, value in self.made.items() if getattr(selection, name) == value
        }


def _values(selection: Selection) -> dict[str, Any]:
    return {name: getattr(selection, name) for name in _RESTORED}


def show_finding(
    context: Context, finding: Finding, choice: StepChoice = "onset", earlier: Landing | None = None
) -> Landing:
    """Select what shows a finding, in one update; what the run does not have is left out.

    Parameters
    ----------
    context : Context
    finding : Finding
    choice : str
        Which of its steps to select; the selected step stays if the finding has no such step.
    earlier : Landing, optional
        That of the finding that was open: it is undone first.
    """
    selection = context.selection
    before = _values(selection) if earlier is None else earlier.original(selection)
    step = step_choices(finding, context.snapshot)[choice]
    step = selection.step if step is None else step
    is_open = selection.finding == finding.key  # another of its steps is chosen: the page stays
    filter_, sort = _filter(context, finding, step), _sort(context.snapshot, finding)
    is_own = _is_in_step(context.snapshot, finding.uid, step)
    uid = finding.uid if is_own else _first_uid(context, QuerySpec(step, filter=filter_, sort=sort))
    updates: dict[str, Any] = {
        "finding": finding.key,
        "step": step,
        "follow": False,
        "scope": "step",
        "search": "",
        "filter": filter_,
        "sort": sort,
        "uid": uid,
        "page": selection.page if selection.page == "samples" or is_open else "",
        "explain": selection.explain if is_open else "",
        "curves": before["curves"],
        "metric": before["metric"],
    }
    if _has_token_metric(context, finding.color):
        updates["metric"] = finding.color
    elif not _has_token_metric(context, before["metric"]):  # that of a run shown before
        updates["metric"] = selection.param.metric.default
    selection.param.update(**updates, **_place(context, finding, uid))
    show_curve(context, finding.column)
    return Landing(before, {name: getattr(selection, name) for name in _RESTORED})


def linked_landing(context: Context, finding: Finding) -> Landing:
    """Return the landing of a finding that the address opened: nothing else is known to have stood there."""
    selection = context.selection
    made = {
        "filter": _filter(context, finding, selection.step),
        "sort": _sort(context.snapshot, finding),
        "curves": selection.curves if finding.column in selection.curves[-1:] else None,
    }
    before = {"filter": "", "sort": "", "curves": without_last_curve(context)}
    return Landing(before, {name: value for name, value in made.items() if value})


def show_end(context: Context, finding: Finding, uid: str) -> None:
    """Let the tab *Text* show the end of a response if the finding is about the answer."""
    context.end_in_sight = uid if finding.tab == "reference" else ""


def _place(context: Context, finding: Finding, uid: str) -> dict[str, Any]:
    """Return the tab that shows a finding in a sample, and the turn or token in it."""
    place: dict[str, Any] = {"tab": "", "turn": None, "token": -1}
    sample = _sample(context, uid)
    show_end(context, finding, uid)
    if sample is None:
        return place | {"tab": finding.tab if finding.tab in ("conversation", "group") else ""}
    if finding.tab == "tokens" and sample.arrays():
        return place | {"tab": "tokens", "token": _token(context, sample, finding.color)}
    if finding.tab == "reference":
        is_short = sample.ground_truth is not None and not has_turns(sample)
        return place | {"tab": "reference" if is_short else ""}
    if finding.tab == "conversation":
        return place | {
            "tab": "conversation",
            "turn": failed_turn(sample, finding.tool) if finding.tool else None,
        }
    return place | {"tab": "group" if finding.tab == "group" else ""}


def _sample(context: Context, uid: str) -> Sample | None:
    try:
        return shared_sample(context.index, context.view, uid) if context.index is not None and uid else None
    except RLPanelError:  # its file changed: the sample panel says so
        return None


def _token(context: Context, sample: Sample, metric: str) -> int:
    """Return the token whose value of a metric is farthest from its neutral one; -1 without one."""
    rows = build_rows(sample.arrays(), None, context.display.kl_estimator)[0]
    row = next((row for row in rows if row.name == metric), None)
    if row is None or not np.isfinite(row.values).any():
        return -1
    return int(np.nanargmax(np.where(np.isfinite(row.values), np.abs(row.values - row.around), np.nan)))


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
        turn=None,
        page="",
        tab=finding.tab,
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
    rows = _rows(context, QuerySpec(step, filter=text))
    return rows is None or bool(len(rows))


def _first_uid(context: Context, spec: QuerySpec) -> str:
    """Return the first sample of a query, as the grid lists it; empty if there is none."""
    rows = _rows(context, spec)
    return context.snapshot.uid(int(rows[0])) if rows is not None and len(rows) else ""


def _rows(context: Context, spec: QuerySpec) -> np.ndarray | None:
    """Return the rows of a query; an empty array if it is not valid, None if it needs texts."""
    if context.index is None:
        return np.empty(0, np.int64)
    try:
        query = Query(context.index, context.snapshot, spec, context.notes)
    except FilterError:
        return np.empty(0, np.int64)
    if query.reads or query.patient:  # reading texts would block the event loop
        return None
    return list(query.results())[-1].rows


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
