"""Reads the trained tokens of many samples, in this process or in several ones.

Lines of the native format are read without their arrays if only tokens are asked for: their keys are walked
through in the bytes, and nothing but the tokens and the mask is parsed.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import jiter
import numpy as np

from rlpanel import schema
from rlpanel.errors import RLPanelError
from rlpanel.metrics.engine.compute import token_values
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.record_types import Adapter, Locator, Record
from rlpanel.store.backlog.workers import in_processes
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import file_order, native_lines
from rlpanel.store.snapshot.snapshot import Snapshot

#: Seconds between two progress results.
PULSE = 0.25
#: Bytes of samples above which processes read them, and bytes that one of them reads at a time.
MIN_PARALLEL, PER_TASK = 128 << 20, 32 << 20
#: Rows whose lines are read from one file at once.
_AT_ONCE = 4096
#: Names of fields by their keys in a native line.
_NAMES = {key.encode(): name for key, name in schema.CANONICAL.items()}
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
            for at, (locator, line) in enumerate(
                zip(locators, native_lines(file, locators), strict=True), start=first
            ):
                found = _of_line(line) if line is not None and not arrays else None
                fetch = (
                    partial(file.fetch, locator) if line is None else partial(file.sample_of, line, locator)
                )
                found = found or _of_record(fetch, arrays=arrays)
                found.position, found.size = places.position[at], places.size[at]
                yield found
        start += count


def _of_line(line: bytes) -> SampleTokens | None:
    """Return the tokens of a native line without parsing the rest; None if it must be read as a record."""
    values = _values(line)
    mask = values.get("loss_mask", b"") if values is not None else None
    listed = values.get("response_tokens") if values is not None else None
    if not isinstance(mask, bytes) or not isinstance(listed, list):
        return None
    if not mask.translate(None, b"[], 1"):  # no mask, or only ones
        return SampleTokens(listed)
    kept = _parsed(mask)
    if kept is None or len(kept) != len(listed) or not set(map(type, kept)) <= {int, float, bool}:
        return None
    return SampleTokens(list(itertools.compress(listed, kept)) if any(kept) else listed)


def _values(line: bytes) -> dict[Any, bytes | list[str]] | None:
    """Return the values of a line by name, arrays of texts as lists; None if one has no end.

    Arrays of numbers are passed over by searching one byte, which is many times as fast as parsing them.
    """
    found: dict[Any, bytes | list[str]] = {}
    at = 0
    while (key := _KEY.match(line, at)) is not None:
        start = key.end()
        texts, at = _array_of_texts(line, start) if line.startswith(b'["', start) else (None, 0)
        at = at or _value_end(line, start)
        name = _NAMES.get(key[1], key[1])
        if not at or name in found:
            return None
        found[name] = line[start:at] if texts is None else texts
    return found if line[at:].strip() == b"}" else None


_KEY = re.compile(rb'\s*[{,]\s*"([^"\\]*)"\s*:\s*')
_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRING = re.compile(_TEXT, re.DOTALL)
_PLAIN = re.compile(rb"[^][{},\s\"]+")
_MARKS = re.compile(_TEXT + rb"|[][{}]", re.DOTALL)


def _value_end(line: bytes, start: int) -> int:
    """Return where a value ends; 0 if it is not found."""
    if line.startswith(b"[", start):
        end = line.find(b"]", start) + 1
        inner = line[start + 1 : end]
        if not (b'"' in inner or b"[" in inner or b"{" in inner):
            return end
    elif line.startswith(b'"', start):
        end = line.find(b'"', start + 1) + 1
        if line[end - 2 : end - 1] != b"\\":
            return end
        value = _STRING.match(line, start)
        return value.end() if value is not None else 0
    elif not line.startswith(b"{", start):
        value = _PLAIN.match(line, start)
        return value.end() if value is not None else 0
    depth = 0
    for mark in _MARKS.finditer(line, start):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(mark[0], 0)
        if not depth:
            return mark.end()
    return 0


def _array_of_texts(line: bytes, start: int) -> tuple[list[str] | None, int]:
    """Return the array of texts that begins at a position, and where it ends; None and 0 without an end.

    What stands before a bracket within one of its texts is not valid JSON.
    """
    end, tries = start, 0
    while tries < _TRIES and (end := line.find(b"]", end) + 1):
        if _CLOSES.match(line, end - 2):
            found, tries = _parsed(line[start:end]), tries + 1
            if found is not None:
                return (found, end) if _are_texts(found) else (None, 0)
    return None, 0


def _are_texts(values: Sequence[Any]) -> bool:
    """Return whether all values are texts; `str.join` checks it faster than a look at their types."""
    try:
        "".join(values)
    except TypeError:
        return False
    return True


#: The end of an array of texts, before another key or the end of the line.
_CLOSES = re.compile(rb'"\]\s*(?:,\s*"|\}\s*$)')


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
