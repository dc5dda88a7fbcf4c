"""Full-text scan: searches the raw bytes of samples' lines and parses only candidate lines.

The searched text is encoded as a log would write it; only lines that contain these bytes are parsed and
tested exactly. A regular expression cannot be encoded, so every line is parsed for it.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeAlias

import numpy as np

from rlpanel import schema
from rlpanel.errors import RLPanelError
from rlpanel.settings import SearchLimits
from rlpanel.sources.files import file_access
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.detokenize import DetokenizingAdapter
from rlpanel.sources.records.message_spellings import ROLES
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_texts, file_order
from rlpanel.store.query.text_predicate import ByteSearch, TextPredicate, fold_bytes, forms_of
from rlpanel.store.snapshot.snapshot import Snapshot

#: Number of blocks that a thread searches before it reports.
BLOCKS_AT_ONCE = 8
#: Number of threads that read and search blocks: both release Python's lock.
THREADS = 2
#: Growth of the portions of a search from the newest samples on.
PORTION_GROWTH = 4

#: Returns further texts of a sample, made of its logged ones; values of tests by their field.
Derive: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, str]]

#: Characters that some writers escape, or that adapters insert between strings that they join.
_ODD_ASCII = frozenset("\"\\/<>&'\x7f[]{}:,()")
#: Marks of roles in texts that were made of messages. A line may name the role otherwise: ``gpt``.
_ROLE_MARK = re.compile(rf"\[(?:{'|'.join(ROLES)})\]", re.IGNORECASE)


@dataclass(frozen=True)
class ScannedRows:
    """A batch of tested samples.

    Attributes
    ----------
    rows : ndarray of int, shape (N,)
    texts : dict
        Result of each test, shape (N,).
    bytes_done, bytes_total : int
        Size of the lines scanned so far, over all batches, and of all lines.
    unread : int
        Number of samples so far whose lines are no longer in their files; they pass no test.
    """

    rows: np.ndarray
    texts: dict[TextPredicate, np.ndarray]
    bytes_done: int
    bytes_total: int
    unread: int


def scan(
    index: RunIndex,
    snapshot: Snapshot,
    rows: np.ndarray,
    tests: Sequence[TextPredicate],
    derive: Derive | None = None,
) -> Iterator[ScannedRows]:
    """Test samples, file by file in byte order; yields a batch about every ``pause_seconds``.

    Raises
    ------
    FilterError
        If a regular expression takes too long.
    """
    column = snapshot.metadata
    rows = rows[file_order(snapshot, rows)]
    sizes = np.where(column("part")[rows] == 0, column("length")[rows], 0).astype(np.int64)
    passed = {test: np.zeros(len(rows), bool) for test in tests}
    sent, unread, pause = 0, 0, index.limits.search.pause_seconds
    last = time.monotonic()
    for end, is_candidate in _progress(
        _candidate_blocks(index, snapshot, rows, tests, whole=derive is not None)
    ):
        if is_candidate:
            try:
                texts = fetch_texts(index, snapshot, int(rows[end - 1]))
            except (RLPanelError, IndexError):  # the file was rewritten; its new rows arrive soon
                unread += 1
            else:
                derived = derive(texts) if derive is not None else {}
                for test in tests:
                    known = texts if test.field in schema.TEXTS or not test.field else derived
                    passed[test][end - 1] = test.passes_sample(known)
        if end > sent and (end == len(rows) or time.monotonic() - last > pause):
            batch = slice(sent, end)
            results = {test: mask[batch] for test, mask in passed.items()}
            yield ScannedRows(rows[batch], results, int(sizes[:end].sum()), int(sizes.sum()), unread)
            sent, last = end, time.monotonic()


def scan_newest_first(
    index: RunIndex,
    snapshot: Snapshot,
    rows: np.ndarray,
    tests: Sequence[TextPredicate],
    derive: Derive | None = None,
) -> Iterator[ScannedRows]:
    """Test samples as `scan` does, the newest steps first; yields a batch for each portion of whole steps.

    The portions grow, so that few samples are read if a text is frequent, and files in long pieces if not.
    """
    sizes = np.where(snapshot.metadata("part")[rows] == 0, snapshot.metadata("length")[rows], 0)
    done, unread, total = 0, 0, int(sizes.sum(dtype=np.int64))
    for portion in _newest_portions(snapshot.metadata("step")[rows], index.limits.search.first_samples):
        *_, last = batches = list(scan(index, snapshot, rows[portion], tests, derive))
        done, unread = done + last.bytes_done, unread + last.unread
        results = {test: np.concatenate([batch.texts[test] for batch in batches]) for test in tests}
        yield ScannedRows(np.concatenate([batch.rows for batch in batches]), results, done, total, unread)


def _newest_portions(steps: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Yield positions of samples in portions of whole steps, the newest first; ``most`` in the first one."""
    values, counts = np.unique(steps, return_counts=True)
    values, samples = values[::-1], np.cumsum(counts[::-1])
    start = 0
    while start < len(values):
        before = int(samples[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(samples, before + most, "right")))
        yield np.flatnonzero((steps >= values[stop - 1]) & (steps <= values[start]))
        start, most = stop, most * PORTION_GROWTH


