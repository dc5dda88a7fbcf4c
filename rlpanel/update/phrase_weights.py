"""Weight of phrases in an update: sequences of two to four tokens that several samples have.

The weight of a phrase is the sum of the absolute pushes of the tokens that it covers, each counted once.
Phrases may overlap, so their shares do not add up. A phrase is left out if most of its tokens lie in phrases
with more weight, such as a part of a longer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlpanel.texts.display_text import Encoding, detect, is_special, read_piece
from rlpanel.update.update_batch import UpdateBatch

#: Most tokens that are searched; of more, those of the heaviest samples.
MAX_TOKENS = 500_000
#: Tokens of the shortest and of the longest phrase.
SHORTEST, LONGEST = 2, 4
#: Phrases of each length that are counted exactly.
_CANDIDATES = 200
#: Share of a phrase's tokens in heavier phrases above which it is left out.
_COVERED = 0.5


@dataclass(frozen=True)
class PhraseWeight:
    """A phrase of an update.

    Attributes
    ----------
    text : str
        The tokens' texts, with spaces for their marks.
    weight, net : float
        Sum of the absolute and of the signed pushes of its tokens.
    tokens, samples : int
        Tokens that it covers, and samples with it.
    change : float
        Mean of log π_new − log π_old over its tokens in nats; NaN if it is not logged.
    """

    text: str
    weight: float
    net: float
    tokens: int
    samples: int
    change: float


@dataclass(frozen=True)
class _Searched:
    """Tokens of the searched samples in the loss: positions in the batch, codes, and samples."""

    at: np.ndarray
    code: np.ndarray
    sample: np.ndarray
    follows: np.ndarray


@dataclass(frozen=True)
class _Run:
    """A sequence of tokens: its weight, the tokens' codes, and the searched tokens at which it begins."""

    weight: float
    codes: tuple[int, ...]
    starts: np.ndarray


def phrase_weights(
    batch: UpdateBatch, pushes: np.ndarray, weight: np.ndarray, most: int = _CANDIDATES
) -> tuple[list[PhraseWeight], int]:
    """Return the phrases with the largest weight, and the number of samples that were searched.

    Parameters
    ----------
    batch : UpdateBatch
    pushes : ndarray of float, shape (T,)
        Of each token; 0 outside of the loss.
    weight : ndarray of float, shape (N,)
        Weight of each sample: if there are more than `MAX_TOKENS` tokens, the heaviest ones are searched.
    most : int
        Most phrases.
    """
    chosen = _heaviest(batch, weight)
    if batch.token is None or not len(chosen):
        return [], 0
    found = _searched(batch, chosen)
    size = np.abs(pushes[found.at]).astype(np.float64)
    runs: list[_Run] = []
    for length in range(SHORTEST, LONGEST + 1):
        runs += _of_length(found, size, length)
    runs.sort(key=lambda each: (-each.weight, -len(each.codes), each.codes))
    encoding = detect(batch.tokens)
    phrases = [_phrase(batch, pushes, found, run, encoding) for run in _uncovered(runs, len(found.at), most)]
    return sorted(phrases, key=lambda each: -each.weight), len(chosen)


def _heaviest(batch: UpdateBatch, weight: np.ndarray) -> np.ndarray:
    """Return the samples with weight, the heaviest ones up to `MAX_TOKENS` tokens, ascending."""
    order = np.argsort(-weight, kind="stable")
    order = order[weight[order] > 0]
    fits = int(np.searchsorted(np.cumsum(batch.counts[order]), MAX_TOKENS, side="right"))
    return np.sort(order[: max(fits, 1)])


