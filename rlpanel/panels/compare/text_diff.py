"""Diff of two responses by words or tokens, as rows to show side by side.

difflib takes quadratic time on repetitive texts, so the cost is estimated first: the number of equal pairs
that its first pass visits. Long texts are cut at passages that occur exactly once in both, as in patience
diff. A section that is still too expensive is marked as changed completely, and ``whole`` is False.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

#: Maximum number of equal pairs: without cutting the texts, and in all sections of cut texts together.
EXACT_PAIRS = 50_000
MAX_PAIRS = 500_000
#: Number of units of a passage that can be an anchor.
PASSAGE = 4

_CJK = "\u2e80-\u2fdf\u3005-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_BLANK = r"[^\S\n]"
_WORDS = re.compile(rf"\n|[{_CJK}]{_BLANK}*|[^\W{_CJK}]+{_BLANK}*|{_BLANK}+|.{_BLANK}*")


class DiffPiece(NamedTuple):
    """A section of one text, and whether the other text has it too."""

    text: str
    same: bool


class DiffUnit(NamedTuple):
    """A word or token: ``key`` is compared, ``text`` is shown."""

    key: Hashable
    text: str


@dataclass(frozen=True)
class TextDiff:
    """Alignment of two texts.

    Attributes
    ----------
    rows : list of (list of DiffPiece, list of DiffPiece)
        Left and right text; a row ends at each line break that both have.
    shared : float
        Share of the units with visible text that both have in common, between 0 and 1.
    whole : bool
        False if a section was too expensive to align.
    prefix : int
        Number of units at the beginning that both have.
    """

    rows: list[tuple[list[DiffPiece], list[DiffPiece]]]
    shared: float
    whole: bool
    prefix: int = 0


class Section(NamedTuple):
    """Matching sections of both sequences, equal or different."""

    same: bool
    left: slice
    right: slice


def word_units(text: str) -> list[DiffUnit]:
    """Split a text into words, CJK characters and punctuation, each with the whitespace that follows.

    A single trailing space is not compared, so that a word at the end of a line equals it elsewhere.
    """
    parts = _WORDS.findall(text)
    return [DiffUnit(part[:-1] if part[-1] == " " and len(part) > 1 else part, part) for part in parts]


def token_units(tokens: Sequence[str], texts: Sequence[str]) -> list[DiffUnit]:
    """Return a unit per token; two are equal if token and display text are equal.

    The token alone is not enough: the last byte of a character is shown as the character, which depends on
    the bytes before it.
    """
    return [DiffUnit(pair, pair[1]) for pair in zip(tokens, texts, strict=True)]


def diff(left: Sequence[DiffUnit], right: Sequence[DiffUnit]) -> TextDiff:
    """Align two sequences of units."""
    sections, whole = align([unit.key for unit in left], [unit.key for unit in right])
    common = sum(_count_visible(left[section.left]) for section in sections if section.same)
    units = _count_visible(left) + _count_visible(right)
    prefix = sections[0].left.stop
    return TextDiff(_rows(sections, left, right), 2 * common / units if units else 1.0, whole, prefix)


def _count_visible(units: Sequence[DiffUnit]) -> int:
    """Count units with text; bytes of a character that a later token completes have none."""
    return sum(unit.text != "" for unit in units)


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[list[Section], bool]:
    """Return equal and different sections in order, and whether all were aligned within the budget.

    The first section is the common beginning of both; it may be empty, as others may.
    """
    budget = MAX_PAIRS
    whole = True
    sections: list[Section] = []
    for same, left, right in _cut(a, b):
        if same:
            sections.append(Section(True, left, right))
            continue
        pairs = _count_pairs(a[left], b[right])
        if pairs > budget:
            whole = False
            sections.append(Section(False, left, right))
            continue
        budget -= pairs
        opcodes = SequenceMatcher(None, a[left], b[right], autojunk=False).get_opcodes()
        sections += [
            Section(tag == "equal", _shift(left, i, j), _shift(right, k, m)) for tag, i, j, k, m in opcodes
        ]
    return sections, whole


def _shift(section: slice, start: int, stop: int) -> slice:
    return slice(section.start + start, section.start + stop)


def _cut(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[Section]:
    """Yield the common prefix, the anchors and the sections between them, and the common suffix."""
    head = _common_prefix(a, b)
    tail = _common_prefix(a[head:][::-1], b[head:][::-1])
    ends = len(a) - tail, len(b) - tail
    yield Section(True, slice(0, head), slice(0, head))
    i, k = head, head
    too_long = _count_pairs(a[head : ends[0]], b[head : ends[1]]) > EXACT_PAIRS
    for anchor_a, anchor_b in _anchors(a, b, head, ends) if too_long else ():
        if anchor_a < i or anchor_b < k:
            continue
        size = _common_prefix(a[anchor_a : ends[0]], b[anchor_b : ends[1]])
        yield Section(False, slice(i, anchor_a), slice(k, anchor_b))
        yield Section(True, slice(anchor_a, anchor_a + size), slice(anchor_b, anchor_b + size))
        i, k = anchor_a + size, anchor_b + size
    yield Section(False, slice(i, ends[0]), slice(k, ends[1]))
    yield Section(True, slice(ends[0], len(a)), slice(ends[1], len(b)))


def _common_prefix(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Return the length of the common prefix."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _count_pairs(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Return the number of equal pairs, which is the cost of finding the first longest match."""
    counts = Counter(a)
    return sum(counts[key] * count for key, count in Counter(b).items() if key in counts)


