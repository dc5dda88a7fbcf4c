"""Ragged arrays: a batch's token arrays concatenated, so that one numpy call serves thousands of samples."""

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
    """The arrays of one field for all samples of a batch.

    Attributes
    ----------
    counts : ndarray of int, shape (N,)
        Number of tokens of each sample; -1 for samples without the array.
    flat : ndarray of float
        The arrays, concatenated.
    """

    counts: np.ndarray
    flat: np.ndarray

    @cached_property
    def has(self) -> np.ndarray:
        """Mask of the samples that have the array, shape (N,)."""
        return self.counts >= 0

    def values(self, rows: np.ndarray) -> np.ndarray:
        """Return the tokens of the samples in the mask ``rows``, all of which must have the array."""
        if rows.all():
            return self.flat
        present = self.counts > 0
        return self.flat[np.repeat(rows[present], self.counts[present])]

    def only(self, rows: np.ndarray) -> Ragged:
        """Return the arrays of the samples in the mask ``rows`` only; the others then count as without."""
        rows = rows & self.has
        return self if rows.all() else Ragged(np.where(rows, self.counts, -1), self.values(rows))

    def split(self) -> list[np.ndarray]:
        """Return one array per sample; an empty one for samples without the array."""
        return np.split(self.flat, np.cumsum(self.counts.clip(min=0))[:-1])


def ragged_fields(samples: Sequence[Arrays]) -> dict[str, Ragged]:
    """Return every field that at least one sample has, by name."""
    fields: dict[str, Ragged] = {}
    previous = np.empty(0, np.int64)
    for name in dict.fromkeys(chain.from_iterable(samples)):
        try:
            present = list(map(itemgetter(name), samples))
            counts = np.fromiter(map(len, present), np.int64, len(present))
        except KeyError:  # some samples lack the field
            optional = [arrays.get(name) for arrays in samples]
            counts = np.array([-1 if array is None else len(array) for array in optional])
            present = [array for array in optional if array is not None]
        if np.array_equal(counts, previous):
            counts = previous  # share one object: equal lengths are later detected by identity
        previous = counts
        fields[name] = Ragged(counts, np.concatenate(present))
    return fields


def first_available(*options: Ragged | None) -> Ragged | None:
    """Return each sample's array from the first option that has it; None if no sample has one."""
    present = [option for option in options if option is not None and option.has.any()]
    if not present or present[0].has.all() or len(present) == 1:
        return present[0] if present else None
    counts = np.full(len(present[0].counts), -1)
    pieces = [np.empty(0)] * len(counts)
    for option in reversed(present):
        arrays = option.split()
        for sample in np.flatnonzero(option.has).tolist():
            counts[sample], pieces[sample] = option.counts[sample], arrays[sample]
    return Ragged(counts, np.concatenate(pieces))


def sample_starts(lengths: np.ndarray) -> np.ndarray:
    """Return the position of each sample's first token in a flat array of all tokens, shape (N,)."""
    return np.cumsum(lengths) - lengths


def token_mask(mask: Ragged, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the mask of tokens to use; a sample without a loss mask of its length uses all its tokens.

    Parameters
    ----------
    mask : Ragged
        Loss masks of N samples.
    rows : ndarray of bool, shape (N,)
        Mask of the samples to return, all of which have tokens.
    counts : ndarray of int
        Number of tokens of each of these samples.

    Returns
    -------
    ndarray of bool
        One value per token of these samples.
    """
    masked = mask.counts[rows] == counts
    masked_rows = rows.copy()
    masked_rows[rows] = masked
    keep = np.ones(int(counts.sum()), bool)
    keep[np.repeat(masked, counts)] = mask.values(masked_rows) != 0
    return keep


def squared_deviations(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return each value's squared deviation from the mean of its own sample.

    Parameters
    ----------
    values : ndarray of float, shape (T₁ + … + T_N,)
    lengths : ndarray of int, shape (N,)
        Number of tokens of each sample, all above 0.

    Returns
    -------
    ndarray of float, shape (T₁ + … + T_N,)
    """
    means = np.add.reduceat(values, sample_starts(lengths), dtype=np.float64) / lengths
    deviations = values - np.repeat(means, lengths)
    deviations *= deviations
    return deviations
