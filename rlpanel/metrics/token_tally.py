"""Token statistics over many samples: count, mean and largest values of each measure, by token text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

#: Number of largest values whose positions are stored per token.
TOP_POSITIONS = 3


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

    def add(self, codes: np.ndarray, values: np.ndarray, sample: int, size: int) -> None:
        """Add the values of a sample; ``size`` is the number of token codes so far."""
        if size > len(self.count):
            self._grow(max(size, 2 * len(self.count)))
        finite = np.flatnonzero(np.isfinite(values))
        codes, values = codes[finite], values[finite]
        np.add.at(self.count, codes, 1)
        np.add.at(self.sum, codes, values)
        large = values > self.largest[codes, -1]
        if large.any():
            self._merge_largest(codes[large], values[large], finite[large], sample)

    def _merge_largest(
        self, codes: np.ndarray, values: np.ndarray, positions: np.ndarray, sample: int
    ) -> None:
        """Merge a sample's values into the largest ones; among equal values the earlier one stays."""
        order = np.lexsort((-values, codes))
        codes, values, positions = codes[order], values[order], positions[order]
        distinct, starts, row = np.unique(codes, return_index=True, return_inverse=True)
        rank = np.arange(len(codes)) - starts[row]
        top = rank < TOP_POSITIONS
        row, rank = row[top], rank[top]
        largest = np.full((len(distinct), TOP_POSITIONS), -np.inf)
        sample_positions = np.full((len(distinct), TOP_POSITIONS, 2), sample)
        largest[row, rank] = values[top]
        sample_positions[row, rank, 1] = positions[top]
        both = np.hstack([self.largest[distinct], largest])
        best = np.argsort(-both, axis=1, kind="stable")[:, :TOP_POSITIONS]
        self.largest[distinct] = np.take_along_axis(both, best, 1)
        self.positions[distinct] = np.take_along_axis(
            np.hstack([self.positions[distinct], sample_positions]), best[..., None], 1
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
    """Token statistics, accumulated sample by sample; memory grows with the vocabulary, not the samples."""

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
                measure.add(codes, np.where(keep, array, np.nan), sample, len(index))

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
