"""Weight of phrases in an update, and their frequency in its step and in the next ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_all_texts
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.texts.display_text import Encoding, detect, is_special, read_piece
from rlpanel.update.update_batch import UpdateBatch

# -- phrase weights ------------------------------------------------------------------------------------
# Weight of phrases in an update: sequences of two to four tokens that several samples have.
#
# The weight of a phrase is the sum of the absolute pushes of the tokens that it covers, each counted once.
# Phrases may overlap, so their shares do not add up. A phrase is left out if most of its tokens lie in
# phrases with more weight, such as a part of a longer one.


#: Most tokens that are searched; of more, those of the heaviest samples.
MAX_TOKENS = 500_000
#: Tokens of the shortest and of the longest phrase.
MIN_PHRASE, MAX_PHRASE = 2, 4
#: Phrases of each length that are counted exactly.
_CANDIDATES = 200
#: Most texts by which the encoding of the tokens is found.
_FIRST = 4096
#: Bits of the sums by which most sequences that occur once are found; an odd number that spreads them.
_BITS, _SPREAD = 20, np.uint64(0x9E3779B97F4A7C15)
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
class _Sequences:
    """Sequences of a length that at least two samples have: where each begins, and its number there."""

    starts: np.ndarray
    number: np.ndarray


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
    # Two sequences that several samples have, with all but a token in common, make one that is longer.
    shorter = _Sequences(np.arange(len(found.at)), found.code)
    for length in range(MIN_PHRASE, MAX_PHRASE + 1):
        shorter = _longer(found, shorter)
        runs += _heaviest_runs(found, shorter, size, length)
    runs.sort(key=lambda each: (-each.weight, -len(each.codes), each.codes))
    encoding = detect(batch.tokens[:_FIRST])
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
    special = np.zeros(len(batch.tokens), bool)
    special[[at for at, text in enumerate(batch.tokens) if text[:1] in ("<", "[") and is_special(text)]] = (
        True
    )
    words = ~special[code]
    at, sample, code = at[words], sample[words], code[words]
    follows = np.zeros(len(at), bool)
    follows[1:] = (np.diff(at) == 1) & (np.diff(sample) == 0)
    return _Searched(at, code, sample, follows)


def _longer(found: _Searched, shorter: _Sequences) -> _Sequences:
    """Return the sequences that are a token longer."""
    number = np.full(len(found.at) + 1, -1, np.int64)
    number[shorter.starts] = shorter.number
    starts = shorter.starts[:-1] if len(shorter.starts) else shorter.starts
    starts = starts[found.follows[starts + 1] & (number[starts + 1] >= 0)]
    key = number[starts] * (int(number.max(initial=0)) + 1) + number[starts + 1]
    # Most sequences occur once: their sums are alone, and they need no number.
    sums = ((key.astype(np.uint64) * _SPREAD) >> np.uint64(64 - _BITS)).astype(np.int64)
    several = (np.bincount(sums, minlength=1 << _BITS) > 1)[sums]
    starts, number = starts[several], pd.factorize(key[several])[0].astype(np.int64)
    # Samples ascend: the last one that is set stays.
    first, last = (np.zeros(int(number.max(initial=-1)) + 1, np.int64) for _ in range(2))
    first[number[::-1]], last[number] = found.sample[starts][::-1], found.sample[starts]
    enough = first != last
    kept, renumbered = enough[number], np.cumsum(enough) - 1
    return _Sequences(starts[kept], renumbered[number[kept]])


def _heaviest_runs(found: _Searched, of: _Sequences, size: np.ndarray, length: int) -> Iterator[_Run]:
    """Yield the heaviest sequences of a length."""
    sums = np.concatenate([[0.0], np.cumsum(size)])
    weight = np.bincount(of.number, sums[of.starts + length] - sums[of.starts])
    heaviest = np.argsort(-weight, kind="stable")[:_CANDIDATES]
    places = np.full(len(weight), -1)
    places[heaviest] = np.arange(len(heaviest))
    place = places[of.number]
    known = np.flatnonzero(place >= 0)
    order = known[np.argsort(place[known], kind="stable")]
    bounds = np.flatnonzero(np.diff(place[order])) + 1
    for at, starts in zip(heaviest.tolist(), np.split(of.starts[order], bounds), strict=False):
        if len(starts):
            yield _Run(float(weight[at]), tuple(found.code[starts[0] : starts[0] + length].tolist()), starts)


def _uncovered(runs: list[_Run], size: int, most: int) -> Iterator[_Run]:
    """Yield the heaviest sequences, without those most of whose tokens lie in heavier ones."""
    covered, found = np.zeros(size, bool), 0
    for run in runs:
        if found == most:
            return
        at = _covered(run.starts, len(run.codes))
        if covered[at].mean() <= _COVERED:
            covered[at] = True
            found += 1
            yield run


def _covered(starts: np.ndarray, length: int) -> np.ndarray:
    """Return the tokens that sequences cover which begin at ascending places, each token once."""
    tokens = starts[:, None] + np.arange(length)
    before = np.concatenate([[-1], starts[:-1] + length])
    return tokens[tokens >= before[:, None]]


def _phrase(
    batch: UpdateBatch, pushes: np.ndarray, found: _Searched, run: _Run, encoding: Encoding
) -> PhraseWeight:
    at = _covered(found.at[run.starts], len(run.codes))
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
        1 + int(np.count_nonzero(np.diff(found.sample[run.starts]))),
        change,
    )


# -- next steps ----------------------------------------------------------------------------------------
# Frequency of an update's phrases in its own step and in the next ones.
#
# The frequency is the share of the responses that hold the phrase's text, without spaces around it. All
# updates and other prompts took part in a change, so that push and change go together or not: a correlation,
# no proof.


#: Next steps by default, most samples of a step that are read, and seconds between two progress results.
STEPS, PER_STEP, PULSE = 5, 512, 0.25
#: Fewest phrases for a correlation.
MIN_PHRASES = 5
#: Samples that are read at once.
_AT_ONCE = 64


@dataclass(frozen=True)
class NextSteps:
    """Frequencies of phrases, so far.

    Attributes
    ----------
    read, total : int
        Samples that were read, and to read.
    phrases : tuple of str
    steps : tuple of int
        The next steps.
    now : ndarray of float, shape (P,)
        Share of the update's responses with each phrase; NaN without responses.
    by_step : ndarray of float, shape (S, P)
        The same of the next steps.
    unreadable : int
        Samples whose line changed meanwhile.
    """

    read: int
    total: int
    phrases: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    now: np.ndarray = field(default_factory=lambda: np.zeros(0))
    by_step: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    unreadable: int = 0
    complete: bool = False

    @property
    def following(self) -> np.ndarray:
        """Mean of the next steps, shape (P,); NaN without a next step."""
        return self.by_step.mean(axis=0) if len(self.by_step) else np.full(len(self.now), np.nan)

    def agreement(self, push: np.ndarray) -> float | None:
        """Return the rank correlation (Spearman 1904) of pushes and changes over phrases.

        None with fewer than `MIN_PHRASES` phrases, without next steps, or if all are equal.

        Parameters
        ----------
        push : ndarray of float, shape (P,)
        """
        change = self.following - self.now
        known = np.isfinite(change)
        if known.sum() < MIN_PHRASES:
            return None
        ranks = [pd.Series(values[known]).rank().to_numpy() for values in (push, change)]
        if not all(each.std() > 0 for each in ranks):
            return None
        return float(np.corrcoef(*ranks)[0, 1])


def next_steps(
    index: RunIndex, view: RunView, rows: np.ndarray, phrases: Sequence[str], count: int = STEPS
) -> Iterator[NextSteps]:
    """Read responses; yield progress, and last the frequencies of phrases.

    Of a step with more than `PER_STEP` samples, as many are read, drawn with a fixed seed.

    Parameters
    ----------
    index : RunIndex
    view : RunView
    rows : ndarray of int, shape (N,)
        Samples of the update.
    phrases : sequence of str, length P
    count : int
        Number of next steps.
    """
    snapshot = view.snapshot
    known = snapshot.steps.values
    last = int(snapshot.metadata("step")[rows].max()) if len(rows) else 0
    steps = tuple(known[known > last][:count].tolist()) if len(rows) else ()
    parts = [_drawn(rows), *(_drawn(np.sort(snapshot.rows_of(step))) for step in steps)]
    texts = [text.strip() or text for text in phrases]
    total, read, unreadable, pulse = sum(map(len, parts)), 0, 0, time.monotonic()
    yield NextSteps(0, total, tuple(phrases), steps)
    shares = np.full((len(parts), len(texts)), np.nan)
    for at, part in enumerate(parts):
        held, seen = np.zeros(len(texts)), 0
        for first in range(0, len(part), _AT_ONCE):
            chunk = part[first : first + _AT_ONCE]
            for found in fetch_all_texts(index, snapshot, chunk):
                if found is None:
                    unreadable += 1
                    continue
                response = found.get("response") or ""
                held += [text in response for text in texts]
                seen += 1
            read += len(chunk)
            if time.monotonic() - pulse > PULSE:
                pulse = time.monotonic()
                yield NextSteps(read, total, tuple(phrases), steps)
        if seen:
            shares[at] = held / seen
    yield NextSteps(read, total, tuple(phrases), steps, shares[0], shares[1:], unreadable, complete=True)


def _drawn(rows: np.ndarray) -> np.ndarray:
    if len(rows) <= PER_STEP:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, PER_STEP, replace=False))
