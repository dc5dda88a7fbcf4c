"""The text of each token, so that the pieces of a response put together are its text."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

Decode = Callable[[Sequence[int]], str]

_UNFINISHED = "\ufffd"


def token_texts(decode: Decode, ids: Sequence[int]) -> list[str]:
    """One text a token; ``""`` where a token ends inside a character, which its last token then carries.

    A token's text depends on its neighbours, so each is decoded behind the piece before it: two short
    decodes a token, where decoding every prefix would cost the square of the length.

    Parameters
    ----------
    decode : callable
        Text of a list of vocabulary ids.
    ids : sequence of int, shape (T,)

    Returns
    -------
    list of str, shape (T,)
        Their concatenation is ``decode(ids)``; where a tokenizer does not allow that, each token alone.
    """
    found: list[str] = []
    start = done = 0  # the piece before begins at start, the unfinished one at done
    before = ""
    for at in range(len(ids)):
        text = decode(ids[start : at + 1])
        if text.endswith(_UNFINISHED) or len(text) < len(before):
            found.append("")
            continue
        found.append(text[len(before) :])
        start, done = done, at + 1
        before = decode(ids[start:done])
    whole, joined = decode(ids), "".join(found)
    if found and whole.startswith(joined):
        found[-1] += whole[len(joined) :]
        return found
    return found if whole == joined else [decode([token]) for token in ids]


def decoder(tokenizer: Any) -> Decode:
    """The tokenizer's decoding, special tokens kept, on a copy of its own.

    A tokenizer in use on the writer's thread refuses to be changed on the training thread ("Already
    borrowed"), and padding changes it.
    """
    own = copy.deepcopy(tokenizer)

    def decode(ids: Sequence[int]) -> str:
        text = own.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text if isinstance(text, str) else "".join(text)

    return decode


def tokenizer_of(processing: Any) -> Any:
    """The tokenizer inside a processor, or the tokenizer itself."""
    return getattr(processing, "tokenizer", None) or processing
