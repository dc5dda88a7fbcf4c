"""Where something sits, and what goes with it, without being misled by what samples differ in besides.

Pooled contrasts mislead: where one language scores higher and breaks more often, broken answers look better
although within every prompt they are not. So shares are given by category, and rewards within groups.
"""

from __future__ import annotations

import numpy as np

from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.store.snapshot.step_metrics import group_keys

#: A label with more values than this is a name and no category.
_MOST_VALUES = 8
#: Fewer samples of a category, and fewer groups, are no evidence.
_FEWEST, _FEWEST_GROUPS = 20, 10
#: Labels that say how a sample was logged, and not what it is.
_NO_CATEGORY = frozenset({"group", "finish_reason"})


def by_category(snapshot: Snapshot, rows: np.ndarray, mask: np.ndarray, what: str) -> list[str]:
    """For each label with a few values, the share of ``mask`` in each, where these shares differ.

    Parameters
    ----------
    snapshot : Snapshot
    rows : ndarray of int, shape (N,)
    mask : ndarray of bool, shape (N,)
    what : str
        What ``mask`` says of a sample, as a noun.
    """
    found = []
    for name in snapshot.labels:
        if name in _NO_CATEGORY:
            continue
        values = np.array([value or "" for value in snapshot.label(name, rows)])
        kinds, index, count = np.unique(values, return_inverse=True, return_counts=True)
        large = count >= _FEWEST
        if not 2 <= len(kinds) <= _MOST_VALUES or large.sum() < 2:
            continue
        share = np.bincount(index, mask) / count
        if np.ptp(share[large]) >= 0.1:
            order = np.argsort(-share)
            told = [f"{kinds[i] or 'none'} {share[i]:.0%} of {count[i]:,}" for i in order]
            found.append(f"By {name}, {what}: {', '.join(told)}.")
    return found


def within_groups(view: RunView, rows: np.ndarray, mask: np.ndarray, what: str) -> list[str]:
    """How the reward of the samples in ``mask`` differs from that of others of their own groups."""
    snapshot = view.snapshot
    if not view.grouped or not snapshot.has_number("reward") or not mask.any() or mask.all():
        return []
    reward = snapshot.number("reward")[rows]
    known = np.isfinite(reward)
    group = _groups(snapshot, rows[known])
    reward, mask = reward[known], mask[known]
    inside, size = np.bincount(group, mask), np.bincount(group)
    mixed = (inside > 0) & (inside < size)
    if mixed.sum() < _FEWEST_GROUPS:
        return []
    theirs = np.bincount(group, reward * mask)[mixed] / inside[mixed]
    others = np.bincount(group, reward * ~mask)[mixed] / (size - inside)[mixed]
    gap = theirs - others
    error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
    pooled = float(reward[mask].mean() - reward[~mask].mean())
    return [
        f"reward of {what} less that of others: {gap.mean():+.2f} ± {2 * error:.2f} (2 s.e.) within "
        f"the {mixed.sum():,} groups that have both, {pooled:+.2f} pooled."
    ]


def within_correlation(view: RunView, rows: np.ndarray, a: np.ndarray, b: np.ndarray) -> float | None:
    """Correlation of two columns after each group's means were taken off; None where that says nothing.

    Parameters
    ----------
    view : RunView
    rows : ndarray of int, shape (N,)
    a, b : ndarray of float, shape (N,)
        Their values at ``rows``.
    """
    known = np.isfinite(a) & np.isfinite(b)
    if not view.grouped or known.sum() < _FEWEST:
        return None
    group = _groups(view.snapshot, rows[known])
    size = np.bincount(group)
    a, b = (values[known] - (np.bincount(group, values[known]) / size)[group] for values in (a, b))
    spread = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / spread if spread > 1e-12 else None


def _groups(snapshot: Snapshot, rows: np.ndarray) -> np.ndarray:
    """A number for the group of its step that each row belongs to, from 0 on without gaps, shape (N,)."""
    keys = np.stack([snapshot.place("step")[rows], group_keys(snapshot, rows)])
    return np.unique(keys, axis=1, return_inverse=True)[1].ravel()
