"""Divides a prompt into parts: padding, system prompt, turns, and the beginning that other prompts share.

The parts follow one another without gaps, so the logged text is never changed. One of them is the question:
the last turn of the user, or the rest of a plain prompt. It is what tables show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rlpanel.texts.chat_templates import turns_of
from rlpanel.texts.padding import unpadded
from rlpanel.texts.turn import Turn

#: Maximum number of turns that are shown as parts of their own; the turns before them are one part.
MAX_TURNS = 100
PADDING, SHARED, SYSTEM, EARLIER = "padding", "shared beginning", "system prompt", "earlier turns"


@dataclass(frozen=True)
class TextStyle:
    """How prompts and responses are shown.

    Attributes
    ----------
    pad_token : str
        Token that is removed from all texts; empty for none.
    system_end : str
        Marker at the end of the system prompt; a prompt with it is divided there and nowhere else.
    fold : bool
        Whether chat templates, common padding tokens and shared beginnings are recognised.
    beginnings : tuple of str
        Long beginnings that many prompts of the run share; they are folded.
    cell_beginnings : tuple of str
        All such beginnings, also short ones; cells of a table leave them out.
    """

    pad_token: str = ""
    system_end: str = ""
    fold: bool = True
    beginnings: tuple[str, ...] = ()
    cell_beginnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """A part of a prompt. All positions are characters of the prompt.

    Attributes
    ----------
    name : str
        Role of the turn, or one of this module's constants; empty for the rest of a plain prompt.
    start, end : int
        The part with its markup.
    begin, finish : int
        Its content without markup.
    folded : bool
    question : bool
        Whether it is what tables show.
    """

    name: str
    start: int
    begin: int
    finish: int
    end: int
    folded: bool = True
    question: bool = False


def parts_of(text: str, style: TextStyle) -> list[Part]:
    """Return the parts of a prompt, from its first to its last character."""
    start, end = unpadded(text, style.pad_token, common=style.fold)
    before = [Part(PADDING, 0, 0, start, start)] if start else []
    after = [Part(PADDING, end, end, len(text), len(text))] if end < len(text) else []
    return [*before, *_inner(text, start, end, style), *after]


def question_of(text: str, style: TextStyle) -> str:
    """Return what tables show of a prompt."""
    part = next(part for part in parts_of(text, style) if part.question)
    shown = text[part.begin : part.finish]
    return shown.replace(style.pad_token, "") if style.pad_token else shown


def _inner(text: str, start: int, end: int, style: TextStyle) -> Iterator[Part]:
    """Yield the parts between the padding."""
    if style.system_end:
        head, marker, rest = text[start:end].partition(style.system_end)
        cut = end - len(rest.lstrip("\n")) if marker else start
        if marker:
            yield Part(SYSTEM, start, start, start + len(head), cut)
            yield Part("", cut, cut, end, end, folded=False, question=True)
            return
    turns = turns_of(text[start:end]) if style.fold else []
    if not turns:
        yield from _question(Part("", start, start, end, end), text, style)
        return
    question = _last_question(turns, text[start:end])
    if len(turns) > MAX_TURNS:
        cut = min(len(turns) - MAX_TURNS, question)
        yield Part(EARLIER, start, start, start + turns[cut].start, start + turns[cut].start)
        turns, question = turns[cut:], question - cut
    for number, turn in enumerate(turns):
        first, begin, finish, last = (start + at for at in (turn.start, turn.begin, turn.finish, turn.end))
        part = Part(turn.role, first, begin, finish, last)
        if number == question:
            yield from _question(part, text, style)
        else:
            yield Part(*_fields(part), folded=number < len(turns) - 1)


def _last_question(turns: list[Turn], text: str) -> int:
    """Return the position of the user's last turn that is not empty, else of the last one that is not."""
    full = [number for number, turn in enumerate(turns) if text[turn.begin : turn.finish].strip()]
    asked = [number for number in full if turns[number].role == "user"]
    return (asked or full or [len(turns) - 1])[-1]


def _question(part: Part, text: str, style: TextStyle) -> Iterator[Part]:
    """Yield the question, after the beginning that it shares with other prompts."""
    shared = max(
        (len(each) for each in style.beginnings if style.fold and text.startswith(each, part.begin)),
        default=0,
    )
    cut = part.begin + shared
    if shared and text[cut : part.finish].strip():
        yield Part(SHARED, part.start, part.begin, cut, cut)
        yield Part(part.name, cut, cut, part.finish, part.end, folded=False, question=True)
    else:
        yield Part(*_fields(part), folded=False, question=True)


def _fields(part: Part) -> tuple[str, int, int, int, int]:
    return part.name, part.start, part.begin, part.finish, part.end
