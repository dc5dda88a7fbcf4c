"""The token arrays of a batch, laid end to end: a metric is then one numpy call for thousands of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import itemgetter

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Ragged:
    """One field's arrays.

    Attributes
    ----------
    counts : ndarray of int, shape (N,)
        Tokens of each sample; -1 where it has no such array.
    flat : ndarray of float
        The arrays, end to end.
    """

    counts: np.ndarray
    flat: np.ndarray

    @cached_property
    def has(self) -> np.ndarray:
        """Which samples have the array, shape (N,)."""
        return self.counts >= 0

    def values(self, rows: np.ndarray) -> np.ndarray:
        """The tokens of the samples in the mask ``rows``, which all have the array."""
        if rows.all():
            return self.flat
        present = self.counts > 0
        return self.flat[np.repeat(rows[present], self.counts[present])]

    def where(self, rows: np.ndarray) -> Ragged:
        """The same for the samples in the mask ``rows`` alone."""
        rows = rows & self.has
        return self if rows.all() else Ragged(np.where(rows, self.counts, -1), self.values(rows))

    def pieces(self) -> list[np.ndarray]:
        """The arrays one by one; an empty one where a sample has none."""
        return np.split(self.flat, np.cumsum(self.counts.clip(min=0))[:-1])


def ragged_fields(samples: Sequence[Arrays]) -> dict[str, Ragged]:
    """Every field that any sample has, by name."""
    laid: dict[str, Ragged] = {}
    known = np.empty(0, np.int64)
    for name in dict.fromkeys(chain.from_iterable(samples)):
        try:
            found = list(map(itemgetter(name), samples))
            counts = np.fromiter(map(len, found), np.int64, len(found))
        except KeyError:  # some lack it
            several = [arrays.get(name) for arrays in samples]
            counts = np.array([-1 if array is None else len(array) for array in several])
            found = [array for array in several if array is not None]
        if np.array_equal(counts, known):
            counts = known  # as one object, so that nobody compares them again
        known = counts
        laid[name] = Ragged(counts, np.concatenate(found))
    return laid


def first(*options: Ragged | None) -> Ragged | None:
    """For each sample its array in the first option that has one; None where no sample has any."""
    some = [option for option in options if option is not None and option.has.any()]
    if not some or some[0].has.all() or len(some) == 1:
        return some[0] if some else None
    counts = np.full(len(some[0].counts), -1)
    pieces = [np.empty(0)] * len(counts)
    for option in reversed(some):
        found = option.pieces()
        for at in np.flatnonzero(option.has).tolist():
            counts[at], pieces[at] = option.counts[at], found[at]
    return Ragged(counts, np.concatenate(pieces))
