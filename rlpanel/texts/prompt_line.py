"""Texts of a log as lines and cells: without padding, with the question or a found place in view."""

from __future__ import annotations

from collections.abc import Sequence

from rlpanel.texts.padding import unpadded
from rlpanel.texts.prompt_parts import Part, TextStyle, parts_of
from rlpanel.texts.shorten import LINE_CHARS, first_line, spaced

#: Characters shown before a found place.
BEFORE = 16
#: Characters that a narrow column shows.
_COLUMN = 16

#: Start and end of a found place, as characters of a text.
Place = tuple[int, int]


def clean(text: str, style: TextStyle) -> str:
    """Return a response or another answer without padding."""
    start, end = unpadded(text, style.pad_token, common=style.fold)
    return without_pad(text[start:end], style)


def without_system(text: str, style: TextStyle) -> str:
    """Return a prompt without padding, and without the system prompt if its end marker is set."""
    shown = clean(text, style)
    _, marker, rest = shown.partition(style.system_end) if style.system_end else ("", "", "")
    return rest.lstrip("\n") if marker else shown


def prompt_line(text: str | None, style: TextStyle) -> str:
    """Return the first line of a prompt's question; a dash if there is none."""
    return first_line(prompt_cell(text or "", style))


def prompt_cell(text: str, style: TextStyle, places: Sequence[Place] = (), *, narrow: bool = False) -> str:
    """Return what a table shows of a prompt: its question, or the surroundings of a found place.

    Parameters
    ----------
    places : sequence of Place
        Places of the prompt that a search found. A place that is seen anyway changes nothing.
    narrow : bool
        Whether a short beginning that prompts share is left out as well.
    """
    parts = parts_of(text, style)
    asked = next(part for part in parts if part.question)
    shown = without_pad(text[asked.begin : asked.finish], style).strip()
    if narrow:
        shown = _without_beginning(shown, style)
    inside = [place for place in places if asked.begin <= place[0] < asked.finish]
    for place in (inside or places)[:1]:
        part = next((part for part in parts if part.start <= place[0] < part.end), asked)
        return _found_cell(text, shown, place, content_of(part, place))
    return shown


def _without_beginning(shown: str, style: TextStyle) -> str:
    """Return a question without the beginning that it shares with other prompts, if something is left."""
    shared = max((len(each) for each in style.cell_beginnings if shown.startswith(each)), default=0)
    rest = shown[shared:].strip()
    return f"…{rest}" if shared and rest else shown


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
    before = text[max(place[0] - BEFORE, around[0]) : place[0]]
    begun = before.split()[-1] if before and not before[-1].isspace() else ""
    first = place[0] - (len(begun) if len(begun) < BEFORE else 0)
    cut = "…" if first > around[0] else ""
    return f"{cut}{spaced(text[first : min(place[1] + LINE_CHARS, max(around[1], place[1]))])}"


def content_of(part: Part, place: Place) -> Place:
    """Return the content of a part, or the whole part if the place is in its markup."""
    is_inside = part.begin <= place[0] and place[1] <= part.finish
    return (part.begin, part.finish) if is_inside else (part.start, part.end)


def without_pad(text: str, style: TextStyle) -> str:
    """Return a text without the pad token that the settings name."""
    return text.replace(style.pad_token, "") if style.pad_token else text
