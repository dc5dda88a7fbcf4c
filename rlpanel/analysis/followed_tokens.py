"""Frequency, probability, entropy, KL and advantage of chosen tokens over the steps of a run.

Tokens are chosen by their text, with or without a space before it, or by a regular expression that is
searched in the text of each token. Tokens that are masked from the loss do not count. Lines of the native
format are read without their arrays if only frequencies are asked for, which is several times faster.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jiter
import numpy as np
import regex

from rlpanel import schema
from rlpanel.errors import FilterError, RLPanelError
from rlpanel.metrics.engine.compute import token_values
from rlpanel.sources.records.record_types import Record
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_many_lines, fetch_record, file_order
from rlpanel.store.query.search_pattern import compile_pattern
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.display_text import Encoding, detect, read_piece

#: Seconds between two progress results, and for searching the texts of all tokens by regular expressions.
PULSE, SECONDS = 0.25, 2.0
#: Rows whose lines are read from one file at once.
_AT_ONCE = 4096
#: Keys of a native line that hold the tokens, and the mask of the loss.
_TOKENS, _MASK = (
    tuple(f'"{key}"'.encode() for key, name in schema.CANONICAL.items() if name == field)
    for field in ("response_tokens", "loss_mask")
)
#: Measures of tokens, and the metric or array each is the mean of; probabilities are exponentials.
MEASURES = ("probability", "ref_probability", "entropy", "kl", "advantage")
#: Places that may be the end of an array of texts, of which so many are tried.
_TRIES = 20
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

    Raises
    ------
    FilterError
        If a regular expression is not valid, or takes too long.
    """
    choices = choices_of(names)
    yield TokenCourses(0, len(rows), choices=choices)
    tally = _Tally(choices)
    for tokens, read in read_tokens(index, snapshot, rows, arrays=arrays):
        if tokens is None:
            yield TokenCourses(read, len(rows), choices=choices)
            continue
        tally.add(places[tokens.position], tokens)
    yield tally.result(len(rows))


@dataclass(frozen=True)
class SampleTokens:
    """Trained tokens of a sample.

    Attributes
    ----------
    position : int
        Position of its row among those to read.
    tokens : list of str
        As logged; empty if the sample has none.
    values : dict of str to ndarray of float, shape (T,)
        By the names in `MEASURES`.
    problem : str
        ``unreadable``, ``without`` tokens, ``unequal`` lengths, or empty.
    size : int
        Bytes of the line.
    """

    position: int
    tokens: list[str]
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    problem: str = ""
    size: int = 0


def read_tokens(
    index: RunIndex, snapshot: Snapshot, rows: np.ndarray, *, arrays: bool
) -> Iterator[tuple[SampleTokens | None, int]]:
    """Yield the tokens of samples in the order of the files; now and then None with the number read."""
    order, last = file_order(snapshot, rows), time.monotonic()
    sizes = snapshot.metadata("length")[rows]
    done = 0
    for first in range(0, len(order), _AT_ONCE):
        part = order[first : first + _AT_ONCE]
        lines = itertools.repeat(None, len(part)) if arrays else fetch_many_lines(index, snapshot, rows[part])
        for position, line in zip(part.tolist(), lines, strict=True):
            found = _of_line(position, line) if line is not None else None
            if found is None:
                found = _of_record(index, snapshot, rows, position, arrays=arrays)
            done += 1
            yield replace(found, size=int(sizes[position])), done
            if time.monotonic() - last > PULSE:
                last = time.monotonic()
                yield None, done


def _of_line(position: int, line: bytes) -> SampleTokens | None:
    """Return the tokens of a native line, which is not parsed; None if it must be read as a record."""
    start, mask_start = _array_start(line, _TOKENS), _array_start(line, _MASK)
    if start is None or mask_start is None or not start:
        return None
    listed = _array_of_texts(line, start)
    if not listed or set(map(type, listed)) != {str}:
        return None
    mask = line[mask_start : line.find(b"]", mask_start) + 1] if mask_start else b""
    if not mask.translate(None, b"[], 1"):  # no mask, or only ones
        return SampleTokens(position, listed)
    kept = _parsed(mask)
    if kept is None or len(kept) != len(listed) or not set(map(type, kept)) <= {int, float, bool}:
        return None
    return SampleTokens(position, list(itertools.compress(listed, kept)) if any(kept) else listed)


def _array_start(line: bytes, keys: Sequence[bytes]) -> int | None:
    """Return where the array of a key begins; 0 without the key, None if this is not certain.

    In a text, the quotes of a key would be escaped. So a key in quotes with a colon after it is a key: that
    of the line if the line holds it once.
    """
    found = [key for key in keys if key in line]
    if not found:
        return 0
    start = line.find(found[0])
    end = start + len(found[0])
    if len(found) > 1 or line.find(found[0], end) >= 0:
        return None
    after = _COLON.match(line, end)
    return after.end() - 1 if after is not None else None


