"""Finds beginnings that many prompts share: instructions that a trainer puts before each question."""

from __future__ import annotations

import os
from collections.abc import Sequence

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
