"""Finds where the values of a JSON document begin and end, without parsing them.

A document may be larger than what should be held as Python objects. Its brackets, commas and quotes are found
block by block with numpy, so a list of samples becomes a list of places, and each sample is parsed alone. The
depth of brackets costs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

_OPEN, _CLOSE, _COMMA, _QUOTE, _BACKSLASH = range(1, 6)
_MARKS = b'{[}],"\\'
_KIND = dict(zip(_MARKS, (_OPEN, _OPEN, _CLOSE, _CLOSE, _COMMA, _QUOTE, _BACKSLASH), strict=True))
_KINDS = bytes(_KIND.get(byte, 0) for byte in range(256))
#: Bytes that are looked at together: they should still be in the CPU cache.
BLOCK_BYTES = 256 << 10
_BLANKS = b" \t\r\n"
BOM = b"\xef\xbb\xbf"


class Structure:
    """Finds the brackets and commas outside of texts in consecutive blocks of a document."""

    def __init__(self) -> None:
        self.depth = 0
        self.in_text = False
        self._escaped = False  # whether a backslash before this block escapes its first character

    def feed(self, block: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the positions of brackets and commas, the depth after each, and the positions of quotes."""
        kinds = np.frombuffer(block.translate(_KINDS), np.uint8)  # many times as fast as an index by bytes
        places = np.flatnonzero(kinds != 0)
        kinds = kinds[places]
        escaped = np.zeros(len(block) + 1, bool)
        escaped[self._escaped_places(places[kinds == _BACKSLASH], len(block))] = True
        quotes = places[kinds == _QUOTE]
        quotes = quotes[~escaped[quotes]]
        marks, kinds = places[kinds <= _COMMA], kinds[kinds <= _COMMA]
        outside = (np.searchsorted(quotes, marks) + self.in_text) & 1 == 0
        marks, kinds = marks[outside], kinds[outside]
        depths = self.depth + np.cumsum((kinds == _OPEN).astype(np.int64) - (kinds == _CLOSE))
        self.in_text ^= bool(len(quotes) & 1)
        self.depth = int(depths[-1]) if len(depths) else self.depth
        return marks, depths, quotes

    def _escaped_places(self, backslashes: np.ndarray, length: int) -> np.ndarray:
        """Return the positions after an odd number of backslashes."""
        continues = bool(len(backslashes)) and backslashes[0] == 0
        after = [np.zeros(int(self._escaped and not continues), np.int64)]
        if len(backslashes):
            first = np.flatnonzero(np.diff(backslashes, prepend=-2) != 1)
            last = backslashes[np.append(first[1:] - 1, len(backslashes) - 1)]
            lengths = last - backslashes[first] + 1
            lengths[0] -= self._escaped and continues
            after.append(last[lengths & 1 == 1] + 1)
        places = np.concatenate(after)
        self._escaped = bool(len(places)) and int(places[-1]) == length
        return places


@dataclass(frozen=True)
class Places:
    """Places of values, with the blanks around them.

    Attributes
    ----------
    starts, ends : ndarray of int
    is_whole : bool
        False if the document ends before the last value does.
    """

    starts: np.ndarray
    ends: np.ndarray
    is_whole: bool

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.starts.tolist(), self.ends.tolist(), strict=True)


def find_items(blocks: Iterable[bytes], offset: int) -> Places:
    """Return the places of a list's items; the first block begins after the list's bracket, at ``offset``."""
    structure, ends, at = Structure(), [np.zeros(0, np.int64)], offset
    for block in blocks:
        marks, depths, _ = structure.feed(block)
        closed = np.flatnonzero(depths < 0)
        stop = int(closed[0]) + 1 if len(closed) else len(marks)
        shallow = depths[:stop] <= 0
        outer = marks[:stop][shallow]  # commas between the items, and brackets that close one
        is_end = np.frombuffer(block, np.uint8)[outer] == ord(",")
        ends.append(at + outer[is_end | (depths[:stop][shallow] < 0)])
        at += len(block)
        if len(closed):
            return _between(offset, np.concatenate(ends), gap=1, is_whole=True)
    return _between(offset, np.concatenate(ends), gap=1, is_whole=False)


def find_values(blocks: Iterable[bytes]) -> Places:
    """Return the places of lists and objects that follow one another; the last place is what remains."""
    structure, ends, at = Structure(), [np.zeros(0, np.int64)], 0
    for block in blocks:
        marks, depths, _ = structure.feed(block)
        outer = marks[depths == 0]
        ends.append(at + outer[np.frombuffer(block, np.uint8)[outer] != ord(",")] + 1)
        at += len(block)
    whole = structure.depth == 0 and not structure.in_text
    return _between(0, np.concatenate([*ends, [at]] if whole else ends), gap=0, is_whole=whole)