def _anchors(
    a: Sequence[Hashable], b: Sequence[Hashable], head: int, ends: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return positions of passages unique in both: the longest sequence with the same order in both."""
    once_a, once_b = _unique_passages(a, head, ends[0]), _unique_passages(b, head, ends[1])
    pairs = [(i, once_b[passage]) for passage, i in once_a.items() if passage in once_b]
    tails: list[int] = []  # smallest last position of an increasing sequence, by its length
    heads: list[int] = []  # index of the pair with that position
    before: list[int] = []  # index of each pair's predecessor in its sequence
    for n, (_, k) in enumerate(pairs):
        length = bisect_left(tails, k)
        before.append(heads[length - 1] if length else -1)
        tails[length : length + 1] = [k]
        heads[length : length + 1] = [n]
    sequence = []
    n = heads[-1] if heads else -1
    while n >= 0:
        sequence.append(pairs[n])
        n = before[n]
    return sequence[::-1]


def _unique_passages(units: Sequence[Hashable], start: int, stop: int) -> dict[tuple[Hashable, ...], int]:
    """Return the positions of passages that occur exactly once, in order."""
    passages = [tuple(units[i : i + PASSAGE]) for i in range(start, stop - PASSAGE + 1)]
    counts = Counter(passages)
    return {passage: start + i for i, passage in enumerate(passages) if counts[passage] == 1}


def _rows(
    sections: Sequence[Section], left: Sequence[DiffUnit], right: Sequence[DiffUnit]
) -> list[tuple[list[DiffPiece], list[DiffPiece]]]:
    rows: list[tuple[list[DiffPiece], list[DiffPiece]]] = [([], [])]
    for section in sections:
        if not section.same:
            _append(rows[-1][0], "".join(unit.text for unit in left[section.left]), False)
            _append(rows[-1][1], "".join(unit.text for unit in right[section.right]), False)
            continue
        for left_unit, right_unit in zip(left[section.left], right[section.right], strict=True):
            _append(rows[-1][0], left_unit.text, True)
            _append(rows[-1][1], right_unit.text, True)
            if left_unit.text.endswith("\n"):
                rows.append(([], []))
    return rows if any(rows[-1]) or len(rows) == 1 else rows[:-1]


def _append(side: list[DiffPiece], text: str, same: bool) -> None:
    """Append a text, merged into the last piece if that is of the same kind."""
    if not text:
        return
    if side and side[-1].same == same:
        side[-1] = DiffPiece(side[-1].text + text, same)
    else:
        side.append(DiffPiece(text, same))
