"""Which tokens stand out over many samples: counts, means and extremes by the token's own text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

#: Places that are remembered of each token.
PLACES = 3


class RankedToken(NamedTuple):
    """One token of the vocabulary, as one measure saw it.

    Attributes
    ----------
    token : str
        As logged.
    seen : int
        Places with a finite value.
    mean, most : float
        Over those places; the largest one.
    places : tuple of (int, int)
        Where the `PLACES` largest ones stand, the largest first: the number that `TokenTally.add` was
        given, and the token's index.
    """

    token: str
    seen: int
    mean: float
    most: float
    places: tuple[tuple[int, int], ...]


class _Measure:
    """Running count, sum and largest values by token code, with where those stand."""

    def __init__(self) -> None:
        self.count = np.zeros(0, np.int64)
        self.sum = np.zeros(0)
        self.most = np.zeros((0, PLACES))
        self.place = np.zeros((0, PLACES, 2), np.int64)

    def add(self, codes: np.ndarray, values: np.ndarray, sample: int, size: int) -> None:
        if size > len(self.count):
            self._grow(max(size, 2 * len(self.count)))
        finite = np.flatnonzero(np.isfinite(values))
        codes, values = codes[finite], values[finite]
        np.add.at(self.count, codes, 1)
        np.add.at(self.sum, codes, values)
        enters = values > self.most[codes, -1]
        if enters.any():
            self._enter(codes[enters], values[enters], finite[enters], sample)

    def _enter(self, codes: np.ndarray, values: np.ndarray, at: np.ndarray, sample: int) -> None:
        """Merge a sample's values into the largest ones; of equal ones the first stays."""
        order = np.lexsort((-values, codes))
        codes, values, at = codes[order], values[order], at[order]
        met, starts, row = np.unique(codes, return_index=True, return_inverse=True)
        rank = np.arange(len(codes)) - starts[row]
        kept = rank < PLACES
        row, rank = row[kept], rank[kept]
        most = np.full((len(met), PLACES), -np.inf)
        place = np.full((len(met), PLACES, 2), sample)
        most[row, rank] = values[kept]
        place[row, rank, 1] = at[kept]
        both = np.hstack([self.most[met], most])
        best = np.argsort(-both, axis=1, kind="stable")[:, :PLACES]
        self.most[met] = np.take_along_axis(both, best, 1)
        self.place[met] = np.take_along_axis(np.hstack([self.place[met], place]), best[..., None], 1)

    def places(self, code: int) -> tuple[tuple[int, int], ...]:
        """Where the largest values of a token stand."""
        known = np.isfinite(self.most[code])
        return tuple((sample, at) for sample, at in self.place[code][known].tolist())

    def copy(self) -> _Measure:
        made = _Measure()
        made.count, made.sum = self.count.copy(), self.sum.copy()
        made.most, made.place = self.most.copy(), self.place.copy()
        return made

    def _grow(self, size: int) -> None:
        more = size - len(self.count)
        self.count = np.concatenate([self.count, np.zeros(more, np.int64)])
        self.sum = np.concatenate([self.sum, np.zeros(more)])
        self.most = np.concatenate([self.most, np.full((more, PLACES), -np.inf)])
        self.place = np.concatenate([self.place, np.zeros((more, PLACES, 2), np.int64)])


class TokenTally:
    """Gathers samples one by one; its size goes with the vocabulary that was met, not with the samples."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._measures: dict[str, _Measure] = {}
        self.tokens = 0

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures that any sample had."""
        return tuple(self._measures)

    def copy(self) -> TokenTally:
        """A tally of its own that holds the same."""
        made = TokenTally()
        made._codes, made.tokens = self._codes.copy(), self.tokens
        made._measures = {name: measure.copy() for name, measure in self._measures.items()}
        return made

    def add(
        self, sample: int, tokens: Sequence[str], values: Mapping[str, np.ndarray], keep: np.ndarray
    ) -> None:
        """Count a sample's tokens.

        Parameters
        ----------
        sample : int
            Given back in `RankedToken.sample`.
        tokens : sequence of str, length T
        values : mapping of str to ndarray
            By measure; one of another length than T is left out.
        keep : ndarray of bool, shape (T,)
            Which tokens count: not pads, not those outside the loss.
        """
        index = self._codes
        codes = np.fromiter((index.setdefault(token, len(index)) for token in tokens), np.int64, len(tokens))
        self.tokens += int(keep.sum())
        for name, array in values.items():
            if len(array) == len(codes):
                measure = self._measures.setdefault(name, _Measure())
                measure.add(codes, np.where(keep, array, np.nan), sample, len(index))

    def ranking(self, name: str, *, least: int = 1, most: int = 50) -> list[RankedToken]:
        """The tokens with the highest mean of a measure.

        Parameters
        ----------
        name : str
            One of `measures`.
        least : int
            Tokens seen less often are left out: a mean of one is no mean.
        most : int
            How many at most.
        """
        found = self._measures[name]
        codes = np.flatnonzero(found.count >= max(1, least))
        means = found.sum[codes] / found.count[codes]
        names = list(self._codes)
        order = np.argsort(-means, kind="stable")[:most]
        return [
            RankedToken(
                names[code],
                int(found.count[code]),
                float(mean),
                float(found.most[code, 0]),
                found.places(code),
            )
            for code, mean in zip(codes[order].tolist(), means[order].tolist(), strict=True)
        ]
