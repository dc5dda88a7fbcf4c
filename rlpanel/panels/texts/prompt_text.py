"""Texts of a log as HTML: without padding, with the parts around the question folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from rlpanel.panels.language.labels import tr
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.panels.ui.region import Html
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.store.query.text_predicate import PlaceFinder, TextPredicate
from rlpanel.texts.prompt_parts import (
    BEFORE,
    PADDING,
    SHARED,
    SYSTEM,
    Part,
    Place,
    TextStyle,
    content_of,
    parts_of,
    prompt_cell,
    unpadded,
    without_pad,
)
from rlpanel.texts.shorten import LINE_CHARS, one_line, spaced

#: Characters shown after a found place.
_AFTER = 60
#: Characters that may stand before a found place without being folded: some lines.
_MAX_BEFORE = 300
#: Parts that are never put into a fold with others, and the number of turns that need none.
_OF_THEIR_OWN, _FEW_TURNS = (PADDING, SHARED, SYSTEM, "system", "developer"), 2


def answer_html(text: str, style: TextStyle, places: Sequence[Place] = ()) -> str:
    """Return a response or another answer as HTML, without padding and with the found places marked."""
    start, end = unpadded(text, style.pad_token, common=style.fold)
    return _marked(text, start, end, style, places)


def prompt_html(text: str, style: TextStyle, places: Sequence[Place] = ()) -> str:
    """Return a prompt as HTML: the question and what the response continues open, the rest folded.

    A folded part with a found place is open, and its summary shows the place. Except for tokens that the
    settings remove, the HTML contains the prompt as it was logged.
    """
    return "".join(
        _turns_html(text, [*parts], style, places)
        if is_turn
        else "".join(_part_html(text, part, style, places) for part in parts)
        for is_turn, parts in groupby(parts_of(text, style), _is_earlier_turn)
    )


def _is_earlier_turn(part: Part) -> bool:
    return part.folded and part.name not in _OF_THEIR_OWN


def _turns_html(text: str, turns: Sequence[Part], style: TextStyle, places: Sequence[Place]) -> str:
    """Return adjacent folded turns as HTML: many of them in one fold, as the question must stay in view."""
    inner = "".join(_part_html(text, turn, style, places) for turn in turns)
    if len(turns) <= _FEW_TURNS:
        return inner
    is_open = any(turns[0].start <= place[0] < turns[-1].end for place in places)
    summary = tr(
        "{turns} earlier turns · {size}",
        turns=len(turns),
        size=_size(sum(turn.finish - turn.begin for turn in turns)),
    )
    return f"<details{' open' if is_open else ''}><summary>{summary}</summary>{inner}</details>"


def _part_html(text: str, part: Part, style: TextStyle, places: Sequence[Place]) -> str:
    pieces = (
        _markup(text, part.start, part.begin, places),
        _content_html(text, part, style, places),
        _markup(text, part.finish, part.end, places),
    )
    if part.name == PADDING:
        summary = f"{part.name} · {_size(part.end - part.start)}"
        return f"<details><summary>{summary}</summary>{_markup(text, part.start, part.end)}</details>"
    if not part.folded:
        return f"<div>{''.join(pieces)}</div>"
    inside = [place for place in places if part.start <= place[0] < part.end]
    found = ""
    if inside:
        pieces_around = _surroundings(text, inside[0], content_of(part, inside[0]))
        before, hit, after = map(safe_text, pieces_around)
        found = f" · <span>{before}<mark>{hit}</mark>{after}</span>"
    summary = f"{safe_text(part.name)} · {_size(part.finish - part.begin)}{found}"
    return f"<details{' open' if inside else ''}><summary>{summary}</summary>{''.join(pieces)}</details>"


def _content_html(text: str, part: Part, style: TextStyle, places: Sequence[Place]) -> str:
    """Return the content of a part. If a place is far from its beginning, what comes before is folded."""
    first = next((start for start, _ in places if part.begin <= start < part.finish), part.begin)
    cut = max(text.rfind("\n", part.begin, first) + 1, first - _MAX_BEFORE, part.begin)
    if cut - part.begin <= _MAX_BEFORE:
        return _marked(text, part.begin, part.finish, style, places)
    before = _marked(text, part.begin, cut, style, places)
    size = tr("{size} before", size=_size(cut - part.begin))
    marked = _marked(text, cut, part.finish, style, places)
    return f"<details><summary>{size}</summary>{before}</details>{marked}"


def _markup(text: str, start: int, end: int, places: Sequence[Place] = ()) -> str:
    """Return markup of a template as HTML, exactly as it was logged."""
    return (
        f'<span class="markup">{_marked(text, start, end, TextStyle(), places)}</span>' if end > start else ""
    )


def _marked(text: str, start: int, end: int, style: TextStyle, places: Sequence[Place]) -> str:
    """Return a part of a text as HTML with the found places in it marked, as far as they are in it."""
    inside = [(max(one, start), min(two, end)) for one, two in places if one < end and two > start]
    cuts = [start, *(cut for place in inside for cut in place), end]
    pieces = (safe_text(without_pad(text[one:two], style)) for one, two in pairwise(cuts))
    return "".join(
        f"<mark>{piece}</mark>" if number % 2 else piece for number, piece in enumerate(pieces) if piece
    )


def _surroundings(text: str, place: Place, around: Place) -> Iterator[str]:
    """Yield what stands before a place, the place, and what stands after it, as pieces of one line.

    Parameters
    ----------
    around : Place
        What may be shown.
    """
    start, end = place
    first, last = max(start - BEFORE, around[0]), min(end + _AFTER, max(around[1], end))
    yield f"{'…' if first > around[0] else ''}{spaced(text[first:start])}"
    yield spaced(text[start : min(end, start + LINE_CHARS)])
    yield f"{spaced(text[end:last])}{'…' if last < around[1] else ''}"


def _size(chars: int) -> str:
    return f"{chars:,} character{'s' if chars != 1 else ''}"


def text_pane(css_class: str) -> Html:
    """An empty pane in the style of a sample's texts."""
    return Html(
        stylesheets=[theme.CSS, read_assets("panels/texts/prompt.css", "panels/texts/sample_text.css")],
        sizing_mode="stretch_width",
        margin=(8, 14, 4, 14),
        css_classes=[css_class],
    )


