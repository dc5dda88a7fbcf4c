"""Two texts side by side as HTML: what both begin with is folded, and what differs is marked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rlpanel.number_text import number
from rlpanel.panels.compare.text_diff import DiffPiece, DiffUnit, diff, token_units, word_units
from rlpanel.panels.language.labels import tr
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.texts.display_text import TokenKind, decode, escape_invisible
from rlpanel.texts.prompt_parts import TextStyle, clean

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
