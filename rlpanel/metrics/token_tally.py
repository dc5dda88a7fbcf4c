"""Token statistics over many samples: count, mean and largest values of each measure, by token text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

#: Number of largest values whose positions are stored per token.
TOP_POSITIONS = 3
#: Values of a measure that are collected before they are merged: numpy is slow for one sample at a time.
_MERGE_VALUES = 16_384


class RankedToken(NamedTuple):
    """Statistics of one token of the vocabulary in one measure.

    Attributes
    ----------
    token : str
        As logged.
    seen : int
        Number of occurrences with a finite value.
    mean, most : float
        Mean and maximum of these values.
    places : tuple of (int, int)
        Positions of the `TOP_POSITIONS` largest values, largest first: the sample number given to
        `TokenTally.add`, and the token's index in that sample.
    """

    token: str
    seen: int
    mean: float
    most: float
    places: tuple[tuple[int, int], ...]


class _Measure:
    """Running count, sum and largest values by token code, with the positions of the largest values."""

    def __init__(self) -> None:
        self.count = np.zeros(0, np.int64)
        self.sum = np.zeros(0)
        self.largest = np.zeros((0, TOP_POSITIONS))
        self.positions = np.zeros((0, TOP_POSITIONS, 2), np.int64)
        self._waiting: list[tuple[np.ndarray, np.ndarray, int]] = []  # codes, values, sample
        self._waiting_values = 0

    def add(self, codes: np.ndarray, values: np.ndarray, sample: int) -> None:
        """Add the values of a sample; they count once `merge` was called."""
        self._waiting.append((codes, values, sample))
        self._waiting_values += len(values)
        if self._waiting_values >= _MERGE_VALUES:
            self.merge()

    def merge(self) -> None:
        """Merge the values that were added since the last time."""
        if not self._waiting:
            return
        all_codes, all_values, samples = zip(*self._waiting, strict=True)
        self._waiting, self._waiting_values = [], 0
        lengths = np.array([len(part) for part in all_codes])
        codes, values = np.concatenate(all_codes), np.concatenate(all_values)
        positions = np.empty((len(codes), 2), np.int64)  # sample, token index
        positions[:, 0] = np.repeat(samples, lengths)
        positions[:, 1] = np.arange(len(codes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        finite = np.isfinite(values)
        codes, values, positions = codes[finite], values[finite], positions[finite]
        size = int(codes.max(initial=-1)) + 1
        if size > len(self.count):
            self._grow(max(size, 2 * len(self.count)))
        np.add.at(self.count, codes, 1)
        np.add.at(self.sum, codes, values)
        large = values > self.largest[codes, -1]
        if large.any():
            self._merge_largest(codes[large], values[large], positions[large])

    def _merge_largest(self, codes: np.ndarray, values: np.ndarray, positions: np.ndarray) -> None:
        """Merge values into the largest ones; among equal values the earlier one stays."""
        order = np.lexsort((-values, codes))
        codes, values, positions = codes[order], values[order], positions[order]
        distinct, starts, row = np.unique(codes, return_index=True, return_inverse=True)
        rank = np.arange(len(codes)) - starts[row]
        top = rank < TOP_POSITIONS
        row, rank = row[top], rank[top]
        largest = np.full((len(distinct), TOP_POSITIONS), -np.inf)
        their_positions = np.zeros((len(distinct), TOP_POSITIONS, 2), np.int64)
        largest[row, rank] = values[top]
        their_positions[row, rank] = positions[top]
        both = np.hstack([self.largest[distinct], largest])
        best = np.argsort(-both, axis=1, kind="stable")[:, :TOP_POSITIONS]
        self.largest[distinct] = np.take_along_axis(both, best, 1)
        self.positions[distinct] = np.take_along_axis(
            np.hstack([self.positions[distinct], their_positions]), best[..., None], 1
        )

    def positions_of(self, code: int) -> tuple[tuple[int, int], ...]:
        """Return the positions of a token's largest values as (sample, token index)."""
        finite = np.isfinite(self.largest[code])
        return tuple((sample, token) for sample, token in self.positions[code][finite].tolist())

    def copy(self) -> _Measure:
        copied = _Measure()
        copied.count, copied.sum = self.count.copy(), self.sum.copy()
        copied.largest, copied.positions = self.largest.copy(), self.positions.copy()
        return copied

    def _grow(self, size: int) -> None:
        more = size - len(self.count)
        self.count = np.concatenate([self.count, np.zeros(more, np.int64)])
        self.sum = np.concatenate([self.sum, np.zeros(more)])
        self.largest = np.concatenate([self.largest, np.full((more, TOP_POSITIONS), -np.inf)])
        self.positions = np.concatenate([self.positions, np.zeros((more, TOP_POSITIONS, 2), np.int64)])


class TokenTally:
    """Token statistics, accumulated sample by sample; memory grows with the vocabulary, not the samples.

    Samples are collected and merged together; `merge` must be called before other threads read a tally.
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._measures: dict[str, _Measure] = {}
        self.tokens = 0

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures that at least one sample has."""
        return tuple(self._measures)

    def __len__(self) -> int:
        """Return the number of different tokens."""
        return len(self._codes)

    def copy(self) -> TokenTally:
        """Return an independent copy."""
        self.merge()
        copied = TokenTally()
        copied._codes, copied.tokens = self._codes.copy(), self.tokens
        copied._measures = {name: measure.copy() for name, measure in self._measures.items()}
        return copied

    def add(
        self, sample: int, tokens: Sequence[str], values: Mapping[str, np.ndarray], keep: np.ndarray
    ) -> None:
        """Add a sample's tokens.

        Parameters
        ----------
        sample : int
            Number of the sample, returned in `RankedToken.places`.
        tokens : sequence of str, length T
        values : mapping of str to ndarray
            Values by measure; arrays whose length is not T are ignored.
        keep : ndarray of bool, shape (T,)
            Mask of the tokens to count, without padding and without tokens outside the loss.
        """
        index = self._codes
        codes = np.fromiter((index.setdefault(token, len(index)) for token in tokens), np.int64, len(tokens))
        self.tokens += int(keep.sum())
        for name, array in values.items():
            if len(array) == len(codes):
                measure = self._measures.setdefault(name, _Measure())
                measure.add(codes, np.where(keep, array, np.nan), sample)

    def merge(self) -> None:
        """Merge the samples that were added since the last time; reading does not change the tally then."""
        for measure in self._measures.values():
            measure.merge()

    def ranking(self, name: str, *, least: int = 1, most: int = 50) -> list[RankedToken]:
        """Return the tokens with the highest mean of a measure.

        Parameters
        ----------
        name : str
            One of `measures`.
        least : int
            Tokens with fewer occurrences are left out, because their mean is not reliable.
        most : int
            Maximum number of tokens to return.
        """
        measure = self._measures[name]
        measure.merge()
        codes = np.flatnonzero(measure.count >= max(1, least))
        means = measure.sum[codes] / measure.count[codes]
        tokens = list(self._codes)
        order = np.argsort(-means, kind="stable")[:most]
        return [
            RankedToken(
                tokens[code],
                int(measure.count[code]),
                float(mean),
                float(measure.largest[code, 0]),
                measure.positions_of(code),
            )
            for code, mean in zip(codes[order].tolist(), means[order].tolist(), strict=True)
        ]