_COLON = re.compile(rb"\s*:\s*\[")


def _array_of_texts(line: bytes, start: int) -> list[Any] | None:
    """Return the array of texts that begins at a position; None if its end is not found.

    It ends at a quote and a bracket. If these stand within a text, what is before them is not valid JSON.
    """
    end = start
    for _ in range(_TRIES):
        end = line.find(b'"]', end) + 2
        if end < 2:
            return None
        found = _parsed(line[start:end])
        if found is not None:
            return found
    return None


def _parsed(array: bytes) -> list[Any] | None:
    """Return the items of an array; None if it is not valid JSON."""
    try:
        found = jiter.from_json(array, cache_mode="all")
    except ValueError:
        return None
    return found if isinstance(found, list) else None


def _of_record(
    index: RunIndex, snapshot: Snapshot, rows: np.ndarray, position: int, *, arrays: bool
) -> SampleTokens:
    try:
        record = fetch_record(index, snapshot, int(rows[position]))
    except (RLPanelError, IndexError):  # the file changed meanwhile; the index updates shortly
        return SampleTokens(position, [], problem="unreadable")
    if not record.tokens:
        return SampleTokens(position, [], problem="without")
    tokens, mask = list(record.tokens), record.arrays.get("loss_mask")
    keep = np.ones(len(tokens), bool)
    if mask is not None and len(mask) == len(tokens) and (mask != 0).any():
        keep = mask != 0
    values, unequal = measures_of(record) if arrays else ({}, False)
    return SampleTokens(
        position,
        list(itertools.compress(tokens, keep.tolist())),
        {name: each[keep] for name, each in values.items()},
        "unequal" if unequal else "",
    )


def measures_of(record: Record) -> tuple[dict[str, np.ndarray], bool]:
    """Return the measures of a sample's tokens, and whether an array differs in length from them."""
    count = len(record.tokens or ())
    metrics, arrays = token_values(record.arrays), record.arrays
    found: dict[str, np.ndarray | None] = {
        "entropy": metrics.get("token_entropy", arrays.get("entropy")),
        "kl": metrics.get("kl_k3"),
        "advantage": arrays.get("advantages"),
    }
    with np.errstate(over="ignore"):
        for name, source in (("probability", "logprobs"), ("ref_probability", "ref_logprobs")):
            logged = arrays.get(source)
            found[name] = None if logged is None else np.exp(logged)
    if found["advantage"] is None and np.isfinite(record.numbers.get("advantage", np.nan)):
        found["advantage"] = np.full(count, record.numbers["advantage"])
    known = {name: each for name, each in found.items() if each is not None}
    return {name: each for name, each in known.items() if len(each) == count}, any(
        len(each) != count for each in known.values()
    )


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
    """Counts the chosen tokens of samples."""

    def __init__(self, choices: tuple[TokenChoice, ...]) -> None:
        self._choices = choices
        self._codes: _Codes | None = None
        #: Tokens that were seen, and those that belong to a choice.
        self._known: set[str] = set()
        self._chosen: set[str] = set()
        self._counts: defaultdict[object, Counter[str]] = defaultdict(Counter)
        self._holders: defaultdict[object, Counter[int]] = defaultdict(Counter)
        self._of_samples: Counter[object] = Counter()
        #: By place and measure: sums and counts of the choices, the last one of all tokens, shape (2, K + 1).
        self._sums: dict[tuple[object, str], np.ndarray] = {}
        self._problems: Counter[str] = Counter()
        self._read = self._bytes = 0

    def add(self, place: object, sample: SampleTokens) -> None:
        """Count the tokens of a sample."""
        self._read, self._bytes = self._read + 1, self._bytes + sample.size
        self._problems[sample.problem] += 1
        if not sample.tokens:
            return
        if self._codes is None:
            self._codes = _Codes(self._choices, detect(sample.tokens[:_FIRST]))
        self._counts[place].update(sample.tokens)
        self._of_samples[place] += 1
        codes = self._codes
        distinct = set(sample.tokens)
        new = distinct - self._known
        self._known |= new
        self._chosen |= {token for token in new if codes[token]}
        self._holders[place].update({code for token in distinct & self._chosen for code in codes[token]})
        if sample.values:
            chosen = [(at, code) for at, token in enumerate(sample.tokens) for code in codes[token]]
            at, code = (
                (np.array(each, np.int64) for each in zip(*chosen, strict=True))
                if chosen
                else [np.empty(0, np.int64)] * 2
            )
            for name, values in sample.values.items():
                self._sum(place, name, values, at, code)

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
                for code in self._codes[token] if self._codes is not None else ():
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
            tokens=np.array([self._counts[place].total() for place in places], np.int64),
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
