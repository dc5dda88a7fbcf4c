"""Text tests over many samples: their lines' bytes are looked through, and few lines are parsed.

What is sought is looked for as a log would write it; only lines that hold it, somewhere, are parsed and asked
for certain. A regular expression has no such bytes: there every line is parsed.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.sources import files
from rlpanel.sources.jsonl import JsonlFile
from rlpanel.sources.token_text import WithText
from rlpanel.store.index import RunIndex
from rlpanel.store.run import fetch_record
from rlpanel.store.snapshot import Snapshot
from rlpanel.store.text_test import TextTest

#: Bytes looked through at a time: they stay in the processor's cache, and nobody waits for them for long.
BLOCK = 1 << 20
#: Bytes between two wanted lines that are rather read than jumped over.
GAP = 64 << 10
#: Seconds between two batches.
PAUSE = 0.2

#: What some writers escape, and what adapters put between the strings that they join.
_ODD_ASCII = frozenset("\"\\/<>&'\x7f[]{}:,")
#: A plain letter or sign written as an escape, which no known writer does; such lines are always parsed.
_ESCAPED = re.compile(rb"\|u00[2-7]")


@dataclass(frozen=True)
class Batch:
    """Samples that were judged.

    Attributes
    ----------
    rows : ndarray of int, shape (N,)
    texts : dict
        Outcome of each test, shape (N,).
    bytes_done, bytes_total : int
        Of the lines asked for, over all batches so far.
    unread : int
        Samples so far whose bytes are gone; they pass nothing.
    """

    rows: np.ndarray
    texts: dict[TextTest, np.ndarray]
    bytes_done: int
    bytes_total: int
    unread: int


def scan(index: RunIndex, snapshot: Snapshot, rows: np.ndarray, tests: Sequence[TextTest]) -> Iterator[Batch]:
    """Judge samples, file by file in the order of their bytes; a batch every `PAUSE` seconds.

    Raises
    ------
    FilterError
        If a regular expression takes too long.
    """
    place = snapshot.place
    rows = rows[np.lexsort([place(name)[rows] for name in ("part", "offset", "file")])]
    sizes = np.where(place("part")[rows] == 0, place("length")[rows], 0).astype(np.int64)
    passed = {test: np.zeros(len(rows), bool) for test in tests}
    told = unread = 0
    last = time.monotonic()
    for end, suspect in _places(_suspects(index, snapshot, rows, tests)):
        if suspect:
            try:
                texts = fetch_record(index, snapshot, int(rows[end - 1])).texts
            except (RLPanelError, IndexError):  # its file was written anew; its new rows come in a moment
                unread += 1
            else:
                for test in tests:
                    passed[test][end - 1] = test.of(texts)
        if end > told and (end == len(rows) or time.monotonic() - last > PAUSE):
            now = slice(told, end)
            outcomes = {test: mask[now] for test, mask in passed.items()}
            yield Batch(rows[now], outcomes, int(sizes[:end].sum()), int(sizes.sum()), unread)
            told, last = end, time.monotonic()


@dataclass(frozen=True)
class _Block:
    """Places up to ``end`` are looked through; the suspects among the block's are to be parsed."""

    end: int
    suspects: Sequence[int]


def _places(blocks: Iterator[_Block]) -> Iterator[tuple[int, bool]]:
    """How far it is known what to do, and whether the last of these places is to be parsed.

    A step a suspect: one text may take an expression as long as a block takes otherwise.
    """
    for block in blocks:
        for place in block.suspects:
            yield place + 1, True
        yield block.end, False


def _suspects(
    index: RunIndex, snapshot: Snapshot, rows: np.ndarray, tests: Sequence[TextTest]
) -> Iterator[_Block]:
    """Blocks of sorted rows, each with the places whose lines may pass."""
    files = snapshot.place("file")[rows]
    start = 0
    for number, group in groupby(files.tolist()):
        end = start + sum(1 for _ in group)
        reader = index.reader(snapshot.files[number])
        needles = [needles_of(test) for test in tests]
        offsets = snapshot.place("offset")[rows[start:end]]
        ends = offsets + snapshot.place("length")[rows[start:end]]
        if _holds_texts(reader) and all(needles):
            look = _Look(reader.path, offsets, ends, [n for several in needles for n in several])
        else:
            look = _Look("", offsets, ends, [])
        for block in look:
            yield _Block(start + block.end, [start + place for place in block.suspects])
        start = end