@dataclass(frozen=True)
class _Block:
    """Searched rows up to position ``end``, with the positions of candidates, which must be parsed."""

    end: int
    candidates: Sequence[int]


def _progress(blocks: Iterator[_Block]) -> Iterator[tuple[int, bool]]:
    """Yield how many rows are searched, and whether the last of them is a candidate, to be parsed.

    Each candidate is yielded separately: a regular expression may take as long on one text as the search of a
    whole block.
    """
    for block in blocks:
        for position in block.candidates:
            yield position + 1, True
        yield block.end, False


def _candidate_blocks(
    index: RunIndex, snapshot: Snapshot, rows: np.ndarray, tests: Sequence[TextPredicate], *, whole: bool
) -> Iterator[_Block]:
    """Yield blocks of the sorted rows, each with the positions of rows whose lines may pass.

    With ``whole``, each line may: a test is of what is made of texts.
    """
    files = snapshot.metadata("file")[rows]
    literals = ["" if whole else longest_literal(test) for test in tests]
    borders = [0, *(np.flatnonzero(np.diff(files)) + 1).tolist(), len(files)]
    for start, end in pairwise(borders if len(files) else ()):
        reader = index.reader(snapshot.files[files[start]])
        offsets = snapshot.metadata("offset")[rows[start:end]]
        ends = offsets + snapshot.metadata("length")[rows[start:end]]
        needles = _byte_search(literals) if _holds_texts(reader) and all(literals) else None
        for block in _LineSearch(reader.path, offsets, ends, needles, index.limits.search):
            yield _Block(start + block.end, [start + position for position in block.candidates])


def _holds_texts(reader: JsonlFile) -> bool:
    """Return True if the file's bytes contain the texts. A compressed file or one with token ids does not."""
    return reader.lines_on_disk and not isinstance(reader.adapter, DetokenizingAdapter)


class _BlockReader:
    """Reads blocks of a file into one buffer."""

    def __init__(self, file: io.BufferedReader, size: int) -> None:
        self._file = file
        self._buffer = bytearray(size)

    def read(self, start: int, size: int) -> np.ndarray:
        """Return the bytes from an offset on; the next call overwrites them."""
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        self._file.seek(start)
        length = self._file.readinto(memoryview(self._buffer)[:size])
        return np.frombuffer(self._buffer, np.uint8, length)


