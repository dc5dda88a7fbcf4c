"""Reads the trained tokens of many samples, in this process or in several ones.

Lines of the native format are read without their arrays if only tokens are asked for: the keys are searched
in the bytes, and nothing else is parsed.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar

import jiter
import numpy as np

from rlpanel import schema
from rlpanel.errors import RLPanelError
from rlpanel.metrics.engine.compute import token_values
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import Adapter, Locator, Record
from rlpanel.store.backlog.task_processes import in_processes
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import file_order, native_lines
from rlpanel.store.snapshot.snapshot import Snapshot

#: Seconds between two progress results.
PULSE = 0.25
#: Bytes of samples above which processes read them, and bytes that one of them reads at a time.
MIN_PARALLEL, PER_TASK = 128 << 20, 32 << 20
#: Rows whose lines are read from one file at once.
_AT_ONCE = 4096
#: Keys of a native line that hold the tokens, and the mask of the loss.
_TOKENS, _MASK = (
    tuple(f'"{key}"'.encode() for key, name in schema.CANONICAL.items() if name == field)
    for field in ("response_tokens", "loss_mask")
)
#: Measures of tokens, and the metric or array each is the mean of; probabilities are exponentials.
MEASURES = ("probability", "ref_probability", "entropy", "kl", "advantage")
_METRICS = ("token_entropy", "kl_k3")
#: Places that may be the end of an array of texts, of which so many are tried.
_TRIES = 20


@dataclass
class SampleTokens:
    """Trained tokens of a sample.

    Attributes
    ----------
    tokens : list of str
        As logged; empty if the sample has none.
    values : dict of str to ndarray of float, shape (T,)
        By the names in `MEASURES`.
    problem : str
        ``unreadable``, ``without`` tokens, ``unequal`` lengths, or empty.
    position, size : int
        Position of its row among those to read, and bytes of its line.
    """

    tokens: list[str]
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    problem: str = ""
    position: int = -1
    size: int = 0


class TokenFold(Protocol):
    """Sums over samples; it is pickled, and copies that other processes fill are added up."""

    def begin(self, tokens: Sequence[str]) -> None:
        """Take the first tokens of the run, before any sample is added."""

    def add(self, sample: SampleTokens) -> None:
        """Add a sample."""

    def merge(self, other: Any) -> None:
        """Add what a copy has summed over later samples."""


_Fold = TypeVar("_Fold", bound=TokenFold)


@dataclass(frozen=True)
class _Places:
    """Samples to read in the order of the files: their positions, sizes, files, and places in these."""

    position: list[int]
    size: list[int]
    file: list[str]
    locator: list[Locator]

    def part(self, start: int, end: int) -> _Places:
        """Return some of the samples."""
        return _Places(*(values[start:end] for values in vars(self).values()))


def fold_tokens(
    index: RunIndex,
    snapshot: Snapshot,
    rows: np.ndarray,
    fold: TokenFold,
    *,
    arrays: bool,
    least: int = MIN_PARALLEL,
) -> Iterator[int]:
    """Add samples to sums in the order of the files; yield how many were read, now and then.

    Many bytes are read by as many processes as the run has for a backlog.

    Parameters
    ----------
    index : RunIndex
    snapshot : Snapshot
    rows : ndarray of int, shape (N,)
    fold : TokenFold
    arrays : bool
        Also read the arrays of the tokens.
    least : int
        Bytes above which other processes read.
    """
    places, reader = _places(snapshot, rows), index.reader
    first = (each.tokens for each in _read(places, reader, arrays=False) if each.tokens)
    fold.begin(next(first, ()))
    readers = [reader(name) for name in snapshot.files]
    ends = np.cumsum(places.size)
    jobs, size = index.reading.jobs, int(ends[-1]) if len(ends) else 0
    # Other files have readers with a state, which stay in this process.
    if jobs < 2 or size < least or {type(each) for each in readers} != {JsonlFile}:
        last = time.monotonic()
        for number, sample in enumerate(_read(places, reader, arrays=arrays), start=1):
            fold.add(sample)
            if time.monotonic() - last > PULSE:
                last = time.monotonic()
                yield number
        return
    per_task = min(PER_TASK, max(size // (2 * jobs), 1))
    files = {each.name: (each.path, each.adapter) for each in readers}
    bounds = np.searchsorted(ends, np.arange(per_task, size, per_task), side="right")
    bounds = np.unique([0, *bounds.tolist(), len(ends)])
    parts = [places.part(*pair) for pair in itertools.pairwise(bounds.tolist())]
    empty, done = deepcopy(fold), 0
    tasks = (partial(_fold_part, files, part, empty, arrays) for part in parts)
    for part, found in zip(parts, in_processes(tasks, jobs), strict=True):
        fold.merge(found)
        done += len(part.position)
        yield done


def _places(snapshot: Snapshot, rows: np.ndarray) -> _Places:
    order = file_order(snapshot, rows)
    rows = rows[order]
    columns = [snapshot.metadata(name)[rows].tolist() for name in ("offset", "length", "part", "hash")]
    offset, length, part, digest = columns
    lines = snapshot.lines(rows).tolist()
    locators = [Locator(*each) for each in zip(offset, length, lines, part, digest, strict=True)]
    files = [snapshot.files[number] for number in snapshot.metadata("file")[rows].tolist()]
    return _Places(order.tolist(), length, files, locators)


def _fold_part(files: Mapping[str, tuple[str, Adapter]], places: _Places, fold: _Fold, arrays: bool) -> _Fold:
    """Add samples to sums, in another process."""
    readers = {name: JsonlFile(path, name, adapter) for name, (path, adapter) in files.items()}
    for sample in _read(places, readers.__getitem__, arrays=arrays):
        fold.add(sample)
    return fold


def _read(places: _Places, reader: Callable[[str], Any], *, arrays: bool) -> Iterator[SampleTokens]:
    """Yield the tokens of samples."""
    start = 0
    for name, group in itertools.groupby(places.file):
        count, file = len(list(group)), reader(name)
        for first in range(start, start + count, _AT_ONCE):
            locators = places.locator[first : min(first + _AT_ONCE, start + count)]
            lines: Iterator[bytes | None] = itertools.repeat(None, len(locators))
            if not arrays:
                lines = native_lines(file, locators)
            for at, (locator, line) in enumerate(zip(locators, lines, strict=True), start=first):
                found = _of_line(line) if line is not None else None
                found = found or _of_record(partial(file.fetch, locator), arrays=arrays)
                found.position, found.size = places.position[at], places.size[at]
                yield found
        start += count


def _of_line(line: bytes) -> SampleTokens | None:
    """Return the tokens of a native line, which is not parsed; None if it must be read as a record."""
    start, mask_start = _array_start(line, _TOKENS), _array_start(line, _MASK)
    if start is None or mask_start is None or not start:
        return None
    listed = _array_of_texts(line, start)
    if not listed:
        return None
    mask = line[mask_start : line.find(b"]", mask_start) + 1] if mask_start else b""
    if not mask.translate(None, b"[], 1"):  # no mask, or only ones
        return SampleTokens(listed)
    kept = _parsed(mask)
    if kept is None or len(kept) != len(listed) or not set(map(type, kept)) <= {int, float, bool}:
        return None
    return SampleTokens(list(itertools.compress(listed, kept)) if any(kept) else listed)


def _array_start(line: bytes, keys: Sequence[bytes]) -> int | None:
    """Return where the array of a key begins; 0 without the key, None if this is not certain.

    In a text, the quotes of a key would be escaped. So a key in quotes with a colon after it is a key: that
    of the line if the line holds it once.
    """
    found = [(start, len(key)) for key in keys if (start := line.find(key)) >= 0]
    if not found:
        return 0
    start, size = found[0]
    if len(found) > 1 or line.find(line[start : start + size], start + size) >= 0:
        return None
    after = _COLON.match(line, start + size)
    return after.end() - 1 if after is not None else None


_COLON = re.compile(rb"\s*:\s*\[")


def _array_of_texts(line: bytes, start: int) -> list[str] | None:
    """Return the array of texts that begins at a position; None if its end is not found.

    It ends at a quote and a bracket. Where no quote is escaped, quotes open and close texts in turn: their
    number is even up to the end, and texts are what is between separators. Else, what stands before a quote
    and a bracket within a text is not valid JSON.
    """
    end, comma = start, _COMMA.match(line, line.find(b'"', start + 2))
    for _ in range(_TRIES):
        end = line.find(b'"]', end) + 2
        if end < 2:
            return None
        array = line[start:end]
        if comma is not None and (b"\\" not in array or not _ESCAPED.search(array)):
            listed = _between(array, comma[0])
            if listed is not None:
                return listed
        found = _parsed(array)
        if found is not None:
            return found if set(map(type, found)) <= {str} else None
    return None


_COMMA = re.compile(rb'"\s*,\s*"')
#: A quote or a backslash in a text.
_ESCAPED = re.compile(rb'\\["\\]')


def _between(array: bytes, comma: bytes) -> list[str] | None:
    """Return the texts of an array without escaped quotes; None if other things separate some of them."""
    try:
        pieces = array[2:-2].decode().split(comma.decode())
        # All quotes belong to separators only if each of these closes a text and opens the next one.
        if not array.startswith(b'["') or array.count(b'"') != 2 * len(pieces):
            return None
        return list(map(_unescaped, pieces)) if b"\\" in array else pieces
    except ValueError:  # bytes or an escape without a character
        return None


@lru_cache(1 << 18)
def _unescaped(piece: str) -> str:
    return str(jiter.from_json(f'"{piece}"'.encode()))


def _parsed(array: bytes) -> list[Any] | None:
    """Return the items of an array; None if it is not valid JSON."""
    try:
        found = jiter.from_json(array, cache_mode="all")
    except ValueError:
        return None
    return found if isinstance(found, list) else None


def _of_record(fetch: Callable[[], Record], *, arrays: bool) -> SampleTokens:
    try:
        record = fetch()
    except (RLPanelError, OSError, IndexError):  # the file changed meanwhile; the index updates shortly
        return SampleTokens([], problem="unreadable")
    if not record.tokens:
        return SampleTokens([], problem="without")
    tokens, mask = list(record.tokens), record.arrays.get("loss_mask")
    keep = np.ones(len(tokens), bool)
    if mask is not None and len(mask) == len(tokens) and (mask != 0).any():
        keep = mask != 0
    values, unequal = measures_of(record) if arrays else ({}, False)
    return SampleTokens(
        list(itertools.compress(tokens, keep.tolist())),
        {name: each[keep] for name, each in values.items()},
        "unequal" if unequal else "",
    )


def measures_of(record: Record) -> tuple[dict[str, np.ndarray], bool]:
    """Return the measures of a sample's tokens, and whether an array differs in length from them."""
    count = len(record.tokens or ())
    metrics, arrays = token_values(record.arrays, _METRICS), record.arrays
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
