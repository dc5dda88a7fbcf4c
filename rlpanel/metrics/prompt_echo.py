"""Detects that a response repeats a long part of its prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import compress
from operator import contains, itemgetter

import numpy as np

from rlpanel.metrics.engine.ragged import empty_for_none, missing, text_lengths
from rlpanel.metrics.special_tokens import last_between_special_tokens

#: Prompts with fewer characters are too short: an equal text may be chance.
SHORTEST = 32
#: Least and greatest length of the second half of a prompt, in characters.
LEAST, MOST = 64, 256
#: A longer prompt is not searched for special tokens before its last characters.
_SEARCHED = 4 * MOST
#: Characters that are rare in texts about mathematics and code, and others that are not common.
_RARE, _UNCOMMON = re.compile("[~Z?QXJKU@VYq!&;Gjz%#]"), re.compile("[^ a-y,.]")


def prompt_echoes(prompts: Sequence[str | None], responses: Sequence[str | None]) -> np.ndarray:
    """Return 1 for responses that contain the second half of their prompt verbatim, 0 for others.

    Of a prompt with special tokens, this is the last text between them, such as the user's turn. The half
    is at least 64 characters long, or the whole prompt, and at most 256. So a response that repeats only
    the last sentence of a question does not count.

    Parameters
    ----------
    prompts, responses : sequences of str or None, length N

    Returns
    -------
    ndarray of float, shape (N,)
        NaN if a text is missing, or if the prompt has fewer than 32 characters.
    """
    asked, texts = empty_for_none(prompts), empty_for_none(responses)
    tells = text_lengths(asked) >= SHORTEST
    rows = np.flatnonzero(tells & (text_lengths(texts) >= SHORTEST)).tolist()
    # The samples of a group share a prompt.
    sought = {prompt: _sought(prompt[-_SEARCHED:]) for prompt in dict.fromkeys(map(asked.__getitem__, rows))}
    pairs = [sought[asked[row]] for row in rows]
    # A single character is found ten times as fast as a long text, and most responses lack a rare one.
    maybe = map(contains, map(texts.__getitem__, rows), map(itemgetter(1), pairs))
    echoes = np.zeros(len(texts))
    for row, (half, _) in compress(zip(rows, pairs, strict=True), maybe):
        echoes[row] = half != "" and half in texts[row]
    echoes[missing(responses) | ~tells] = np.nan
    return echoes


@lru_cache(maxsize=1024)
def _sought(prompt: str) -> tuple[str, str]:
    """Return the end of a prompt, empty if the prompt is short, and a rare character of that end."""
    text = last_between_special_tokens(prompt, SHORTEST)
    half = text[-min(max(len(text) // 2, LEAST), MOST) :]
    if not half.isascii():
        return half, max(half)
    rare = _RARE.search(half) or _UNCOMMON.search(half)
    return half, rare[0] if rare else half[:1]