class _LineSearch:
    """Searches the lines of one file for needles; without needles every line is a candidate."""

    def __init__(
        self,
        path: str,
        offsets: np.ndarray,
        ends: np.ndarray,
        needles: ByteSearch | None,
        limits: SearchLimits,
    ) -> None:
        self._path, self._needles, self._limits = path, needles, limits
        self._offsets, self._ends = offsets, ends

    def __iter__(self) -> Iterator[_Block]:
        if self._needles is None:
            for start, end in self._blocks():
                yield _Block(end, range(start, end))
            return
        blocks = list(self._blocks())
        size = self._limits.block_bytes
        tasks = [blocks[at : at + BLOCKS_AT_ONCE] for at in range(0, len(blocks), BLOCKS_AT_ONCE)]
        try:
            with ExitStack() as stack:
                readers = [
                    _BlockReader(stack.enter_context(file_access.stream(self._path, size)), size)
                    for _ in range(min(THREADS, len(tasks)))  # most files of one step have one block
                ]
                pool = stack.enter_context(ThreadPoolExecutor(THREADS, "rlpanel-search"))
                yield from self._search(tasks, self._needles, pool, readers)
        except OSError:  # all rows become candidates: parsing them then reports that they are gone
            yield _Block(len(self._offsets), range(len(self._offsets)))

    def _search(
        self,
        tasks: Sequence[Sequence[tuple[int, int]]],
        needles: ByteSearch,
        pool: ThreadPoolExecutor,
        readers: Sequence[_BlockReader],
    ) -> Iterator[_Block]:
        """Yield the blocks in order; the next ones are read and searched meanwhile, a task by each reader."""

        def find(reader: _BlockReader, blocks: Sequence[tuple[int, int]]) -> list[np.ndarray]:
            found = []
            for start, end in blocks:
                base = int(self._offsets[start])
                size = int(self._ends[start:end].max()) - base
                found.append(base + needles.positions(reader.read(base, size)))
            return found

        ahead: deque[tuple[Sequence[tuple[int, int]], Future[list[np.ndarray]]]] = deque()
        for number, blocks in enumerate(tasks):
            if len(ahead) == len(readers):  # the oldest task has the reader that is used next
                yield from self._finished(*ahead.popleft())
            ahead.append((blocks, pool.submit(find, readers[number % len(readers)], blocks)))
        while ahead:
            yield from self._finished(*ahead.popleft())

    def _finished(
        self, blocks: Sequence[tuple[int, int]], found: Future[list[np.ndarray]]
    ) -> Iterator[_Block]:
        for (start, end), matches in zip(blocks, found.result(), strict=True):
            yield _Block(end, self._rows_with_matches(start, end, matches))

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of positions: adjacent lines that fit into a block, or a single longer line."""
        offsets, ends, limits = self._offsets, self._ends, self._limits
        breaks = [*(np.flatnonzero(offsets[1:] - ends[:-1] > limits.gap_bytes) + 1).tolist(), len(offsets)]
        start = 0
        for stop in breaks:
            while start < stop:
                end = int(np.searchsorted(ends, offsets[start] + limits.block_bytes, "right"))
                # Keep all samples of one line in the same block.
                end = int(np.searchsorted(offsets, offsets[min(max(end, start + 1), stop) - 1], "right"))
                yield start, end
                start = end

    def _rows_with_matches(self, start: int, end: int, matches: np.ndarray) -> list[int]:
        """Return the positions of the block's rows whose lines contain a match, given by byte offset."""
        if not len(matches):
            return []
        offsets, ends = self._offsets[start:end], self._ends[start:end]
        line = np.searchsorted(offsets, matches, "right") - 1
        inside = matches < ends[line]
        return (start + np.flatnonzero(np.isin(offsets, offsets[line[inside]]))).tolist()


def longest_literal(test: TextPredicate) -> str:
    """Return the longest part of the value that every JSON writer encodes in one of three ways.

    The ways are unchanged, with all non-ASCII characters escaped, or with the escapes escaped as well, as in
    JSON that is a text of JSON. Empty if a passing line need not contain such a part.
    """
    if test.word in ("matches", "missing"):
        return ""
    # Characters that no normal form keeps, such as the Kelvin sign, are not searched as bytes.
    kept = "".join(char if forms_of(char)[0] == char else "\0" for char in test.value)
    value = _ROLE_MARK.sub("[]", forms_of(kept)[0])
    literals = ["".join(group).strip() for plain, group in groupby(value, _is_plain) if plain]
    return max(literals, key=lambda text: len(text.encode()), default="")


def encodings(literal: str) -> tuple[bytes, ...]:
    """Return the three encodings of each form of a literal, folded, without those that are equal."""
    ways: list[str] = []
    for form in forms_of(literal):
        escaped = json.dumps(form)[1:-1]
        ways += (form, escaped, json.dumps(escaped)[1:-1])
    return tuple(dict.fromkeys(fold_bytes(way.encode()) for way in ways))


def _byte_search(literals: Sequence[str]) -> ByteSearch:
    needles = [needle for literal in literals for needle in encodings(literal)]
    return ByteSearch(needles, {letter for literal in literals for letter in literal if letter.isascii()})


def _is_plain(character: str) -> bool:
    """Return True if JSON writers encode a character in one of two ways, in upper and in lower case."""
    if character.isascii():
        return character.isprintable() and character not in _ODD_ASCII
    cased = character.lower() != character or character.upper() != character
    return character.isprintable() and not cased
