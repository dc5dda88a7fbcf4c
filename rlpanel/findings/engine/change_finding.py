"""Turns a change of a signal into a finding: severity, steps, filter, and a sample that shows it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlpanel.findings.engine.change import Change, number, span
from rlpanel.findings.engine.change_tests import PlaceTable, only_place
from rlpanel.findings.engine.finding import Finding, Severity
from rlpanel.findings.engine.places import RANK, Place, codes_of
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import RowBatch, column_signal

#: A change that ended more than this share of the run ago, and at least this many steps, is history.
_HISTORY_SHARE, _HISTORY_STEPS = 0.05, 3
#: A finding on single samples is ongoing if one of this many newest steps has one.
_RECENT = 3
#: Smallest change of the mean reward that a sentence mentions, in standard errors and standard deviations.
_REWARD_Z, _REWARD_EFFECT = 4.0, 0.25


def severity_of(context: RuleContext, mask: np.ndarray, *, harmful: bool) -> Severity:
    """Return ``alarm`` for ongoing harm, ``info`` for what ended long ago, else ``warning``."""
    since_end = len(mask) - 1 - int(np.flatnonzero(mask)[-1])
    if since_end == 0:
        return "alarm" if harmful else "warning"
    return "info" if since_end > max(_HISTORY_STEPS, _HISTORY_SHARE * len(mask)) else "warning"


def finding_of(
    context: RuleContext,
    change: Change,
    sentence: str,
    *,
    harmful: bool,
    column: str,
    evidence: Sequence[str] = (),
    advice: str = "",
    where: str = "",
    sort: str = "",
    color: str = "",
    tab: str = "",
    subject: str = "",
) -> Finding:
    """Return the finding of a change; see `Finding` for the parameters.

    ``where`` is restricted to the place of the change. ``harmful`` makes it an alarm while it goes on.
    """
    conditions = [f"({part})" if " or " in part else part for part in (where, change.place.where) if part]
    return Finding(
        severity=severity_of(context, change.mask, harmful=harmful),
        sentence=sentence,
        evidence=tuple(evidence),
        advice=advice,
        steps=tuple(context.steps[change.mask].tolist()),
        ongoing=change.ongoing,
        worst=int(context.steps[change.worst]),
        rank=change.place.rank,
        category=change.place.category,
        column=column,
        where=" and ".join(conditions),
        sort=sort,
        color=color,
        tab=tab,
        uid=example(context, change, sort),
        subject=subject,
    )


def finding_of_rows(
    context: RuleContext,
    marked: np.ndarray,
    sentence: str,
    *,
    harmful: bool,
    evidence: Sequence[str],
    advice: str,
    column: str = "",
    where: str = "",
    tab: str = "",
    subject: str = "",
) -> Finding:
    """Return the finding of single samples that are wrong, whatever their number.

    Parameters
    ----------
    context : RuleContext
    marked : ndarray of bool, shape (N,)
        Mask of all rows of complete steps.
    sentence : str
        With ``{place}`` and ``{steps}``.
    harmful, evidence, advice, column, where, tab, subject
        See `finding_of`.
    """
    counts = np.bincount(context.row_steps[marked], minlength=len(context.steps))
    mask, place = counts > 0, only_place(context, marked)
    ongoing = bool(mask[-_RECENT:].any())
    text = f" on {place.text}" if place.rank is not None else f" with {place.text}" if place else ""
    return Finding(
        severity=("alarm" if harmful else "warning")
        if ongoing
        else severity_of(context, mask, harmful=harmful),
        sentence=sentence.replace("{place}", text).replace("{steps}", span(context.steps, mask)),
        evidence=tuple(evidence),
        advice=advice,
        steps=tuple(context.steps[mask].tolist()),
        ongoing=ongoing,
        worst=int(context.steps[counts.argmax()]),
        rank=place.rank,
        category=place.category,
        column=column,
        where=" and ".join(part for part in (where, place.where) if part),
        tab=tab,
        uid=context.snapshot.uid(int(context.rows[marked][0])),
        subject=subject,
    )


def rows_of_change(context: RuleContext, change: Change, step: int) -> RowBatch:
    """Return the rows of one step, by its position, in the place of a change."""
    mask = np.zeros(len(context.steps), bool)
    mask[step] = True
    return rows_at(context, change.place, mask)


def affected_rows(context: RuleContext, change: Change) -> RowBatch:
    """Return the rows of the affected steps in the place of a change."""
    return rows_at(context, change.place, change.mask)


def rows_of_finding(context: RuleContext, finding: Finding) -> RowBatch:
    """Return the rows that a finding speaks of: those of its steps, on its rank or in its category."""
    label, _, value = finding.category.partition(" = ")
    place = Place(RANK, str(finding.rank)) if finding.rank is not None else Place(label, value)
    return rows_at(context, place, np.isin(context.steps, finding.steps))


def rows_at(context: RuleContext, place: Place, mask: np.ndarray) -> RowBatch:
    """Return the rows of the marked steps in a place."""
    rows, steps = context.rows[mask[context.row_steps]], context.steps[mask]
    found = RowBatch(context.view, rows, steps)
    if not place:
        return found
    return RowBatch(context.view, rows[codes_of(found, [place]) == 0], steps)


def example(context: RuleContext, change: Change, sort: str = "") -> str:
    """Return the sample with the most extreme value at the onset, else at the worst step; may be empty.

    Of samples with the same value, the one that ``sort`` puts first; see `Finding`.
    """
    for step in (change.onset, change.worst):
        rows = rows_of_change(context, change, step)
        if not len(rows):
            continue
        values = change.sign * np.asarray(change.signal.values(rows), float)
        if np.isfinite(values).any() and (change.signal.kind != "share" or np.nanmax(values) > 0):
            ranks = rows.number(sort.removeprefix("-")) * (-1 if sort.startswith("-") else 1)
            order = np.lexsort((ranks, np.where(np.isfinite(values), -values, np.inf)))
            return context.snapshot.uid(int(rows.rows[order[0]]))
    return ""


def reward_clause(context: RuleContext, change: Change) -> str:
    """Return how the mean reward changed from before the onset to the affected steps; empty if it did not."""
    reward = column_signal("reward")
    if not context.available(reward) or not change.onset:
        return ""
    table = PlaceTable.of(context, reward)
    row = table.places.index(change.place)
    before = np.zeros(len(change.mask), bool)
    before[max(0, change.onset - 5) : change.onset] = True
    after = change.mask.copy()
    after[: max(change.onset, change.last - 4)] = False
    (old, old_error), (new, new_error) = (table.level(row, mask) for mask in (before, after))
    deviations = context.snapshot.steps.std("reward")[: len(change.mask)]
    spread = float(np.nanmedian(deviations)) if np.isfinite(deviations).any() else 0.0
    gap = new - old
    if not abs(gap) > max(_REWARD_Z * np.hypot(old_error, new_error), _REWARD_EFFECT * spread):
        return ""
    return f", while the reward {'rose' if gap > 0 else 'fell'} from {number(old)} to {number(new)}"
