"""Finds padding tokens at the start and at the end of a text.

Inside a text they are content: a placeholder of an image, or a token that the policy sampled. A single token
that ends a sequence is information as well, because it says that the response was not cut off.
"""

from __future__ import annotations

import re
from functools import lru_cache

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
