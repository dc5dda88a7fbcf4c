"""Tokens over the steps: courses of chosen ones, and those whose frequency changed most."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
import regex

from rlpanel.analysis.difference import normal_of_t, threshold
from rlpanel.analysis.token_reading import MEASURES, MIN_PARALLEL, SampleTokens, fold_tokens
from rlpanel.errors import FilterError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.text_predicate import compile_pattern
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.display_text import Encoding, detect, read_piece

# -- followed tokens -----------------------------------------------------------------------------------
# Frequency, probability, entropy, KL and advantage of chosen tokens over the steps of a run.
#
# Tokens are chosen by their text, with or without a space before it, or by a regular expression that is
# searched in the text of each token. Tokens that are masked from the loss do not count.


#: Seconds for searching the texts of all tokens by regular expressions.
SECONDS = 2.0
#: Most tokens of a sample by which the encoding of a run's tokens is found.
_FIRST = 4096


@dataclass(frozen=True)
class TokenChoice:
    """Tokens that are counted together.

    Attributes
    ----------
    name : str
        As it was asked for.
    pattern : regex.Pattern, optional
        Searched in the token's text; without one, the text is equal but for a space before it.
    """

    name: str
    pattern: regex.Pattern[str] | None = None

    def has(self, text: str, logged: str, until: float) -> bool:
        """Return whether a token belongs to the choice.

        Raises
        ------
        FilterError
            If the regular expressions take longer than `SECONDS`.
        """
        if self.pattern is None:
            return self.name in (logged, text) or text == f" {self.name}"
        try:
            return self.pattern.search(text, timeout=max(until - time.monotonic(), 0.001)) is not None
        except TimeoutError as error:
            raise FilterError(f"{self.name} takes too long: use a simpler regular expression") from error


def choices_of(names: Sequence[str]) -> tuple[TokenChoice, ...]:
    """Return the choices that texts describe: ``/…/`` is a regular expression.

    Raises
    ------
    FilterError
        If a regular expression is not valid.
    """
    found = []
    for name in dict.fromkeys(names):
        is_pattern = len(name) > 2 and name.startswith("/") and name.endswith("/")
        found.append(TokenChoice(name, compile_pattern(name[1:-1]) if is_pattern else None))
    return tuple(found)


@dataclass(frozen=True)
class TokenCourses:
    """Counts and measures of chosen tokens by place, such as a step.

    Attributes
    ----------
    read, total : int
        Samples that were read, and to read.
    places : tuple
        Steps, ranks, or values of a label.
    choices : tuple of TokenChoice
    count : ndarray of int, shape (places, choices)
    samples : ndarray of int, shape (places, choices)
        Samples that hold such a token.
    tokens, of_samples : ndarray of int, shape (places,)
        All trained tokens, and samples with tokens.
    measures : dict of str to ndarray of float, shape (places, choices)
        Means over the chosen tokens with a finite value; NaN without any. Empty if only frequencies are read.
    everywhere : dict of str to ndarray of float, shape (places,)
        The same over all trained tokens.
    spellings : tuple of tuple of str
        Of each choice the tokens that were counted, as logged.
    unreadable, without, unequal : int
        Samples whose line changed meanwhile, that have no tokens, and whose arrays differ in length from
        their tokens: they count in frequencies only.
    bytes_read : int
    """

    read: int
    total: int
    places: tuple[object, ...] = ()
    choices: tuple[TokenChoice, ...] = ()
    count: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), int))
    samples: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), int))
    tokens: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    of_samples: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    measures: Mapping[str, np.ndarray] = field(default_factory=dict)
    everywhere: Mapping[str, np.ndarray] = field(default_factory=dict)
    spellings: tuple[tuple[str, ...], ...] = ()
    unreadable: int = 0
    without: int = 0
    unequal: int = 0
    bytes_read: int = 0


def token_courses(
    index: RunIndex,
    snapshot: Snapshot,
    rows: np.ndarray,
    places: Sequence[object],
    names: Sequence[str],
    *,
    arrays: bool = True,
    least: int = MIN_PARALLEL,
) -> Iterator[TokenCourses]:
    """Read samples; yield progress, and last the courses of chosen tokens.

    Parameters
    ----------
    index : RunIndex
    snapshot : Snapshot
    rows : ndarray of int, shape (N,)
    places : sequence, length N
        The place of each row, such as its step.
    names : sequence of str
        Texts of tokens, or ``/regular expressions/``.
    arrays : bool
        Also read the arrays. If not, only tokens are counted.
    least : int
        Bytes above which other processes read.

    Raises
    ------
    FilterError
        If a regular expression is not valid, or takes too long.
    """
    choices = choices_of(names)
    yield TokenCourses(0, len(rows), choices=choices)
    tally = _Tally(choices, places)
    for read in fold_tokens(index, snapshot, rows, tally, arrays=arrays, least=least):
        yield TokenCourses(read, len(rows), choices=choices)
    yield tally.result(len(rows))


class _Codes(dict[str, tuple[int, ...]]):
    """Choices that each distinct token belongs to; a new token is tested once."""

    def __init__(self, choices: Sequence[TokenChoice], encoding: Encoding) -> None:
        super().__init__()
        self._choices, self._encoding, self._left = choices, encoding, SECONDS

    def __missing__(self, token: str) -> tuple[int, ...]:
        text, start = read_piece(token, self._encoding), time.monotonic()
        found = tuple(
            at for at, choice in enumerate(self._choices) if choice.has(text, token, start + self._left)
        )
        self._left -= time.monotonic() - start
        self[token] = found
        return found


class _Tally:
    """Counts the chosen tokens of samples, whose places are given by their positions."""

    def __init__(self, choices: tuple[TokenChoice, ...], places: Sequence[object]) -> None:
        self._choices, self._places = choices, places
        self._codes = _Codes(choices, "plain")
        #: By place: occurrences of chosen tokens, samples with a choice, and trained tokens.
        self._counts: defaultdict[object, Counter[str]] = defaultdict(Counter)
        self._holders: defaultdict[object, Counter[int]] = defaultdict(Counter)
        self._tokens: Counter[object] = Counter()
        self._of_samples: Counter[object] = Counter()
        #: By place and measure: sums and counts of the choices, the last one of all tokens, shape (2, K + 1).
        self._sums: dict[tuple[object, str], np.ndarray] = {}
        self._problems: Counter[str] = Counter()
        self._read = self._bytes = 0

    def begin(self, tokens: Sequence[str]) -> None:
        """Find how the tokens of the run are encoded."""
        self._codes = _Codes(self._choices, detect(tokens[:_FIRST]))

    def add(self, sample: SampleTokens) -> None:
        """Count the tokens of a sample."""
        self._read, self._bytes = self._read + 1, self._bytes + sample.size
        self._problems[sample.problem] += 1
        if not sample.tokens:
            return
        place, codes = self._places[sample.position], self._codes
        found = list(map(codes.__getitem__, sample.tokens))
        chosen = list(compress(sample.tokens, found))
        self._counts[place].update(chosen)
        self._tokens[place] += len(sample.tokens)
        self._of_samples[place] += 1
        self._holders[place].update({code for token in set(chosen) for code in codes[token]})
        if sample.values:
            pairs = [(at, code) for at in compress(range(len(found)), found) for code in found[at]]
            at, code = np.array(pairs, np.int64).reshape(-1, 2).T
            for name, values in sample.values.items():
                self._sum(place, name, values, at, code)

    def merge(self, other: _Tally) -> None:
        """Add the counts of later samples."""
        self._read, self._bytes = self._read + other._read, self._bytes + other._bytes
        for mine, its in ((self._counts, other._counts), (self._holders, other._holders)):
            for place, counts in its.items():
                mine[place].update(counts)  # type: ignore[arg-type]
        self._tokens.update(other._tokens)
        self._of_samples.update(other._of_samples)
        self._problems.update(other._problems)
        for key, sums in other._sums.items():
            self._sums[key] = self._sums[key] + sums if key in self._sums else sums

    def _sum(self, place: object, name: str, values: np.ndarray, at: np.ndarray, code: np.ndarray) -> None:
        count = len(self._choices)
        known = np.isfinite(values)
        sums = self._sums.setdefault((place, name), np.zeros((2, count + 1)))
        filled = np.where(known, values, 0.0)
        sums[0, :count] += np.bincount(code, filled[at], count)[:count]
        sums[1, :count] += np.bincount(code, known[at], count)[:count]
        sums[0, count] += filled.sum()
        sums[1, count] += known.sum()

    def result(self, total: int) -> TokenCourses:
        """Return the counts and means."""
        places, count = sorted(self._counts, key=_order), len(self._choices)
        shape = (len(places), count)
        counts, holders = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        spellings: list[Counter[str]] = [Counter() for _ in self._choices]
        for row, place in enumerate(places):
            for token, seen in self._counts[place].items():
                for code in self._codes[token]:
                    counts[row, code] += seen
                    spellings[code][token] += seen
            for code, seen in self._holders[place].items():
                holders[row, code] = seen
        measures, everywhere = {}, {}
        for name in MEASURES:
            if any((place, name) in self._sums for place in places):
                none = np.zeros((2, count + 1))
                sums = np.stack([self._sums.get((place, name), none) for place in places])
                with np.errstate(all="ignore"):
                    means = sums[:, 0] / sums[:, 1]
                measures[name], everywhere[name] = means[:, :count], means[:, count]
        return TokenCourses(
            read=self._read,
            total=total,
            places=tuple(places),
            choices=self._choices,
            count=counts,
            samples=holders,
            tokens=np.array([self._tokens[place] for place in places], np.int64),
            of_samples=np.array([self._of_samples[place] for place in places], np.int64),
            measures=measures,
            everywhere=everywhere,
            spellings=tuple(tuple(token for token, _ in each.most_common()) for each in spellings),
            unreadable=self._problems["unreadable"],
            without=self._problems["without"],
            unequal=self._problems["unequal"],
            bytes_read=self._bytes,
        )


def _order(place: object) -> tuple[bool, object]:
    """Return the key that sorts numbers, and texts after them."""
    return isinstance(place, str), place


# -- token shifts --------------------------------------------------------------------------------------
# Tokens whose frequency changed most between two ranges of steps.
#
# The frequency of a step is the number of a token among all trained tokens of the step. The ranges are
# compared by Welch's test on the frequencies of their steps: samples of one step share weights and prompts,
# and steps share no samples. The t value is turned into a normal deviate (Wallace 1959, see
# `difference.normal_of_t`).


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
