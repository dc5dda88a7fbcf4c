"""The part of a change that comes from other data: means by label, weighted as before the change.

A mean moves when harder data comes, though no kind of data has changed. A rank differs when its data does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlpanel.findings.engine.change import Change, number, percent
from rlpanel.findings.engine.change_finding import rows_at
from rlpanel.findings.engine.places import MEAN, RANK, SAMPLES, WHOLE, rows_by_dimension
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import RowBatch, column_signal

#: Share of a change that must vanish with the earlier mix, and of the earlier data that is still there.
_EXPLAINED, _SHARED = 0.5, 0.5
#: Fewest samples of a value, and the smallest change of a value's share.
_MIN_SAMPLES, _MOVED = 10, 0.08
#: A label with more values than this is an identifier.
_MAX_VALUES = 20
#: Codes this close are equal, and share of groups with several values that a label of prompts may have.
_EQUAL, _MIXED_GROUPS = 1e-9, 0.01


@dataclass(frozen=True)
class Mix:
    """A label whose mix explains a change of a mean.

    Attributes
    ----------
    label : str
    same : float
        The mean after the change with the mix of before.
    text : str
        A sentence with the mean of each value, before and after.
    """

    label: str
    same: float
    text: str


def explaining_mix(context: RuleContext, column: str, change: Change) -> Mix | None:
    """Return the label whose mix explains most of a change of the whole run; None if none does."""
    if change.place:
        return None
    table, places = context.table(column_signal(column)), context.place_series.places
    before = np.zeros(len(change.mask), bool)
    before[max(0, change.onset - max(5, int(change.mask.sum()))) : change.onset] = True
    found: Mix | None = None
    for label, rows in rows_by_dimension(places).items():
        if label in (WHOLE, RANK) or not before.any():
            continue
        (old_size, old), (new_size, new) = (_levels(table[:, rows], mask) for mask in (before, change.mask))
        both = (old_size >= _MIN_SAMPLES) & (new_size >= _MIN_SAMPLES)
        shares = [size / max(size.sum(), 1) for size in (old_size, new_size)]
        if shares[0][both].sum() < _SHARED or np.abs(shares[1] - shares[0]).max() < _MOVED:
            continue
        weight = old_size[both] / old_size[both].sum()
        level, same = float(weight @ old[both]), float(weight @ new[both])
        if abs(level - same) < (1 - _EXPLAINED) * abs(change.after - change.before) and (
            found is None or abs(level - same) < abs(level - found.same)
        ):
            texts = [
                f"{places[row].value} {number(float(old[at]))} → {number(float(new[at]))}, its share "
                f"{percent(float(shares[0][at]))} → {percent(float(shares[1][at]))}"
                for at, row in enumerate(rows.tolist())
                if both[at]
            ]
            found = Mix(label, same, f"By {label}: {'; '.join(texts[:4])}.")
    return found


def _levels(table: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples and the mean of each place in the marked steps, shape (K,)."""
    size = np.nan_to_num(table[SAMPLES][:, mask])
    total = (np.nan_to_num(table[MEAN][:, mask]) * size).sum(axis=1)
    with np.errstate(all="ignore"):
        return size.sum(axis=1), total / size.sum(axis=1)


def has_other_data(context: RuleContext, column: str, rank: int, mask: np.ndarray, gap: float) -> str:
    """Return the label by which a rank has other data, which explains how its mean differs; else empty.

    Parameters
    ----------
    context : RuleContext
    column : str
    rank : int
    mask : ndarray of bool, shape (S,)
        The steps in which it differs.
    gap : float
        Its mean less that of the others.
    """
    rows = RowBatch(context.view, context.rows[mask[context.row_steps]], context.steps[mask])
    values, own = rows.number(column), rows.metadata("rank") == rank
    for place, (shares, means, both) in _by_label(context, rows, values, own):
        if shares[0][both].sum() < _SHARED or _is_small(shares[0], means, both, gap):
            return place
    return ""


def mix_between(context: RuleContext, column: str, change: Change) -> str:
    """Return the label whose mix makes most of a change within its place; empty if none does.

    The samples of the affected steps are compared with those of the window before. Without groups, labels of
    prompts and of responses cannot be distinguished, so that none is returned.
    """
    if not context.view.grouped:
        return ""
    mask = change.mask.copy()
    mask[slice(*change.base)] = True
    rows = rows_at(context, change.place, mask)
    late = change.mask[mask][rows.position]
    values = rows.number(column)
    known = np.isfinite(values)
    if not (known & late).any() or not (known & ~late).any():
        return ""
    gap = float(values[known & late].mean() - values[known & ~late].mean())
    for place, (shares, means, both) in _by_label(context, rows, values, late):
        if shares[0][both].sum() >= _SHARED and _is_small(shares[0], means, both, gap):
            return place
    return ""


def _is_small(share: np.ndarray, means: np.ndarray, both: np.ndarray, gap: float) -> bool:
    """Return True if the difference with equal mixes is less than half of the whole one."""
    within = float((means[0] - means[1])[both] @ share[both] / share[both].sum())
    return abs(within) < (1 - _EXPLAINED) * abs(gap)


def _by_label(
    context: RuleContext, rows: RowBatch, values: np.ndarray, own: np.ndarray
) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Yield the labels of prompts whose mix differs between two sets of samples.

    A label that differs within groups is of the response: it may change because of what is to be explained.
    With each label: the shares of its values and their means, own ones first, both of shape (2, K), and the
    mask of the values that are frequent in both.
    """
    known = np.isfinite(values)
    for place in dict.fromkeys(each.dimension for each in context.place_series.places):
        if place in (WHOLE, RANK):
            continue
        codes, names = rows.label_codes(place)
        use = known & (codes >= 0)
        if len(names) > _MAX_VALUES or not use.any():
            continue
        sizes = np.stack([np.bincount(codes[use & side], minlength=len(names)) for side in (own, ~own)])
        shares = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), 1)
        if np.abs(shares[0] - shares[1]).max() < _MOVED:
            continue
        differs = rows.group_sums(np.abs(rows.less_group_mean(np.where(use, codes, np.nan)))) > _EQUAL
        if differs.mean() > _MIXED_GROUPS:
            continue
        totals = np.stack(
            [np.bincount(codes[use & side], values[use & side], minlength=len(names)) for side in (own, ~own)]
        )
        both = sizes.min(axis=0) >= _MIN_SAMPLES
        yield place, (shares, totals / np.maximum(sizes, 1), both)