def _holds_texts(reader: JsonlFile) -> bool:
    """Whether the file's own bytes hold the texts: no packed file, and no token ids that become text."""
    return reader.lines_on_disk and not isinstance(reader.adapter, WithText)


class _Look:
    """Looks through the lines of one file; without needles every line is a suspect."""

    def __init__(self, path: str, offsets: np.ndarray, ends: np.ndarray, needles: Sequence[bytes]) -> None:
        self._path, self._needles = path, needles
        self._offsets, self._ends = offsets, ends
        self._buffer = bytearray(BLOCK)

    def __iter__(self) -> Iterator[_Block]:
        if not self._needles:
            for start, end in self._blocks():
                yield _Block(end, range(start, end))
            return
        try:
            with files.stream(self._path, BLOCK) as file:
                for start, end in self._blocks():
                    base, size = int(self._offsets[start]), int(self._ends[start:end].max())
                    file.seek(base)
                    size = self._fill(file, size - base)
                    yield _Block(end, self._hits(start, end, base, size))
        except OSError:  # parsing says for each row that it is gone
            yield _Block(len(self._offsets), range(len(self._offsets)))

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Places from, to: lines that stand together and fit a block, or one that is longer."""
        offsets, ends = self._offsets, self._ends
        breaks = [*(np.flatnonzero(offsets[1:] - ends[:-1] > GAP) + 1).tolist(), len(offsets)]
        start = 0
        for stop in breaks:
            while start < stop:
                end = int(np.searchsorted(ends, offsets[start] + BLOCK, "right"))
                # The samples of one line stay together.
                end = int(np.searchsorted(offsets, offsets[min(max(end, start + 1), stop) - 1], "right"))
                yield start, end
                start = end

    def _fill(self, file: io.BufferedReader, size: int) -> int:
        """Read into the buffer, in lower case of a sort: upper and lower letters become the same byte."""
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        got = file.readinto(memoryview(self._buffer)[:size])
        view = np.frombuffer(self._buffer, np.uint8, got)
        np.bitwise_or(view, 0x20, out=view)
        return int(got)

    def _hits(self, start: int, end: int, base: int, size: int) -> list[int]:
        offsets, ends = self._offsets[start:end], self._ends[start:end]
        suspects: set[int] = set()
        for position in self._positions(ends - base, size):
            first = int(np.searchsorted(offsets, base + position, "right")) - 1
            if base + position < ends[first]:
                line = slice(*np.searchsorted(offsets, [offsets[first], offsets[first] + 1]))
                suspects |= set(range(start + line.start, start + line.stop))
        return sorted(suspects)

    def _positions(self, ends: np.ndarray, size: int) -> Iterator[int]:
        """Where something is found, once a line at most."""
        buffer = self._buffer
        for needle in self._needles:
            at = buffer.find(needle, 0, size)
            while at >= 0:
                yield at
                at = buffer.find(needle, _line_end(ends, at), size)
        if buffer.find(b"|u00", 0, size) >= 0:
            found = _ESCAPED.search(buffer, 0, size)
            while found:
                yield found.start()
                found = _ESCAPED.search(buffer, _line_end(ends, found.start()), size)


def _line_end(ends: np.ndarray, at: int) -> int:
    """Where the line ends that holds a place; just behind the place where none does."""
    place = int(np.searchsorted(ends, at, "right"))
    return max(int(ends[place]), at + 1) if place < len(ends) else at + 1


def needles_of(test: TextTest) -> tuple[bytes, ...]:
    """Bytes of which a line that passes holds one, as `_Look` folds them; none where that is not sure.

    The longest stretch of the value that every JSON writer writes in one of two ways: as it is, or with all
    beyond ASCII escaped.
    """
    if test.word in ("matches", "missing"):
        return ()
    stretches = ["".join(group).strip() for plain, group in groupby(test.value, _plain) if plain]
    best = max(stretches, key=lambda text: len(text.encode()), default="")
    variants = dict.fromkeys([best.encode(), json.dumps(best)[1:-1].encode()])
    return tuple(bytes(byte | 0x20 for byte in variant) for variant in variants) if best else ()


def _plain(character: str) -> bool:
    """Whether a character is written in one of two ways, in any case."""
    if character.isascii():
        return character.isprintable() and character not in _ODD_ASCII
    cased = character.lower() != character or character.upper() != character
    return character.isprintable() and not cased
