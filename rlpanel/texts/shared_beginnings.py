"""Finds beginnings that many prompts share: instructions that a trainer puts before each question."""

from __future__ import annotations

import os
from collections.abc import Sequence

#: Minimum number of characters of a shared beginning; a shorter one is not worth a click.
LEAST_CHARS = 80
#: Minimum number and share of different prompts with the same beginning.
LEAST_PROMPTS, LEAST_SHARE = 3, 0.25
#: Ends of a sentence.
_ENDS = (". ", "。", "? ", "! ", ": ")


def shared_beginnings(prompts: Sequence[str]) -> tuple[str, ...]:
    """Return the long beginnings that many of these prompts share, each up to the end of a line or sentence.

    Prompts are compared with those that agree in the first `LEAST_CHARS` characters. So a run on several data
    sets has several beginnings, and one odd prompt does not hide the others' beginning.
    """
    distinct = dict.fromkeys(prompts)
    alike: dict[str, list[str]] = {}
    for prompt in distinct:
        alike.setdefault(prompt[:LEAST_CHARS], []).append(prompt)
    least = max(LEAST_PROMPTS, LEAST_SHARE * len(distinct))
    common = [os.path.commonprefix(same) for same in alike.values() if len(same) >= least]  # noqa: RUF071
    found = map(_cut, common)
    return tuple(beginning for beginning in found if len(beginning) >= LEAST_CHARS)


def _cut(text: str) -> str:
    """Return a text up to the end of its last line or, if too short, of its last sentence."""
    line = text.rfind("\n") + 1
    if line >= LEAST_CHARS:
        return text[:line]
    return text[: max(text.rfind(end) + len(end) if end in text else 0 for end in _ENDS)]
