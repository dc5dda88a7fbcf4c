"""Whether a response repeats a long part of its prompt."""

from __future__ import annotations

from collections.abc import Sequence
from operator import contains

import numpy as np

from rlpanel.metrics.engine.text_batch import empty_for_none, missing, text_lengths
from rlpanel.metrics.special_tokens import last_between_special_tokens

#: Prompts with fewer characters are too short to tell.
SHORTEST = 32
#: Least and greatest length of the second half of a prompt, in characters.
LEAST, MOST = 64, 256
#: A longer prompt is not searched for special tokens before its last characters.
_SEARCHED = 4 * MOST


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
    half_of = {prompt: _second_half(prompt) for prompt in set(asked)}  # the samples of a group share a prompt
    halves = list(map(half_of.__getitem__, asked))
    contained = np.fromiter(map(contains, texts, halves), np.bool_, len(texts))
    # Every text contains the empty one, which is the half of a prompt without a long part.
    echoes = contained & (text_lengths(halves) > 0) & (text_lengths(texts) >= SHORTEST)
    return np.where(missing(responses) | (text_lengths(asked) < SHORTEST), np.nan, echoes)


def _second_half(prompt: str) -> str:
    """Return the second half of the end of a prompt; empty if it is too short."""
    text = last_between_special_tokens(prompt[-_SEARCHED:], SHORTEST)
    return text[-min(max(len(text) // 2, LEAST), MOST) :]
