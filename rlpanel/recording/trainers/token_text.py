"""Decodes each token of a response to a text, so that the texts concatenate to the whole response."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

Decode = Callable[[Sequence[int]], str]

_UNFINISHED = "\ufffd"


def token_texts(decode: Decode, ids: Sequence[int]) -> list[str]:
    """Return one text per token; a character that spans several tokens goes to the last of them.

    A token's text depends on its neighbours, so each token is decoded together with the one before it. That
    takes two short decodes per token; decoding every prefix would take quadratic time.

    Parameters
    ----------
    decode : callable
        Function from a list of vocabulary ids to their text.
    ids : sequence of int, shape (T,)

    Returns
    -------
    list of str, shape (T,)
        Their concatenation is ``decode(ids)``. If a tokenizer does not allow that, each token is decoded
        alone.
    """
    texts: list[str] = []
    start = done = 0  # start: first token of the last text; done: first token that has no text yet
    before = ""
    for position in range(len(ids)):
        text = decode(ids[start : position + 1])
        if text.endswith(_UNFINISHED) or len(text) < len(before):
            texts.append("")
            continue
        texts.append(text[len(before) :])
        start, done = done, position + 1
        before = decode(ids[start:done])
    whole, joined = decode(ids), "".join(texts)
    if texts and whole.startswith(joined):
        texts[-1] += whole[len(joined) :]
        return texts
    return texts if whole == joined else [decode([token]) for token in ids]


def decoder(tokenizer: Any) -> Decode:
    """Return a function that decodes with a copy of the tokenizer and keeps special tokens.

    A copy, because padding on the training thread changes the tokenizer, and a tokenizer that the writer's
    thread is using refuses changes ("Already borrowed").
    """
    tokenizer_copy = copy.deepcopy(tokenizer)

    def decode(ids: Sequence[int]) -> str:
        text = tokenizer_copy.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text if isinstance(text, str) else "".join(text)

    return decode


def tokenizer_of(processing: Any) -> Any:
    """Return the tokenizer of a processor, or the given tokenizer itself."""
    return getattr(processing, "tokenizer", None) or processing
