"""Divides a prompt into parts: padding, system prompt, turns, and the beginning that other prompts share.

The parts follow one another without gaps, so the logged text is never changed. One of them is the question:
the last turn of the user, or the rest of a plain prompt. It is what tables show.

Padding is found at the start and at the end of a text. Inside a text such tokens are content: a placeholder
of an image, or a token that the policy sampled. A single token that ends a sequence is information as well,
because it says that the response was not cut off.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rlpanel.texts.chat_templates import Turn, turns_of
from rlpanel.texts.shorten import LINE_CHARS, first_line, spaced

#: Minimum number of characters of a shared beginning; a shorter one is not worth a click.
MIN_CHARS = 80
#: The same where nothing is clicked: a narrow cell shows no more of a prompt than this.
MIN_IN_CELLS = 20
#: Minimum number and share of different prompts with the same beginning.
MIN_PROMPTS, MIN_SHARE = 3, 0.25
#: Ends of a sentence.
_ENDS = (". ", "。", "? ", "! ", ": ")


def shared_beginnings(prompts: Sequence[str], least_chars: int = MIN_CHARS) -> tuple[str, ...]:
    """Return the long beginnings that many of these prompts share, each up to the end of a line or sentence.

    Prompts are compared with those that agree in the first ``least_chars`` characters. So a run on several
    data sets has several beginnings, and one odd prompt does not hide the others' beginning.
    """
    distinct = dict.fromkeys(prompts)
    alike: dict[str, list[str]] = {}
    for prompt in distinct:
        alike.setdefault(prompt[:least_chars], []).append(prompt)
    least = max(MIN_PROMPTS, MIN_SHARE * len(distinct))
    common = [os.path.commonprefix(same) for same in alike.values() if len(same) >= least]  # noqa: RUF071
    found = (_cut(text, least_chars) for text in common)
    return tuple(beginning for beginning in found if len(beginning) >= least_chars)


def _cut(text: str, least_chars: int) -> str:
    """Return a text up to the end of its last line or, if too short, of its last sentence."""
    line = text.rfind("\n") + 1
    if line >= least_chars:
        return text[:line]
    return text[: max(text.rfind(end) + len(end) if end in text else 0 for end in _ENDS)]


#: Tokens that only pad.
PADS = (
    *("<|pad|>", "<pad>", "<PAD>", "[PAD]", "<|pad_token|>", "<|PAD_TOKEN|>", "<|padding|>"),
    *("<|finetune_right_pad_id|>", "<｜▁pad▁｜>"),
)
#: Tokens that end a sequence, with which many trainers also pad.
ENDS = (
    *("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "<|im_end|>", "<|eot_id|>"),
    *("<｜end▁of▁sentence｜>", "<end_of_turn>", "<|return|>", "[EOS]"),
)
#: Those of them that trainers also write before a prompt.
_LEADING = ("<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>")
#: Characters near an end of a text that are looked at first; a token with its whitespace is shorter.
_NEAR = 64


def unpadded(text: str, pad_token: str = "", *, common: bool = True) -> tuple[int, int]:
    """Return where a text starts and ends without its padding.

    Parameters
    ----------
    pad_token : str
        A further padding token; empty for none.
    common : bool
        Whether tokens that commonly pad are recognised too: `PADS`, and repeated `ENDS`.
    """
    pads = tuple(dict.fromkeys((*((pad_token,) if pad_token else ()), *(PADS if common else ()))))
    ends = tuple(end for end in ENDS if end != pad_token) if common else ()
    leads = (*pads, *(end for end in _LEADING if end in ends))
    start = _length(leads, text)
    if start == len(text):  # a response may be nothing but the token that ended it
        start = 0
    tokens = (*pads, *ends)
    edge = text[-_NEAR:].rstrip()[-1:]
    if edge and all(token[-1] != edge for token in tokens):  # most texts; spares reversing them
        return start, len(text)
    end = len(text) - _length(tokens, text[start:][::-1], backward=True)
    return start, end + _kept_length(text, end, ends)


def _length(tokens: tuple[str, ...], text: str, *, backward: bool = False) -> int:
    """Return the length of the run of tokens at the beginning of a text."""
    run = _run(tokens, backward=backward).match(text)
    return run.end() if run else 0


def _kept_length(text: str, end: int, ends: tuple[str, ...]) -> int:
    """Return how much of the padding that begins at ``end`` is kept: the token that ended the sequence."""
    near = text[end : end + _NEAR]
    space = len(near) - len(near.lstrip())
    return next((space + len(token) for token in ends if near.startswith(token, space)), 0)


@lru_cache(64)
def _run(tokens: tuple[str, ...], *, backward: bool) -> re.Pattern[str]:
    """Return the pattern of a run of tokens with whitespace before each; backward, it reads a reversed text.

    It is only matched at the outer end of a text, so a text is read once, whatever is in it.
    """
    either = "|".join(re.escape(token[::-1] if backward else token) for token in tokens)
    return re.compile(rf"(?:\s*(?:{either}))+" if tokens else "")


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
