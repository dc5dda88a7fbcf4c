"""Diff of two responses by words or tokens, and two texts side by side as HTML."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

from markupsafe import Markup

from rlpanel.number_text import number
from rlpanel.panels.language.labels import tr
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.texts.display_text import TokenKind, decode, escape_invisible
from rlpanel.texts.prompt_parts import TextStyle, clean

# -- text diff -----------------------------------------------------------------------------------------
# Diff of two responses by words or tokens, as rows to show side by side.
#
# difflib takes quadratic time on repetitive texts, so the cost is estimated first: the number of equal pairs
# that its first pass visits. Long texts are cut at passages that occur exactly once in both, as in patience
# diff. A section that is still too expensive is marked as changed completely, and ``whole`` is False.


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


# -- text pair -----------------------------------------------------------------------------------------
# Two texts side by side as HTML: what both begin with is folded, and what differs is marked.


#: Texts of up to this many characters together are compared on the event loop, longer ones on a thread.
NOW_CHARS = 2000
BREAK = "\n"
#: Characters of a common beginning that stay open; of a longer one, only the sentence that differs does.
OPEN_CHARS = 300
#: Most rows that are drawn; a row ends at a line break that both texts have.
MAX_ROWS = 1000
_SENTENCE_END = re.compile(r"\n|[.!?]\s+|[。！？]")


@dataclass(frozen=True)
class DiffSide:
    """One of the two compared texts, with its heading; ``reward_name`` says which number ``reward`` is."""

    title: str
    location: str
    color: str
    text: str | None
    reward: float = math.nan
    tokens: Sequence[str] | None = None
    reward_name: str = "reward"


def response_side(sample: Sample) -> DiffSide:
    """Return the side with a sample's own response."""
    return DiffSide(tr("Response"), "", "policy", sample.response, sample.reward, sample.response_tokens)


def diff_html(left: DiffSide, right: DiffSide, style: TextStyle) -> Iterator[str]:
    """Yield the diff as HTML: a single result, as `BackgroundTask` expects an iterator."""
    by_tokens = bool(left.tokens and right.tokens)
    here, there = _units(left, style, by_tokens), _units(right, style, by_tokens)
    result = diff(here, there)
    share, first = (
        (tr("{share:.0%} of the tokens in common"), tr("first different token: {place:,}"))
        if by_tokens
        else (tr("{share:.0%} of the words in common"), tr("first different word: {place:,}"))
    )
    summary = [share.format(share=result.shared)]
    if result.prefix < max(len(here), len(there)):
        summary.insert(0, first.format(place=result.prefix + 1))
    if not result.whole:
        summary.append(tr("a long passage was not aligned and is marked as different"))
    sides = tr("only on the left"), tr("only on the right")
    legend = Markup("<ins>{}</ins> · <del>{}</del>").format(*sides)
    before, rows = _fold(result.rows)
    body = "".join(_row_html(*row) for row in rows[:MAX_ROWS]) or _row_html([], [])
    rest = tr("{count:,} more lines are not drawn", count=len(rows) - MAX_ROWS)
    yield (
        f'<p class="note">{safe_text("; ".join(summary))} · {legend}</p>'
        + before
        + f'<div class="sides">{head_html(left)}{head_html(right)}{body}</div>'
        + (f'<p class="note">{safe_text(rest)}</p>' if len(rows) > MAX_ROWS else "")
    )


Row = tuple[list[DiffPiece], list[DiffPiece]]


def _fold(rows: list[Row]) -> tuple[str, list[Row]]:
    """Return a long common beginning as folded HTML, and the rows from the first different sentence on."""
    differs = (any(not piece.same for side in sides for piece in side) for sides in rows)
    place = next((at for at, different in enumerate(differs) if different), None)
    if place is None:
        return "", rows
    lines = ["".join(piece.text for piece in left) for left, _ in rows[:place]]
    here, there = rows[place]
    lead = here[0].text if here and there and here[0].same and there[0].same else ""
    ends = [match.end() for match in _SENTENCE_END.finditer(lead)]
    cut = ends[-1] if ends and ends[-1] < len(lead) else 0
    text = "".join(lines) + lead[:cut]
    if len(text) <= OPEN_CHARS:
        return "", rows
    rest = DiffPiece(lead[cut:], True)
    first = ([rest, *here[1:]], [rest, *there[1:]]) if cut else (here, there)
    summary = tr("the same {count:,} characters before", count=len(text))
    folded = f"<details><summary>{safe_text(summary)}</summary><div>{safe_text(text)}</div></details>"
    return folded, [first, *rows[place + 1 :]]


def _units(side: DiffSide, style: TextStyle, by_tokens: bool) -> list[DiffUnit]:
    if not by_tokens or side.tokens is None:
        return word_units(escape_invisible(clean(side.text or "", style)))
    decoded = decode(side.tokens, style.pad_token)
    not_pads = (decoded.kinds != TokenKind.PAD).nonzero()[0].tolist()
    return token_units([side.tokens[i] for i in not_pads], [decoded.texts[i] for i in not_pads])


def head_html(side: DiffSide) -> str:
    """Return the heading of a side, with its reward and place."""
    reward = ""
    if not math.isnan(side.reward):
        reward = f"<em>{safe_text(side.reward_name)} <b>{number(side.reward)}</b></em>"
    location = f"<em>{safe_text(side.location)}</em>" if side.location else ""
    return f'<h5><span class="{side.color}">{safe_text(side.title)}</span>{reward}{location}</h5>'


def _row_html(left: Sequence[DiffPiece], right: Sequence[DiffPiece]) -> str:
    return f"<div>{pieces_html(left, 'ins')}</div><div>{pieces_html(right, 'del')}</div>"


def pieces_html(pieces: Sequence[DiffPiece], tag: str) -> str:
    """Return escaped text in which differences are marked, including line breaks."""
    marked = ((safe_text(text), same) for text, same in pieces)
    return "".join(
        text if same else f"<{tag}>{text.replace(BREAK, f'<i>↵</i>{BREAK}')}</{tag}>" for text, same in marked
    )


#: Most characters of two short texts of which the differences are marked.
_MARKED_CHARS = 20_000


def marked_pair(left: str, right: str) -> tuple[str, str]:
    """Return two short texts as escaped HTML with their differences marked; long ones are only escaped."""
    if len(left) + len(right) > _MARKED_CHARS:
        return safe_text(left), safe_text(right)
    rows = diff(word_units(left), word_units(right)).rows
    sides = [[piece for row in rows for piece in row[side]] for side in (0, 1)]
    return pieces_html(sides[0], "ins"), pieces_html(sides[1], "del")
