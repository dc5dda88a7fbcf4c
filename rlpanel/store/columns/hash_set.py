"""64-bit keys: spread evenly, and remembered in eight bytes each."""

from __future__ import annotations

import numpy as np

from rlpanel.store.columns.page_memory import allocate

#: Keys that are remembered as a set before they are sorted in with the others.
_RECENT = 65_536


def mix(keys: np.ndarray) -> np.ndarray:
    """Spread 64-bit keys evenly (the finalizer of splitmix64)."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


class HashSet:
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
        before, added = self._in_sorted(keys), np.sort(keys)
        twice = added[1:][added[1:] == added[:-1]]
        if len(twice):
            rows = np.flatnonzero(np.isin(keys, twice))
            order = rows[np.argsort(keys[rows], kind="stable")]
            before[order[1:][keys[order[1:]] == keys[order[:-1]]]] = True
        self._sorted = _merged(self._sorted, added)
        return before

    def _sort_in(self) -> None:
        """The recent keys to the others."""
        added = np.fromiter(self._recent, np.uint64, len(self._recent))
        self._sorted, self._recent = _merged(self._sorted, np.sort(added)), set()

    def _in_sorted(self, keys: np.ndarray) -> np.ndarray:
        if not len(self._sorted):
            return np.zeros(len(keys), bool)
        order = np.argsort(keys)  # sought in order, neighbours share their way through the memory
        at = np.searchsorted(self._sorted, keys[order]).clip(max=len(self._sorted) - 1)
        found = np.empty(len(keys), bool)
        found[order] = self._sorted[at] == keys[order]
        return found


def _merged(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Two sorted runs as one."""
    merged = np.concatenate([one, other], out=allocate(len(one) + len(other), np.uint64))
    merged.sort(kind="stable")
    return merged
