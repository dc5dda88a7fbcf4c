"""64-bit keys: spread evenly, and remembered in eight bytes each."""

from __future__ import annotations

import numpy as np

#: Keys that are remembered as a set before they are sorted in with the others.
_RECENT = 65_536


def mix(keys: np.ndarray) -> np.ndarray:
    """Spread 64-bit keys evenly (the finalizer of splitmix64)."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


class Seen:
    """Tells which keys came before."""

    def __init__(self) -> None:
        self._sorted = np.empty(0, np.uint64)
        self._recent: set[int] = set()

    def take(self, keys: np.ndarray) -> np.ndarray:
        """Remember keys; returns which of them came before, also earlier among these themselves."""
        if len(keys) > _RECENT:
            return self._take_many(keys)
        before = self._in_sorted(keys)
        recent, new = self._recent, keys.tolist()
        if recent.isdisjoint(new) and len(set(new)) == len(new):
            recent.update(new)
        else:
            for at, key in enumerate(new):
                before[at] |= key in recent
                recent.add(key)
        if len(recent) > _RECENT:
            self._sort_in()
        return before

    def _take_many(self, keys: np.ndarray) -> np.ndarray:
        self._sort_in()
        before = self._in_sorted(keys)
        order = np.argsort(keys, kind="stable")
        before[order[1:][keys[order[1:]] == keys[order[:-1]]]] = True
        self._sorted = np.sort(np.concatenate([self._sorted, keys[order]]), kind="stable")
        return before

    def _sort_in(self) -> None:
        """The recent keys to the others."""
        added = np.fromiter(self._recent, np.uint64, len(self._recent))
        # Sorting two sorted runs is a merge.
        self._sorted = np.sort(np.concatenate([self._sorted, np.sort(added)]), kind="stable")
        self._recent = set()

    def _in_sorted(self, keys: np.ndarray) -> np.ndarray:
        if not len(self._sorted):
            return np.zeros(len(keys), bool)
        order = np.argsort(keys)  # sought in order, neighbours share their way through the memory
        at = np.searchsorted(self._sorted, keys[order]).clip(max=len(self._sorted) - 1)
        found = np.empty(len(keys), bool)
        found[order] = self._sorted[at] == keys[order]
        return found
