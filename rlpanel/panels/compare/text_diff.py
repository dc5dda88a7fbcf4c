"""Where two responses differ, word by word or token by token, in rows that stand side by side.

difflib takes quadratic time where much repeats, so the work is measured before it is done, by the number
of equal pairs that a first pass visits. Long texts are cut at passages that occur once in both (the idea
of patience diff), and a stretch that is still too long is shown as changed throughout, which is said.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

#: Equal pairs that are visited without cutting, and in all stretches of a cut text together.
EXACT_PAIRS = 50_000
MOST_PAIRS = 500_000
#: Units of a passage that can be an anchor.
PASSAGE = 4

_CJK = "\u2e80-\u2fdf\u3005-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_BLANK = r"[^\S\n]"
_WORDS = re.compile(rf"\n|[{_CJK}]{_BLANK}*|[^\W{_CJK}]+{_BLANK}*|{_BLANK}+|.{_BLANK}*")


class DiffPiece(NamedTuple):
    """A stretch of one side, and whether the other side has it too."""

    text: str
    same: bool


class DiffUnit(NamedTuple):
    """What is compared (``key``) and what is shown."""

    key: Hashable
    text: str


@dataclass(frozen=True)
class TextDiff:
    """Two texts, aligned.

    Attributes
    ----------
    rows : list of (list of Piece, list of Piece)
        Left and right; a row ends at each line break that both sides have.
    shared : float
        Share of both sides' units (those that show anything) that they have in common, between 0 and 1.
    whole : bool
        False where a stretch was too long to be aligned inside.
    """

    rows: list[tuple[list[DiffPiece], list[DiffPiece]]]
    shared: float
    whole: bool


class _Op(NamedTuple):
    same: bool
    left: slice
    right: slice


def words(text: str) -> list[DiffUnit]:
    """Words, single characters of scripts without spaces, and signs, each with the blanks behind it.

    One space or none counts as the same, so that a word at a line's end equals the word elsewhere.
    """
    parts = _WORDS.findall(text)
    return [DiffUnit(part[:-1] if part[-1] == " " and len(part) > 1 else part, part) for part in parts]


def cells(tokens: Sequence[str], texts: Sequence[str]) -> list[DiffUnit]:
    """Tokens with the texts they show.

    Two count as equal when both agree: a byte that completes a character reads as that character, which
    the bytes before it decide.
    """
    return [DiffUnit(pair, pair[1]) for pair in zip(tokens, texts, strict=True)]


def diff(left: Sequence[DiffUnit], right: Sequence[DiffUnit]) -> TextDiff:
    """Align two sequences of units."""
    ops, whole = _align([unit.key for unit in left], [unit.key for unit in right])
    common = sum(_seen(left[op.left]) for op in ops if op.same)
    units = _seen(left) + _seen(right)
    return TextDiff(_rows(ops, left, right), 2 * common / units if units else 1.0, whole)


def _seen(units: Sequence[DiffUnit]) -> int:
    """How many units show something: a byte that a later token completes to a character does not."""
    return sum(unit.text != "" for unit in units)


def _align(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[list[_Op], bool]:
    """The operations that lead from one to the other, and whether every stretch was aligned inside."""
    budget = MOST_PAIRS
    whole = True
    ops: list[_Op] = []
    for same, here, there in _stretches(a, b):
        if same:
            ops.append(_Op(True, here, there))
            continue
        pairs = _pairs(a[here], b[there])
        if pairs > budget:
            whole = False
            ops.append(_Op(False, here, there))
            continue
        budget -= pairs
        found = SequenceMatcher(None, a[here], b[there], autojunk=False).get_opcodes()
        ops += [_Op(tag == "equal", _shift(here, i, j), _shift(there, k, m)) for tag, i, j, k, m in found]
    return ops, whole


def _shift(where: slice, start: int, stop: int) -> slice:
    return slice(where.start + start, where.start + stop)


def _stretches(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[_Op]:
    """What both begin and end with, the anchors between, and the stretches between those."""
    head = _agreeing(a, b)
    tail = _agreeing(a[head:][::-1], b[head:][::-1])
    ends = len(a) - tail, len(b) - tail
    yield _Op(True, slice(0, head), slice(0, head))
    i, k = head, head
    cut = _pairs(a[head : ends[0]], b[head : ends[1]]) > EXACT_PAIRS
    for at, to in _anchors(a, b, head, ends) if cut else ():
        if at < i or to < k:
            continue
        size = _agreeing(a[at : ends[0]], b[to : ends[1]])
        yield _Op(False, slice(i, at), slice(k, to))
        yield _Op(True, slice(at, at + size), slice(to, to + size))
        i, k = at + size, to + size
    yield _Op(False, slice(i, ends[0]), slice(k, ends[1]))
    yield _Op(True, slice(ends[0], len(a)), slice(ends[1], len(b)))


def _agreeing(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """How many units both begin with."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _pairs(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Number of equal pairs: what finding the first longest match costs."""
    here = Counter(a)
    return sum(here[key] * count for key, count in Counter(b).items() if key in here)


def _anchors(
    a: Sequence[Hashable], b: Sequence[Hashable], head: int, ends: tuple[int, int]
) -> list[tuple[int, int]]:
    """Places of passages that occur once in both, in an order that both have (the longest such)."""
    once_a, once_b = _unique_passages(a, head, ends[0]), _unique_passages(b, head, ends[1])
    pairs = [(i, once_b[passage]) for passage, i in once_a.items() if passage in once_b]
    tails: list[int] = []  # the smallest end of an increasing run, by its length
    heads: list[int] = []  # and which pair that end is
    before: list[int] = []
    for n, (_, k) in enumerate(pairs):
        length = bisect_left(tails, k)
        before.append(heads[length - 1] if length else -1)
        tails[length : length + 1] = [k]
        heads[length : length + 1] = [n]
    run = []
    n = heads[-1] if heads else -1
    while n >= 0:
        run.append(pairs[n])
        n = before[n]
    return run[::-1]


def _unique_passages(units: Sequence[Hashable], start: int, stop: int) -> dict[tuple[Hashable, ...], int]:
    """Passages that occur once, with their places, in order."""
    passages = [tuple(units[i : i + PASSAGE]) for i in range(start, stop - PASSAGE + 1)]
    counts = Counter(passages)
    return {passage: start + i for i, passage in enumerate(passages) if counts[passage] == 1}


def _rows(
    ops: Sequence[_Op], left: Sequence[DiffUnit], right: Sequence[DiffUnit]
) -> list[tuple[list[DiffPiece], list[DiffPiece]]]:
    rows: list[tuple[list[DiffPiece], list[DiffPiece]]] = [([], [])]
    for op in ops:
        if not op.same:
            _add(rows[-1][0], "".join(unit.text for unit in left[op.left]), False)
            _add(rows[-1][1], "".join(unit.text for unit in right[op.right]), False)
            continue
        for here, there in zip(left[op.left], right[op.right], strict=True):
            _add(rows[-1][0], here.text, True)
            _add(rows[-1][1], there.text, True)
            if here.text.endswith("\n"):
                rows.append(([], []))
    return rows if any(rows[-1]) or len(rows) == 1 else rows[:-1]


def _add(side: list[DiffPiece], text: str, same: bool) -> None:
    """Append to the last piece where it is of the same kind."""
    if not text:
        return
    if side and side[-1].same == same:
        side[-1] = DiffPiece(side[-1].text + text, same)
    else:
        side.append(DiffPiece(text, same))