def _between(offset: int, ends: np.ndarray, *, gap: int, is_whole: bool) -> Places:
    return Places(np.concatenate([[offset], ends[:-1] + gap])[: len(ends)], ends, is_whole)


@dataclass(frozen=True)
class FoundList:
    """A list in a document.

    Attributes
    ----------
    keys : tuple of str
        Keys of the objects that lead to it; empty if the document is a list.
    offset : int
        Offset after its bracket.
    items : list of bytes
        Its first items.
    is_whole : bool
        Whether these are all.
    """

    keys: tuple[str, ...]
    offset: int
    items: list[bytes]
    is_whole: bool


#: Most objects that lead to a list, most lists that are looked at, and most values that are returned.
_MAX_KEYS, _MAX_LISTS, _MAX_VALUES = 4, 64, 20


class Outline:
    """Finds the lists and values near the top of a document, from the document's first bytes."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        marks, depths, self._quotes = Structure().feed(head)
        is_comma = np.frombuffer(head, np.uint8)[marks] == ord(",")
        self._commas, self._comma_depths = marks[is_comma], depths[is_comma]
        self._brackets, self._depths = marks[~is_comma], depths[~is_comma]

    def values(self) -> list[bytes]:
        """Return the first lists and objects that follow one another."""
        ends = (self._brackets[self._depths == 0][:_MAX_VALUES] + 1).tolist()
        starts = [0, *ends[:-1]]
        return [self._head[start:end].strip(b", \t\r\n") for start, end in zip(starts, ends, strict=False)]

    def members(self) -> list[bytes]:
        """Return the first objects that are whole and values of the document's object."""
        is_opening = np.frombuffer(self._head, np.uint8)[self._brackets] == ord("{")
        opening = self._brackets[(self._depths == 2) & is_opening][:_MAX_VALUES]  # depths after the bracket
        closing = self._brackets[1:][self._depths[1:] == 1]
        ends = closing[np.searchsorted(closing, opening[: len(closing)]).clip(max=len(closing) - 1)]
        return [
            self._head[start : end + 1]
            for start, end in zip(opening.tolist(), ends.tolist(), strict=False)
            if end > start
        ]

    def lists(self) -> list[FoundList]:
        """Return the lists."""
        brackets, depths = self._brackets, self._depths
        found: list[FoundList] = []
        keys: list[str] = []  # of the objects around
        at = 0
        while at < len(brackets) and len(found) < _MAX_LISTS and depths[at] > 0:
            place, depth = int(brackets[at]), int(depths[at])
            if self._head[place] in b"{[":
                key = [] if depth == 1 else [self._key_before(place)]
                is_list = self._head[place] == ord("[")
                if is_list or depth > _MAX_KEYS:
                    closing = np.flatnonzero(depths[at + 1 :] < depth)
                    at = at + 1 + int(closing[0]) if len(closing) else len(brackets)
                    if is_list:
                        end = int(brackets[at]) if len(closing) else None
                        found.append(self._list((*keys, *key), place + 1, depth, end))
                else:
                    keys += key
            else:
                keys = keys[: depth - 1]
            at += 1
        return found

    def _list(self, keys: tuple[str, ...], start: int, depth: int, end: int | None) -> FoundList:
        """Return the list whose items begin at ``start``; it goes on after the head if it has no end."""
        inside = slice(*np.searchsorted(self._commas, [start, len(self._head) if end is None else end]))
        commas = self._commas[inside][self._comma_depths[inside] == depth][:_MAX_VALUES].tolist()
        borders = [start - 1, *commas, *([] if end is None else [end])][: _MAX_VALUES + 1]
        items = [self._head[left + 1 : right].strip() for left, right in pairwise(borders)]
        return FoundList(keys, start, list(filter(None, items)), end is not None)

    def _key_before(self, place: int) -> str:
        """Return the key of the value at a place of an object; empty without one."""
        quotes, before = self._quotes, self._head[max(0, place - 64) : place].rstrip(_BLANKS)
        closing = int(np.searchsorted(quotes, place)) - 1
        if not before.endswith(b":") or closing < 1:
            return ""
        try:
            return str(json.loads(self._head[quotes[closing - 1] : quotes[closing] + 1]))
        except ValueError:
            return ""


_TEXT_START = re.compile(rb"[\s\0]*")


def text_start(head: bytes) -> int:
    """Return the offset of a document's first character, after a byte order mark, blanks and zero bytes."""
    match = _TEXT_START.match(head, len(BOM) if head.startswith(BOM) else 0)
    return match.end() if match else 0


def split_cells(row: bytes) -> list[bytes]:
    """Return the values of a list in its brackets, as they are written; empty if it is not a list."""
    body = row.strip()
    if not (body.startswith(b"[") and body.endswith(b"]")):
        return []
    places = find_items([body[1:]], 1)
    cells = [body[start:end].strip() for start, end in places]
    return cells if any(cells) else []
