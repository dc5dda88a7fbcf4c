"""Frequency of an update's phrases in its own step and in the next ones.

The frequency is the share of the responses that hold the phrase's text, without spaces around it. All updates
and other prompts took part in a change, so that push and change go together or not: a correlation, no proof.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_all_texts
from rlpanel.store.snapshot.run_view import RunView

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
