"""Set of 64-bit hashes in numpy, at eight bytes each, and a function that mixes the bits of a hash."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rlpanel.store.columns.page_memory import allocate

#: New keys are collected in a Python set of at most this size, then merged into the sorted array.
_MAX_RECENT = 65_536


def mix(keys: np.ndarray) -> np.ndarray:
    """Mix the bits of 64-bit keys, so that they are evenly distributed (the finalizer of splitmix64)."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


class HashSet:
    """Set of all keys seen so far; reports which new keys are repeats.

    Attributes
    ----------
    has_repeats : bool
        Whether any added key was a repeat.
    """

    def __init__(self) -> None:
        self.has_repeats = False
        self._sorted = np.empty(0, np.uint64)
        self._recent: set[int] = set()
        self._later: Callable[[], np.ndarray] | None = None

    def add_later(self, distinct: Callable[[], np.ndarray]) -> None:
        """Add keys, known to be distinct and not in the set, when other keys are added for the first time."""
        self._later = distinct

    def add(self, keys: np.ndarray) -> np.ndarray:
        """Add keys and return a mask of repeats, including repeats within ``keys`` itself."""
        later, self._later = self._later, None
        if later is not None:
            self._add(later())
        repeats = self._add(keys)
        self.has_repeats |= bool(repeats.any())
        return repeats

    def _add(self, keys: np.ndarray) -> np.ndarray:
        if len(keys) > _MAX_RECENT:
            return self._take_many(keys)
        before = self._in_sorted(keys)
        recent, new = self._recent, keys.tolist()
        if recent.isdisjoint(new) and len(set(new)) == len(new):
            recent.update(new)
        else:
            for position, key in enumerate(new):
                before[position] |= key in recent
                recent.add(key)
        if len(recent) > _MAX_RECENT:
            self._merge_recent()
        return before

    def _take_many(self, keys: np.ndarray) -> np.ndarray:
        self._merge_recent()
        before, added = self._in_sorted(keys), np.sort(keys)
        repeated = added[1:][added[1:] == added[:-1]]
        if len(repeated):
            rows = np.flatnonzero(np.isin(keys, repeated))
            order = rows[np.argsort(keys[rows], kind="stable")]
            before[order[1:][keys[order[1:]] == keys[order[:-1]]]] = True
        self._sorted = _merge_sorted(self._sorted, added)
        return before

    def _merge_recent(self) -> None:
        """Merge the recent keys into the sorted array."""
        added = np.fromiter(self._recent, np.uint64, len(self._recent))
        self._sorted, self._recent = _merge_sorted(self._sorted, np.sort(added)), set()

    def _in_sorted(self, keys: np.ndarray) -> np.ndarray:
        if not len(self._sorted):
            return np.zeros(len(keys), bool)
        order = np.argsort(keys)  # sorted lookups are faster: neighbours hit the same cache lines
        positions = np.searchsorted(self._sorted, keys[order]).clip(max=len(self._sorted) - 1)
        matches = np.empty(len(keys), bool)
        matches[order] = self._sorted[positions] == keys[order]
        return matches


def _merge_sorted(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Merge two sorted arrays."""
    merged = np.concatenate([first, second], out=allocate(len(first) + len(second), np.uint64))
    merged.sort(kind="stable")
    return merged
