"""Texts of a log as lines, cells and HTML: without padding, with the parts around the question folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rlpanel.panels.texts.padding import unpadded
from rlpanel.panels.texts.prompt_parts import PADDING, Part, TextStyle, parts_of
from rlpanel.panels.ui.theme import safe_text

#: Maximum characters of a text in one line; no screen shows more.
LINE_CHARS = 600
#: Characters shown before and after a found place.
_BEFORE, _AFTER = 16, 120

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
    at = shown.find(text[slice(*place)])
    return shown if 0 <= at <= _BEFORE else "".join(_surroundings(text, place, around))


def answer_html(text: str, style: TextStyle, places: Sequence[Place] = ()) -> str:
    """Return a response or another answer as HTML, without padding and with the found places marked."""
    start, end = unpadded(text, style.pad_token, common=style.fold)
    return _marked(text, start, end, style, places)


def prompt_html(text: str, style: TextStyle, places: Sequence[Place] = ()) -> str:
    """Return a prompt as HTML: the question and what the response continues open, the rest folded.

    A folded part with a found place is open, and its summary shows the place. Except for tokens that the
    settings remove, the HTML contains the prompt as it was logged.
    """
    return "".join(_part_html(text, part, style, places) for part in parts_of(text, style))


def _part_html(text: str, part: Part, style: TextStyle, places: Sequence[Place]) -> str:
    pieces = (
        _markup(text, part.start, part.begin, places),
        _marked(text, part.begin, part.finish, style, places),
        _markup(text, part.finish, part.end, places),
    )
    if part.name == PADDING:
        summary = f"{part.name} · {part.end - part.start:,} characters"
        return f"<details><summary>{summary}</summary>{_markup(text, part.start, part.end)}</details>"
    if not part.folded:
        return f"<div>{''.join(pieces)}</div>"
    inside = [place for place in places if part.start <= place[0] < part.end]
    found = ""
    if inside:
        pieces_around = _surroundings(text, inside[0], _content(part, inside[0]))
        before, hit, after = map(safe_text, pieces_around)
        found = f" · <span>{before}<mark>{hit}</mark>{after}</span>"
    count = f"{part.finish - part.begin:,} characters"
    return (
        f"<details{' open' if inside else ''}><summary>{safe_text(part.name)} · {count}{found}</summary>"
        f"{''.join(pieces)}</details>"
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


def _spaced(text: str) -> str:
    """Return a piece of a line: each run of whitespace, also at its ends, as one space."""
    words = " ".join(text.split())
    return f"{' ' if text[:1].isspace() else ''}{words}{' ' if words and text[-1:].isspace() else ''}"


def _without_pad(text: str, style: TextStyle) -> str:
    return text.replace(style.pad_token, "") if style.pad_token else text