def prompt_block(sample: Sample | None, style: TextStyle, tests: Sequence[TextPredicate] = ()) -> str:
    """The prompt as one line that opens; empty where no prompt is logged.

    Parameters
    ----------
    tests : sequence of TextPredicate
        Conditions on texts. If they find something in the prompt, it is open and shows the place.
    """
    if sample is None or sample.prompt is None:
        return ""
    text = sample.prompt
    places = PlaceFinder(tests).places("prompt", text)
    line = one_line(prompt_cell(text, style, places))
    return (
        f'<details class="prompt"{" open" if places else ""}><summary><span class="caption">Prompt</span>'
        f"<span>{safe_text(line)}</span></summary>"
        f'<div class="parts">{prompt_html(text, style, places)}</div></details>'
    )


def extra_html(sample: Sample) -> str:
    """The keys of the sample's line that rlpanel gives no meaning, as plain text."""
    if not sample.extra:
        return ""
    rows = "".join(
        f"<tr><td>{safe_text(key)}</td><td>{safe_text(_brief(value))}</td></tr>"
        for key, value in sample.extra.items()
    )
    summary = tr("{extra} further keys of the line", extra=len(sample.extra))
    return f'<details class="extra"><summary>{summary}</summary><table>{rows}</table></details>'


def _brief(value: object) -> str:
    try:
        return str(value)[:2000]
    except RecursionError:
        return tr("nested too deeply to be shown")
