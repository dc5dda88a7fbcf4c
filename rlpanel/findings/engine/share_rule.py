"""Checks the share of samples with a property, one call for all rules of this kind, with what controls it.

Contrasts control for confounders: shares by category, reward differences within groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.findings.engine.change import Change, at_place, compared, percent, since, span
from rlpanel.findings.engine.change_finding import affected_rows, finding_of, reward_clause, rows_of_change
from rlpanel.findings.engine.change_tests import beyond, sustained
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import Signal
from rlpanel.number_text import fixed
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.step_metric_cache import group_keys

#: A label with more values than this is an identifier, not a category.
_MAX_VALUES = 8
#: With fewer samples per category, or with fewer groups, a contrast has no power.
_MIN_SAMPLES, _MIN_GROUPS = 20, 10
#: Labels that describe the logging, not the content of a sample.
_NO_CATEGORY = frozenset({"group", "finish_reason"})


def by_category(snapshot: Snapshot, rows: np.ndarray, mask: np.ndarray, noun: str) -> list[str]:
    """Return a sentence for each categorical label whose values differ in their share of ``mask``.

    Parameters
    ----------
    snapshot : Snapshot
    rows : ndarray of int, shape (N,)
    mask : ndarray of bool, shape (N,)
    noun : str
        Noun for the samples in ``mask``.
    """
    sentences = []
    for name in snapshot.labels:
        if name in _NO_CATEGORY:
            continue
        kinds, index = _kinds(snapshot, name, rows)
        count = np.bincount(index, minlength=len(kinds))
        large = count >= _MIN_SAMPLES
        if not 2 <= len(kinds) <= _MAX_VALUES or large.sum() < 2:
            continue
        share = np.bincount(index, mask) / count
        if np.ptp(share[large]) >= 0.1:
            order = np.argsort(-share)
            shares = [f"{kinds[i] or 'none'} {share[i]:.0%} of {count[i]:,}" for i in order]
            sentences.append(f"By {name}, {noun}: {', '.join(shares)}.")
    return sentences


def _kinds(snapshot: Snapshot, label: str, rows: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return the texts of a label at ``rows``, sorted, and each row's position in them, shape (N,)."""
    codes, names = snapshot.label_codes(label)
    used, index = np.unique(codes[rows], return_inverse=True)
    texts = [names[code] if code >= 0 else "" for code in used.tolist()]
    kinds = sorted(set(texts))
    position = {text: at for at, text in enumerate(kinds)}
    return kinds, np.array([position[text] for text in texts], int)[index]


def within_groups(view: RunView, rows: np.ndarray, mask: np.ndarray, noun: str) -> list[str]:
    """Return a sentence on how the rewards of samples in ``mask`` differ from others of the same group.

    The list is empty if there are too few groups with both kinds of samples.
    """
    snapshot = view.snapshot
    if not view.grouped or not snapshot.has_number("reward") or not mask.any() or mask.all():
        return []
    reward = snapshot.counted("reward", rows)
    finite = np.isfinite(reward)
    reward, mask = reward[finite], mask[finite]
    gap = group_gaps(snapshot, rows[finite], mask, reward)
    if gap is None:
        return []
    error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
    pooled = float(reward[mask].mean() - reward[~mask].mean())
    return [
        f"reward of {noun} minus reward of the others: {fixed(gap.mean(), sign=True)} ± {2 * error:.2f} "
        f"(2 s.e.) within the {len(gap):,} groups that have both, {fixed(pooled, sign=True)} pooled."
    ]


def group_gaps(
    snapshot: Snapshot, rows: np.ndarray, mask: np.ndarray, values: np.ndarray
) -> np.ndarray | None:
    """Return the difference of the means of samples in ``mask`` and of others, for each group with both.

    Parameters
    ----------
    snapshot : Snapshot
    rows : ndarray of int, shape (N,)
    mask : ndarray of bool, shape (N,)
    values : ndarray of float, shape (N,)
        Finite.

    Returns
    -------
    ndarray of float, shape (G,), or None
        None if there are too few such groups.
    """
    if not len(rows):
        return None
    group = _groups(snapshot, rows)
    inside, size = np.bincount(group, mask), np.bincount(group)
    mixed = (inside > 0) & (inside < size)
    if mixed.sum() < _MIN_GROUPS:
        return None
    masked = np.bincount(group, values * mask)[mixed] / inside[mixed]
    return masked - np.bincount(group, values * ~mask)[mixed] / (size - inside)[mixed]


def within_correlation(view: RunView, rows: np.ndarray, a: np.ndarray, b: np.ndarray) -> float | None:
    """Return the correlation of two columns after subtracting group means; None with too little data.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int, shape (N,)
    a, b : ndarray of float, shape (N,)
        Values of the columns at ``rows``.
    """
    finite = np.isfinite(a) & np.isfinite(b)
    if not view.grouped or finite.sum() < _MIN_SAMPLES:
        return None
    group = _groups(view.snapshot, rows[finite])
    size = np.bincount(group)
    a, b = (values[finite] - (np.bincount(group, values[finite]) / size)[group] for values in (a, b))
    spread = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / spread if spread > 1e-12 else None


def _groups(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """Return the index of each row's group within its step; indices are contiguous from 0, shape (N,)."""
    step, keys = snapshot.metadata("step")[rows], group_keys(snapshot, rows)
    order = np.lexsort((keys, step))
    starts = np.append(True, (np.diff(step[order]) != 0) | (np.diff(keys[order]) != 0))[: len(rows)]
    group = np.empty(len(rows), np.int64)
    group[order] = np.cumsum(starts) - 1
    return group


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
    column, sort, color, tab, advice : str
        See `Finding`.
    where : str or callable
        See `Finding`; a function of the snapshot is called only if there is a finding.
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
    where: str | Callable[[Snapshot], str] = ""
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
        where=rule.where(context.snapshot) if callable(rule.where) else rule.where,
        sort=rule.sort,
        color=rule.color,
        tab=rule.tab,
        subject=subject,
    )


def share_findings(context: RuleContext, rule: ShareRule, subject: str = "") -> Iterator[Finding]:
    """Yield the finding of `share_finding`, if there is one."""
    found = share_finding(context, rule, subject)
    if found is not None:
        yield found


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
