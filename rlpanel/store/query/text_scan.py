"""Text tests over many samples: their lines' bytes are looked through, and few lines are parsed.

What is sought is looked for as a log would write it; only lines that hold it, somewhere, are parsed and asked
for certain. A regular expression has no such bytes: there every line is parsed.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from rlpanel.errors import RLPanelError
from rlpanel.sources.files import files
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.detokenize import DetokenizingAdapter
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.byte_search import ByteSearch, fold_block, fold_bytes
from rlpanel.store.query.fetch import fetch_texts
from rlpanel.store.query.text_predicate import TextPredicate
from rlpanel.store.snapshot.snapshot import Snapshot

#: Bytes looked through at a time: they stay in the processor's cache, and nobody waits for them for long.
BLOCK = 1 << 19
#: Bytes between two wanted lines that are rather read than jumped over.
GAP = 64 << 10
#: Seconds between two batches.
PAUSE = 0.2

#: What some writers escape, and what adapters put between the strings that they join.
_ODD_ASCII = frozenset("\"\\/<>&'\x7f[]{}:,")


@dataclass(frozen=True)
class ScannedRows:
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
    texts: dict[TextPredicate, np.ndarray]
    bytes_done: int
    bytes_total: int
    unread: int


def scan(
    index: RunIndex, snapshot: Snapshot, rows: np.ndarray, tests: Sequence[TextPredicate]
) -> Iterator[ScannedRows]:
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
                texts = fetch_texts(index, snapshot, int(rows[end - 1]))
            except (RLPanelError, IndexError):  # its file was written anew; its new rows come in a moment
                unread += 1
            else:
                for test in tests:
                    passed[test][end - 1] = test.of(texts)
        if end > told and (end == len(rows) or time.monotonic() - last > PAUSE):
            now = slice(told, end)
            outcomes = {test: mask[now] for test, mask in passed.items()}
            yield ScannedRows(rows[now], outcomes, int(sizes[:end].sum()), int(sizes.sum()), unread)
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
    index: RunIndex, snapshot: Snapshot, rows: np.ndarray, tests: Sequence[TextPredicate]
) -> Iterator[_Block]:
    """Blocks of sorted rows, each with the places whose lines may pass."""
    files = snapshot.place("file")[rows]
    stretches = [stretch_of(test) for test in tests]
    start = 0
    for number, group in groupby(files.tolist()):
        end = start + sum(1 for _ in group)
        reader = index.reader(snapshot.files[number])
        offsets = snapshot.place("offset")[rows[start:end]]
        ends = offsets + snapshot.place("length")[rows[start:end]]
        needles = _needles(stretches) if _holds_texts(reader) and all(stretches) else None
        look = _Look(reader.path, offsets, ends, needles)
        for block in look:
            yield _Block(start + block.end, [start + place for place in block.suspects])
        start = end


def _holds_texts(reader: JsonlFile) -> bool:
    """Whether the file's own bytes hold the texts: no packed file, and no token ids that become text."""
    return reader.lines_on_disk and not isinstance(reader.adapter, DetokenizingAdapter)


class _Look:
    """Looks through the lines of one file; without needles every line is a suspect."""

    def __init__(self, path: str, offsets: np.ndarray, ends: np.ndarray, needles: ByteSearch | None) -> None:
        self._path, self._needles = path, needles
        self._offsets, self._ends = offsets, ends
        self._buffer = bytearray(BLOCK)

    def __iter__(self) -> Iterator[_Block]:
        if self._needles is None:
            for start, end in self._blocks():
                yield _Block(end, range(start, end))
            return
        try:
            with files.stream(self._path, BLOCK) as file:
                for start, end in self._blocks():
                    base, size = int(self._offsets[start]), int(self._ends[start:end].max())
                    file.seek(base)
                    found = base + self._needles.places(self._filled(file, size - base))
                    yield _Block(end, self._hits(start, end, found))
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

    def _filled(self, file: io.BufferedReader, size: int) -> np.ndarray:
        """The next bytes, folded."""
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        got = file.readinto(memoryview(self._buffer)[:size])
        block = np.frombuffer(self._buffer, np.uint8, got)
        fold_block(block)
        return block

    def _hits(self, start: int, end: int, found: np.ndarray) -> list[int]:
        """Places of a block whose lines hold what was found, by where in the file it was."""
        if not len(found):
            return []
        offsets, ends = self._offsets[start:end], self._ends[start:end]
        line = np.searchsorted(offsets, found, "right") - 1
        inside = found < ends[line]
        return (start + np.flatnonzero(np.isin(offsets, offsets[line[inside]]))).tolist()


def stretch_of(test: TextPredicate) -> str:
    """The longest part of the value that every JSON writer writes in one of two ways.

    As it is, or with all beyond ASCII escaped. Empty where a line that passes need not hold such a part.
    """
    if test.word in ("matches", "missing"):
        return ""
    stretches = ["".join(group).strip() for plain, group in groupby(test.value, _plain) if plain]
    return max(stretches, key=lambda text: len(text.encode()), default="")


def needles_of(stretch: str) -> tuple[bytes, ...]:
    """Both ways to write it, folded; one where they are the same."""
    return tuple(dict.fromkeys(map(fold_bytes, (stretch.encode(), json.dumps(stretch)[1:-1].encode()))))


def _needles(stretches: Sequence[str]) -> ByteSearch:
    needles = [needle for stretch in stretches for needle in needles_of(stretch)]
    return ByteSearch(needles, {letter for stretch in stretches for letter in stretch if letter.isascii()})


def _plain(character: str) -> bool:
    """Whether a character is written in one of two ways, in any case."""
    if character.isascii():
        return character.isprintable() and character not in _ODD_ASCII
    cased = character.lower() != character or character.upper() != character
    return character.isprintable() and not cased
