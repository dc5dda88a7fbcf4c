"""Texts of a log as lines, cells and HTML: without padding, with the parts around the question folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from rlpanel.panels.texts.padding import unpadded
from rlpanel.panels.texts.prompt_parts import PADDING, SHARED, SYSTEM, Part, TextStyle, parts_of
from rlpanel.panels.ui.theme import safe_text

#: Maximum characters of a text in one line; no screen shows more.
LINE_CHARS = 600
#: Characters shown before and after a found place.
_BEFORE, _AFTER = 16, 60
#: Characters that may stand before a found place without being folded: some lines.
_MOST_BEFORE = 300
#: Parts that are never put into a fold with others, and the number of turns that need none.
_OF_THEIR_OWN, _FEW_TURNS = (PADDING, SHARED, SYSTEM, "system", "developer"), 2
#: Characters that a narrow column shows.
_COLUMN = 16

#: Start and end of a found place, as characters of a text.
Place = tuple[int, int]


def clean(text: str, style: TextStyle) -> str:
    """Return a response or another answer without padding."""
    start, end = unpadded(text, style.pad_token, common=style.fold)
    return _without_pad(text[start:end], style)


def without_system(text: str, style: TextStyle) -> str:
    """Return a prompt without padding, and without the system prompt if its end marker is set."""
    shown = clean(text, style)
    _, marker, rest = shown.partition(style.system_end) if style.system_end else ("", "", "")
    return rest.lstrip("\n") if marker else shown


def one_line(text: str) -> str:
    """Return the beginning of a text as one line; the page cuts it off where its space ends."""
    return " ".join(text[:LINE_CHARS].split())


def first_line(text: str, most: int = 300) -> str:
    """Return the first line that is not empty, cut to ``most`` characters; a dash if there is none."""
    lines = text.strip().splitlines()
    return lines[0][:most] if lines else "–"


def prompt_line(text: str | None, style: TextStyle) -> str:
    """Return the first line of a prompt's question; a dash if there is none."""
    return first_line(prompt_cell(text or "", style))


def prompt_cell(text: str, style: TextStyle, places: Sequence[Place] = ()) -> str:
    """Return what a table shows of a prompt: its question, or the surroundings of a found place.

    Parameters
    ----------
    places : sequence of Place
        Places of the prompt that a search found. A place that is seen anyway changes nothing.
    """
    parts = parts_of(text, style)
    asked = next(part for part in parts if part.question)
    shown = _without_pad(text[asked.begin : asked.finish], style).strip()
    inside = [place for place in places if asked.begin <= place[0] < asked.finish]
    for place in (inside or places)[:1]:
        part = next((part for part in parts if part.start <= place[0] < part.end), asked)
        return _found_cell(text, shown, place, _content(part, place))
    return shown


def answer_cell(text: str, style: TextStyle, places: Sequence[Place] = ()) -> str:
    """Return what a table shows of a response or another answer, as `prompt_cell` does of a prompt."""
    shown = clean(text, style)
    return _found_cell(text, shown, places[0], (0, len(text))) if places else shown


def _found_cell(text: str, shown: str, place: Place, around: Place) -> str:
    found = text[slice(*place)]
    at = shown.find(found)
    if at == 0 or 0 < at <= _COLUMN - len(found):
        return shown
    # A narrow column shows little more than the place, so the line begins with the word in which it begins.
    before = text[max(place[0] - _BEFORE, around[0]) : place[0]]
    begun = before.split()[-1] if before and not before[-1].isspace() else ""
    first = place[0] - (len(begun) if len(begun) < _BEFORE else 0)
    cut = "…" if first > around[0] else ""
    return f"{cut}{_spaced(text[first : min(place[1] + LINE_CHARS, max(around[1], place[1]))])}"


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
    summary = f"{len(turns)} earlier turns · {_size(sum(turn.finish - turn.begin for turn in turns))}"
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
        pieces_around = _surroundings(text, inside[0], _content(part, inside[0]))
        before, hit, after = map(safe_text, pieces_around)
        found = f" · <span>{before}<mark>{hit}</mark>{after}</span>"
    summary = f"{safe_text(part.name)} · {_size(part.finish - part.begin)}{found}"
    return f"<details{' open' if inside else ''}><summary>{summary}</summary>{''.join(pieces)}</details>"


def _content_html(text: str, part: Part, style: TextStyle, places: Sequence[Place]) -> str:
    """Return the content of a part. If a place is far from its beginning, what comes before is folded."""
    first = next((start for start, _ in places if part.begin <= start < part.finish), part.begin)
    cut = max(text.rfind("\n", part.begin, first) + 1, first - _MOST_BEFORE, part.begin)
    if cut - part.begin <= _MOST_BEFORE:
        return _marked(text, part.begin, part.finish, style, places)
    before = _marked(text, part.begin, cut, style, places)
    return (
        f"<details><summary>{_size(cut - part.begin)} before</summary>{before}</details>"
        f"{_marked(text, cut, part.finish, style, places)}"
    )


def _markup(text: str, start: int, end: int, places: Sequence[Place] = ()) -> str:
    """Return markup of a template as HTML, exactly as it was logged."""
    return (
        f'<span class="markup">{_marked(text, start, end, TextStyle(), places)}</span>' if end > start else ""
    )


def _marked(text: str, start: int, end: int, style: TextStyle, places: Sequence[Place]) -> str:
    """Return a part of a text as HTML with the found places in it marked, as far as they are in it."""
    inside = [(max(one, start), min(two, end)) for one, two in places if one < end and two > start]
    cuts = [start, *(cut for place in inside for cut in place), end]
    pieces = (safe_text(_without_pad(text[one:two], style)) for one, two in pairwise(cuts))
    return "".join(
        f"<mark>{piece}</mark>" if number % 2 else piece for number, piece in enumerate(pieces) if piece
    )


def _content(part: Part, place: Place) -> Place:
    """Return the content of a part, or the whole part if the place is in its markup."""
    is_inside = part.begin <= place[0] and place[1] <= part.finish
    return (part.begin, part.finish) if is_inside else (part.start, part.end)


def _surroundings(text: str, place: Place, around: Place) -> Iterator[str]:
    """Yield what stands before a place, the place, and what stands after it, as pieces of one line.

    Parameters
    ----------
    around : Place
        What may be shown.
    """
    start, end = place
    first, last = max(start - _BEFORE, around[0]), min(end + _AFTER, max(around[1], end))
    yield f"{'…' if first > around[0] else ''}{_spaced(text[first:start])}"
    yield _spaced(text[start : min(end, start + LINE_CHARS)])
    yield f"{_spaced(text[end:last])}{'…' if last < around[1] else ''}"


def _size(chars: int) -> str:
    return f"{chars:,} character{'s' if chars != 1 else ''}"


def _spaced(text: str) -> str:
    """Return a piece of a line: each run of whitespace, also at its ends, as one space."""
    words = " ".join(text.split())
    return f"{' ' if text[:1].isspace() else ''}{words}{' ' if words and text[-1:].isspace() else ''}"


def _without_pad(text: str, style: TextStyle) -> str:
    return text.replace(style.pad_token, "") if style.pad_token else text
