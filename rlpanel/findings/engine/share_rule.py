"""Checks the share of samples with a property: one call for all rules of this kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.findings.engine.change import Change, at_place, compared, percent, since, span
from rlpanel.findings.engine.change_finding import affected_rows, finding_of, reward_clause, rows_of_change
from rlpanel.findings.engine.changes import beyond, sustained
from rlpanel.findings.engine.contrast import by_category, within_groups
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import Signal


@dataclass(frozen=True, kw_only=True)
class ShareRule:
    """The texts and limits of a rule on a share of samples.

    Attributes
    ----------
    signal : Signal
        1 for a sample with the property, 0 for one without.
    verb : str
        Continues "67% of the responses", such as ``contain invalid characters``.
    noun : str
        The samples with the property, such as ``responses with invalid characters``.
    of : str
        What the share is of.
    rise : float
        Smallest sustained rise of the share.
    at_most_before : float
        Largest share before the rise.
    limit : float
        Share that is reported even if it was never lower; above 1: none.
    limit_steps : int
        Smallest number of steps above the limit in a row.
    harmful : float
        Share from which on it is an alarm while it goes on.
    harmful_always : bool
        True if the finding is also an alarm where the share was never lower.
    column, where, sort, color, tab, advice : str
        See `Finding`.
    """

    signal: Signal
    verb: str
    noun: str
    of: str = "of the responses"
    rise: float = 0.1
    at_most_before: float = 1.0
    limit: float = 2.0
    limit_steps: int = 3
    harmful: float = 0.2
    harmful_always: bool = True
    column: str = ""
    where: str = ""
    sort: str = ""
    color: str = ""
    tab: str = ""
    advice: str = ""


def share_finding(context: RuleContext, rule: ShareRule, subject: str = "") -> Finding | None:
    """Return the finding of a share that rose, or that is above its limit; None without one."""
    change = sustained(context, rule.signal, rule.rise) if rule.rise < 1 else None
    if change is None and rule.limit < 1:
        change = beyond(context, rule.signal, rule.limit, least=rule.limit_steps)
    if change is None or change.before > rule.at_most_before:
        return None
    risen = np.isfinite(change.before) and change.before < change.after - rule.rise
    when, level, before = since(context.steps, change), percent(change.after), percent(change.before)
    subject_text = f"{level} {rule.of}" if change.sudden else f"more and more {rule.of.split()[-1]}"
    detail = compared(change.before, before) if change.sudden else f" ({before} before, then {level})"
    bad = risen or (rule.harmful_always and change.after >= rule.limit)
    sentence = (
        f"{when}, {subject_text}{at_place(change)} {rule.verb}{detail}{reward_clause(context, change)}."
    )
    return finding_of(
        context,
        change,
        sentence,
        harmful=bool(bad) and change.after >= rule.harmful,
        column=rule.column,
        evidence=share_evidence(context, change, rule.noun),
        advice=rule.advice,
        where=rule.where,
        sort=rule.sort,
        color=rule.color,
        tab=rule.tab,
        subject=subject,
    )


def share_evidence(context: RuleContext, change: Change, noun: str) -> list[str]:
    """Return the counts of a share, its difference between categories, and its rewards within groups."""
    steps = context.steps
    worst = rows_of_change(context, change, change.worst)
    values = change.signal.values(worst)
    marked = int(np.nansum(values))
    average = float(np.nanmean(change.values[change.mask]))
    lines = [
        f"{span(steps, change.mask).capitalize()}: {percent(average)} on average; step "
        f"{steps[change.worst]:,} has the most, {marked:,} of {int(np.isfinite(values).sum()):,}."
    ]
    rows = affected_rows(context, change)
    found = np.nan_to_num(change.signal.values(rows)) > 0
    if not change.place.category:
        lines += by_category(context.snapshot, rows.rows, found, noun)
    lines += [f"{line[:1].upper()}{line[1:]}" for line in within_groups(context.view, rows.rows, found, noun)]
    return lines
