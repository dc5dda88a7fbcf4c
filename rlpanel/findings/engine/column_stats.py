"""Statistics of all columns at each step, and facts about each column over all steps.

All columns are computed at once, since each call of numpy takes time; of a new step, only its own numbers are
read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property

import numpy as np

from rlpanel.store.columns.step_stats import COUNT, M2, MAX, MEAN, MIN

#: Returns numbers over all steps by a key, see `rlpanel.findings.engine.places.PlaceSeries.folded`.
Folded = Callable[[Hashable, Callable[[int, "np.ndarray | None"], np.ndarray]], np.ndarray]

#: Facts about a column over all steps: number of samples; smallest and largest value; smallest mean of a
#: step; sum of the standard deviations, number of the steps that have one, and of those whose samples vary;
#: steps whose variance is another one than that of 0 and 1 with their mean.
SAMPLES, LOWEST, HIGHEST, LOWEST_MEAN, SPREADS, KNOWN, VARYING, NO_SHARE = range(8)


class ColumnStats:
    """Statistics of all columns at each step, as arrays over all of them.

    Parameters
    ----------
    columns : sequence of str
        C columns.
    stats : ndarray of float, shape (6, C, S)
        See `with_std`.
    folded : callable
        Keeps facts over all steps for the next check.

    Attributes
    ----------
    columns : tuple of str
    std : ndarray of float, shape (C, S)
        Standard deviations of the samples (ddof 1); NaN for steps with fewer than two.
    """

    def __init__(self, columns: Sequence[str], stats: np.ndarray, folded: Folded) -> None:
        self.columns, self._stats, self.std = tuple(columns), stats[:-1], stats[-1]
        self._folded = folded
        self._at = {name: at for at, name in enumerate(self.columns)}

    def __contains__(self, column: str) -> bool:
        return column in self._at

    def of(self, columns: Sequence[str], first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the statistics of some columns, shape (5, C, S), and their standard deviations, (C, S).

        The steps before the one at the position ``first`` are left out.
        """
        at = [self._at[name] for name in columns]
        return self._stats[:, at, first:], self.std[at, first:]

    def facts(self, columns: Sequence[str]) -> np.ndarray:
        """Return facts about some columns over all steps, such as `LOWEST`, shape (8, C)."""
        return self._facts[:, [self._at[name] for name in columns]]

    @cached_property
    def _facts(self) -> np.ndarray:
        return self._folded(("facts", self.columns), self._facts_from)

    def _facts_from(self, first: int, known: np.ndarray | None) -> np.ndarray:
        stats, std = self._stats[..., first:], self.std[:, first:]
        count, mean, squares, low, high = (stats[part] for part in (COUNT, MEAN, M2, MIN, MAX))
        has_std, has_any = np.isfinite(std), count > 0
        with np.errstate(all="ignore"):
            # The computed mean of equal values can differ from them by rounding.
            off = np.abs(np.where(low == high, 0.0, squares) - count * mean * (1 - mean))
            found = np.stack(
                [
                    count.sum(axis=1),
                    np.where(np.isfinite(low), low, np.inf).min(axis=1, initial=np.inf),
                    np.where(np.isfinite(high), high, -np.inf).max(axis=1, initial=-np.inf),
                    np.where(has_any, mean, np.inf).min(axis=1, initial=np.inf),
                    np.where(has_std, std, 0.0).sum(axis=1),
                    has_std.sum(axis=1),
                    (has_std & (std > 0)).sum(axis=1),
                    (has_any & ~(off <= 1e-6 * count)).sum(axis=1),
                ]
            )
        if known is None:
            return found
        both = known + found
        for fact in (LOWEST, LOWEST_MEAN):
            both[fact] = np.minimum(known[fact], found[fact])
        both[HIGHEST] = np.maximum(known[HIGHEST], found[HIGHEST])
        return both

    def usual_std(self, column: str) -> float:
        """Return the median of a column's standard deviations over the steps; NaN if none is known."""

        def ordered(first: int, known: np.ndarray | None) -> np.ndarray:
            new = self.std[self._at[column], first:]
            new = np.sort(new[np.isfinite(new)])
            return new if known is None else np.insert(known, np.searchsorted(known, new), new)

        values = self._folded(("ordered", column), ordered)
        half = len(values) // 2
        if not len(values):
            return float("nan")
        return float((values[(len(values) - 1) // 2] + values[half]) / 2)


def with_std(stats: np.ndarray) -> np.ndarray:
    """Return the statistics of `rlpanel.store.columns.step_stats.Steps.stats_of` and the deviations."""
    count, squares = stats[COUNT], np.where(stats[MIN] == stats[MAX], 0.0, stats[M2])
    with np.errstate(all="ignore"):
        std = np.where(count > 1, np.sqrt(squares / (count - 1)), np.nan)
    return np.concatenate([stats, std[None]])
