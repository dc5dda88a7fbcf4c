"""The smallest set of samples whose removal undoes a change: by label, by link, or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Share of the change that must vanish, most sets that are joined, and most of the samples that are removed.
UNDONE, _MAX_SETS, _MAX_REMOVED = 0.8, 3, 0.8


@dataclass(frozen=True)
class Removal:
    """Samples after a change without which most of it vanishes.

    Attributes
    ----------
    names : tuple of str
        What they have in common; empty if they were chosen by their value alone, so that they name no cause.
    where : str
        Filter expression for them; empty if they have none.
    rows : ndarray of int
        The samples.
    count, of : int
        Number of them, and of all samples of the window.
    undone : float
        Share of the change that vanishes.
    without, before : float
        Mean without them, and before the change.
    """

    names: tuple[str, ...]
    where: str
    rows: np.ndarray
    count: int
    of: int
    undone: float
    without: float
    before: float


@dataclass(frozen=True)
class SampleSet:
    """Samples that may be removed: a name, a filter, and their mask over the window."""

    name: str
    where: str
    mask: np.ndarray


def smallest_removal(
    y: np.ndarray, before: np.ndarray, after: np.ndarray, rows: np.ndarray, sets: Sequence[SampleSet]
) -> Removal | None:
    """Return the smallest set that undoes a change; None if the window has no samples.

    One set is tried first, then sets are joined greedily. Samples are chosen one by one, the most extreme
    first, only where no sets do: that always undoes a change.

    Parameters
    ----------
    y : ndarray of float, shape (N,)
    before, after : ndarray of bool, shape (N,)
    rows : ndarray of int, shape (N,)
    sets : sequence of SampleSet
    """
    after, before = after & np.isfinite(y), before & np.isfinite(y)
    count = int(after.sum())
    if not count or not before.any():
        return None
    old = float(y[before].mean())
    change = float(y[after].mean()) - old
    if not change:
        return None

    def undone(mask: np.ndarray) -> float:
        kept = after & ~mask
        return float(1 - (y[kept].mean() - old) / change) if kept.any() else -np.inf

    def made(names: tuple[str, ...], where: str, mask: np.ndarray) -> Removal:
        removed = after & mask
        rest = float(y[after & ~mask].mean())
        shown = rows[removed][np.argsort(np.sign(change) * -y[removed], kind="stable")]
        return Removal(names, where, shown, int(removed.sum()), count, undone(mask), rest, old)

    usable = [each for each in sets if 0 < (after & each.mask).sum() <= _MAX_REMOVED * count]
    enough = [each for each in usable if undone(each.mask) >= UNDONE]
    if enough:
        best = min(enough, key=lambda each: (int((after & each.mask).sum()), len(each.where)))
        return made((best.name,), best.where, best.mask)
    joined, names, wheres = np.zeros(len(y), bool), [], []
    for _ in range(_MAX_SETS):
        gains = [
            (undone(joined | each.mask) - undone(joined)) / max(int((after & each.mask & ~joined).sum()), 1)
            for each in usable
        ]
        if not gains or max(gains) <= 0:
            break
        chosen = usable[int(np.argmax(gains))]
        joined = joined | chosen.mask
        names.append(chosen.name)
        wheres.append(chosen.where)
        if (after & joined).sum() > _MAX_REMOVED * count:
            break
        if undone(joined) >= UNDONE:
            where = " or ".join(f"({each})" for each in wheres) if all(wheres) else ""
            return made(tuple(names), where, joined)
    order = np.flatnonzero(after)[np.argsort(np.sign(change) * -y[after], kind="stable")]
    left = np.cumsum(y[order][::-1])[::-1]
    means = left[1:] / np.arange(count - 1, 0, -1)
    reached = np.flatnonzero(1 - (means - old) / change >= UNDONE)
    if not len(reached):
        return None
    mask = np.zeros(len(y), bool)
    mask[order[: int(reached[0]) + 1]] = True
    return made((), "", mask)
