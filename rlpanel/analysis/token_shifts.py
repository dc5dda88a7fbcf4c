"""Tokens whose frequency changed most between two ranges of steps.

The frequency of a step is the number of a token among all trained tokens of the step. The ranges are compared
by Welch's test on the frequencies of their steps: samples of one step share weights and prompts, and steps
share no samples. The t value is turned into a normal deviate (Wallace 1959, see `difference.normal_of_t`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rlpanel.analysis.difference import normal_of_t, threshold
from rlpanel.analysis.token_reading import SampleTokens, fold_tokens
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.display_text import detect, read_piece

#: Fewest occurrences of a token in both ranges together, and fewest steps of a range for an error.
MIN_COUNT, MIN_STEPS = 10, 3


@dataclass(frozen=True)
class ShiftedToken:
    """A token with its frequency in two ranges of steps.

    Attributes
    ----------
    token, logged : str
        Its text, and as it was logged.
    count, count_before : int
    frequency, frequency_before : float
        Mean over the steps of the number per trained token.
    error : float
        Standard error of the difference; NaN with fewer than `MIN_STEPS` steps in a range.
    z : float
        Normal deviate of the difference; NaN without an error.
    """

    token: str
    logged: str
    count: int
    count_before: int
    frequency: float
    frequency_before: float
    error: float
    z: float


@dataclass(frozen=True)
class TokenShifts:
    """Changed tokens, so far.

    Attributes
    ----------
    read, total : int
        Samples that were read, and to read.
    shifts : tuple of ShiftedToken
        By descending size of z, then of the difference.
    tokens, tokens_before : int
        Trained tokens of the ranges.
    tried : int
        Tokens that occur at least `MIN_COUNT` times.
    least_z : float
        Least z that chance gives one token in a hundred comparisons of this many tokens.
    unreadable, without : int
        Samples whose line changed, and that have no tokens.
    """

    read: int
    total: int
    shifts: tuple[ShiftedToken, ...] = ()
    tokens: int = 0
    tokens_before: int = 0
    tried: int = 0
    least_z: float = 0.0
    unreadable: int = 0
    without: int = 0


def token_shifts(
    index: RunIndex, snapshot: Snapshot, rows: np.ndarray, before: np.ndarray
) -> Iterator[TokenShifts]:
    """Read the tokens of two sets of samples; yield progress, and last the tokens that changed most.

    Parameters
    ----------
    index : RunIndex
    snapshot : Snapshot
    rows, before : ndarray of int
        Samples of the range, and of the one to compare with; they share no step.
    """
    both = np.concatenate([rows, before])
    steps = snapshot.metadata("step")[both].tolist()
    later = set(snapshot.metadata("step")[rows].tolist())
    yield TokenShifts(0, len(both))
    tally = _StepCounts(steps)
    for read in fold_tokens(index, snapshot, both, tally, arrays=False):
        yield TokenShifts(read, len(both))
    counts, problems = tally.counts, tally.problems
    shifts, tried = _shifts(counts, later, tally.first)
    sizes = {step: each.total() for step, each in counts.items()}
    yield TokenShifts(
        read=len(both),
        total=len(both),
        shifts=tuple(shifts),
        tokens=sum(size for step, size in sizes.items() if step in later),
        tokens_before=sum(size for step, size in sizes.items() if step not in later),
        tried=tried,
        least_z=threshold(tried),
        unreadable=problems["unreadable"],
        without=problems["without"],
    )


class _StepCounts:
    """Counts all tokens by step."""

    def __init__(self, steps: Sequence[int]) -> None:
        self._steps = steps
        self.counts: dict[int, Counter[str]] = {}
        self.problems: Counter[str] = Counter()
        self.first: list[str] = []

    def begin(self, tokens: Sequence[str]) -> None:
        """Keep the tokens by which the encoding is found."""
        self.first = list(tokens)

    def add(self, sample: SampleTokens) -> None:
        """Count the tokens of a sample."""
        self.problems[sample.problem] += 1
        if sample.tokens:
            self.counts.setdefault(self._steps[sample.position], Counter()).update(sample.tokens)

    def merge(self, other: _StepCounts) -> None:
        """Add the counts of later samples."""
        self.problems.update(other.problems)
        for step, counts in other.counts.items():
            self.counts.setdefault(step, Counter()).update(counts)


def _shifts(
    counts: dict[int, Counter[str]], later: set[int], first: list[str]
) -> tuple[list[ShiftedToken], int]:
    """Return all frequent tokens, the clearest change first, and their number."""
    whole: Counter[str] = Counter()
    for each in counts.values():
        whole.update(each)
    names = [token for token, seen in whole.items() if seen >= MIN_COUNT]
    order = sorted(counts)
    is_later = np.array([step in later for step in order], bool)
    if not names or is_later.all() or not is_later.any():
        return [], len(names)
    encoding = detect(first)
    table = np.array([[counts[step][name] for name in names] for step in order], float)
    shares = table / np.array([counts[step].total() for step in order])[:, None]
    sides = shares[is_later], shares[~is_later]
    numbers = table[is_later].sum(axis=0), table[~is_later].sum(axis=0)
    means = [side.mean(axis=0) for side in sides]
    error, degrees = _welch(*sides)
    found = []
    for at, name in enumerate(names):
        difference = float(means[0][at] - means[1][at])
        z = normal_of_t(difference / error[at], float(degrees[at])) if error[at] > 0 else float("nan")
        found.append(
            ShiftedToken(
                token=read_piece(name, encoding),
                logged=name,
                count=int(numbers[0][at]),
                count_before=int(numbers[1][at]),
                frequency=float(means[0][at]),
                frequency_before=float(means[1][at]),
                error=float(error[at]),
                z=z,
            )
        )
    found.sort(key=lambda each: (-np.nan_to_num(abs(each.z)), -abs(each.frequency - each.frequency_before)))
    return found, len(names)


def _welch(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the error of the difference of means and its degrees of freedom, by column; NaN for few rows."""
    if min(len(a), len(b)) < MIN_STEPS:
        return np.full(a.shape[1], np.nan), np.full(a.shape[1], np.nan)
    parts = [side.var(axis=0, ddof=1) / len(side) for side in (a, b)]
    # A token that no sample of a range has shows no spread there: at least that of the pooled steps counts.
    pooled = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)]).var(axis=0, ddof=2)
    variance = np.maximum(parts[0] + parts[1], pooled * (1 / len(a) + 1 / len(b)))
    with np.errstate(all="ignore"):
        degrees = (parts[0] + parts[1]) ** 2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    return np.sqrt(variance), np.where(np.isfinite(degrees), degrees, len(a) + len(b) - 2)
