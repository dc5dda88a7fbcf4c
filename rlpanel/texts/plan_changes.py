"""Turns in which an agent begins a new plan, by its words or by its tools: an estimate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

#: Earlier turns with calls, whose tools the turn's tools are compared with.
TURNS_BEFORE = 3
#: Characters of a turn that are looked through for markers.
MAX_CHARACTERS = 20_000
#: Words that begin a new plan where they begin a sentence or a line.
_MARKERS = (
    r"wait\b|actually\b|alternatively\b|instead,|on second thoughts?\b|new plan\b|plan b\b|change of plan\b"
    r"|(?:let me|let's|i(?:'ll| will| should)) (?:instead|rethink|reconsider|start over|step back"
    r"|(?:try|use|take) (?:a different|another|something else))"
    r"|(?:a different|another) approach\b|(?:that|this|it) (?:did not|didn't|does not|doesn't) work\b"
    r"|等等|等一下|不对|换(?:一种|一个|个)|重新"
)
_NEW_PLAN = re.compile(
    rf"(?:^|[.!?:\n。！？]\s*)(?:hmm,?\s+|but\s+|so\s+|okay,?\s+|no,\s+)?({_MARKERS})", re.IGNORECASE
)


class PlanChange(NamedTuple):
    """Why a turn counts as a new plan.

    Attributes
    ----------
    kind : str
        ``words`` or ``tools``.
    evidence : str
        The words as they stand in the turn, or the tools of the turn.
    """

    kind: str
    evidence: str


def plan_changes(turns: Sequence[tuple[str, Sequence[str]]]) -> list[PlanChange | None]:
    """Return for each turn of the policy why it begins a new plan; None where it does not.

    A turn begins a new plan if a sentence of it begins with a marker, such as *Wait*, *Actually* or *Let me
    try another*; or if it calls tools, and none of those that the three turns with calls before it called.
    The first turn has nothing before it.

    Parameters
    ----------
    turns : sequence of (str, sequence of str)
        Words of each turn, and the names of the tools that it calls.
    """
    found: list[PlanChange | None] = []
    before: list[frozenset[str]] = []
    for at, (words, tools) in enumerate(turns):
        change = None
        marker = _NEW_PLAN.search(words, 0, MAX_CHARACTERS) if at else None
        if marker is not None:
            change = PlanChange("words", marker[1])
        elif tools and len(before) >= TURNS_BEFORE and not frozenset().union(*before) & {*tools}:
            change = PlanChange("tools", ", ".join(dict.fromkeys(tools)))
        if tools:
            before = [*before, frozenset(tools)][-TURNS_BEFORE:]
        found.append(change)
    return found
