"""Recognises conversations without special tokens: roles on lines of their own, or as labels (``User:``).

Words such as ``user`` also occur in ordinary texts. So a text counts as a conversation only if it asks the
assistant for the next turn at its end, and user and assistant take turns before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rlpanel.texts.turn import Turn, normal_role

#: Maximum number of characters of the assistant's last turn, which the response continues: ``<think>`` or
#: "Let me solve this step by step."
_MAX_BEGUN = 200

_NAMES = "system|developer|user|assistant|model|tool|ipython"
_SPACE = r"[ \t]{0,4}"


@dataclass(frozen=True)
class _Style:
    """A way to write turns: the header's pattern, and where a header may stand.

    Attributes
    ----------
    ends : tuple of str
        Names of the assistant's header, one of which must stand near the end.
    anywhere : bool
        Whether a header may follow the last character of the turn before, though not a space.
    inline : bool
        Whether a header may follow a sentence and a space.
    whole : bool
        Whether the text must begin with a header; otherwise what comes first is a system prompt.
    """

    header: re.Pattern[str]
    ends: tuple[str, ...]
    anywhere: bool = False
    inline: bool = False
    whole: bool = False

    def may_stand(self, text: str, at: int) -> bool:
        before = text[max(at - 2, 0) : at]
        if not before or before[-1] == "\n":
            return True
        if self.anywhere:
            return not before[-1].isspace()
        return self.inline and before[-1] == " " and before[0] in ".!?>。"


STYLES = (
    # ChatML and Gemma, decoded without special tokens.
    _Style(re.compile(rf"(?P<role>{_NAMES}){_SPACE}(?:\n|\Z)"), ("assistant", "model"), whole=True),
    # Llama 3, decoded without special tokens.
    _Style(re.compile(rf"(?P<role>{_NAMES})\n\n"), ("assistant",), anywhere=True, whole=True),
    # Anthropic's HH, TinyZero, R1-Zero, Vicuna.
    _Style(
        re.compile(rf"(?P<role>Human|User|USER|Assistant|ASSISTANT):{_SPACE}\n?"),
        ("Assistant:", "ASSISTANT:"),
        inline=True,
    ),
    _Style(
        re.compile(rf"(?P<role>Question|Problem|Answer|Solution|Q|A):{_SPACE}\n?"),
        ("Answer:", "Solution:", "A:"),
    ),
    # Alpaca.
    _Style(
        re.compile(rf"(?P<role>### (?:Instruction|Human|User|Response|Assistant)):{_SPACE}\n?"),
        ("### Response:", "### Assistant:"),
    ),
)


def turns_of(text: str, start: int) -> list[Turn]:
    """Return the turns of a conversation without special tokens; empty if the text is none.

    Parameters
    ----------
    start : int
        Position of the first character after tokens that begin a sequence.
    """
    tail = text.rstrip()[-_MAX_BEGUN - 40 :]
    for style in STYLES:
        if any(name in tail for name in style.ends):
            turns = list(_turns(style, text, start))
            if _is_conversation(turns, text) and not (style.whole and turns[0].lead):
                return turns
    return []


def _turns(style: _Style, text: str, start: int) -> Iterator[Turn]:
    found = style.header.finditer(text, start)
    headers = [header for header in found if style.may_stand(text, header.start())]
    if not headers:
        return
    first = headers[0].start()
    if first > start:
        yield Turn("system", 0, start, first, first, lead=True)
    bounds = [*(header.start() for header in headers[1:]), len(text)]
    for number, (header, end) in enumerate(zip(headers, bounds, strict=True)):
        begun = 0 if number == 0 and first <= start else header.start()
        finish = header.end() + len(text[header.end() : end].rstrip())
        yield Turn(normal_role(header["role"]), begun, header.end(), finish, end)


def _is_conversation(turns: list[Turn], text: str) -> bool:
    """Return whether the assistant's turn is asked for, and nobody has two turns in a row."""
    roles = [turn.role for turn in turns]
    if "user" not in roles or roles[-1] != "assistant":
        return False
    if len(text[turns[-1].begin :].strip()) > _MAX_BEGUN:
        return False
    speakers = all(one != other for one, other in pairwise(roles) if one in ("user", "assistant"))
    return speakers and not {"system", "developer"} & {*roles[roles.index("user") :]}