def _searched(batch: UpdateBatch, chosen: np.ndarray) -> _Searched:
    assert batch.token is not None
    starts, counts = batch.starts[chosen], batch.counts[chosen]
    offset = np.cumsum(counts) - counts
    at = np.arange(int(counts.sum())) + np.repeat(starts - offset, counts)
    sample = np.repeat(chosen, counts)
    inside = batch.mask[at] & (batch.token[at] >= 0)
    at, sample = at[inside], sample[inside]
    code = batch.token[at].astype(np.int64)
    # A special token ends a turn; a phrase does not go beyond it.
    special = np.array([is_special(text) for text in batch.tokens], bool)
    words = ~special[code]
    at, sample, code = at[words], sample[words], code[words]
    follows = np.zeros(len(at), bool)
    follows[1:] = (np.diff(at) == 1) & (np.diff(sample) == 0)
    return _Searched(at, code, sample, follows)


def _of_length(found: _Searched, size: np.ndarray, length: int) -> Iterator[_Run]:
    """Yield the heaviest sequences of a length that at least two samples have."""
    count = len(found.at) - length + 1
    if count < 1:
        return
    whole = np.ones(count, bool)
    for place in range(1, length):
        whole &= found.follows[place : place + count]
    starts = np.flatnonzero(whole)
    # The number of a sequence is that of its first tokens and its last one.
    number, words = found.code[starts], int(found.code.max(initial=0)) + 1
    for place in range(1, length):
        number = pd.factorize(number * words + found.code[starts + place])[0]
    sums = np.concatenate([[0.0], np.cumsum(size)])
    weight = np.bincount(number, sums[starts + length] - sums[starts])
    enough = np.flatnonzero(_sample_counts(number, found.sample[starts], len(weight)) >= 2)
    heaviest = enough[np.argsort(-weight[enough], kind="stable")][:_CANDIDATES]
    place_of = np.full(len(weight), -1)
    place_of[heaviest] = np.arange(len(heaviest))
    places = place_of[number]
    known = np.flatnonzero(places >= 0)
    order = known[np.argsort(places[known], kind="stable")]
    bounds = np.flatnonzero(np.diff(places[order], prepend=-1))
    for each in np.split(starts[order], bounds[1:]) if len(order) else []:
        codes = tuple(found.code[each[0] : each[0] + length].tolist())
        yield _Run(float(weight[number[np.searchsorted(starts, each[0])]]), codes, each)


def _sample_counts(number: np.ndarray, sample: np.ndarray, size: int) -> np.ndarray:
    """Return the number of samples of each sequence; samples are ascending."""
    order = np.argsort(number, kind="stable")
    sorted_numbers, samples = number[order], sample[order]
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(sorted_numbers) != 0) | (np.diff(samples) != 0)
    return np.bincount(sorted_numbers[new], minlength=size)


def _uncovered(runs: list[_Run], size: int, most: int) -> Iterator[_Run]:
    """Yield the heaviest sequences, without those most of whose tokens lie in heavier ones."""
    covered, found = np.zeros(size, bool), 0
    for run in runs:
        at = np.unique(run.starts[:, None] + np.arange(len(run.codes)))
        if covered[at].mean() <= _COVERED and found < most:
            covered[at] = True
            found += 1
            yield run


def _phrase(
    batch: UpdateBatch, pushes: np.ndarray, found: _Searched, run: _Run, encoding: Encoding
) -> PhraseWeight:
    at = np.unique(found.at[run.starts][:, None] + np.arange(len(run.codes)))
    push = pushes[at].astype(np.float64)
    change = float("nan")
    if batch.new is not None and batch.old is not None:
        moved = (batch.new[at] - batch.old[at]).astype(np.float64)
        change = float(np.where(np.isfinite(moved), moved, 0.0).mean())
    pieces = [batch.tokens[code] for code in run.codes]
    # The bytes of one character may be those of several tokens.
    text = read_piece("".join(pieces), encoding) if encoding == "byte-level" else None
    return PhraseWeight(
        text or "".join(read_piece(piece, encoding) for piece in pieces),
        float(np.abs(push).sum()),
        float(push.sum()),
        len(at),
        len(np.unique(found.sample[run.starts])),
        change,
    )
