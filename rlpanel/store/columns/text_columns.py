"""Columns that are counted in the texts of prompts and responses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, repeat
from operator import contains

import numpy as np
from xxhash import xxh3_64_intdigest

from rlpanel.metrics.engine.text_batch import empty_for_none, missing
from rlpanel.metrics.prompt_echo import prompt_echoes
from rlpanel.metrics.scripts import foreign_shares
from rlpanel.metrics.special_tokens import special_token_counts

Texts = Sequence[str | None]
#: So many samples are counted at a time: fewer cost more calls of numpy, and more cost memory.
TEXTS_AT_ONCE = 1024


def text_columns(prompts: Texts, responses: Texts) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the columns of N samples that their texts give, and the texts' hashes.

    Parameters
    ----------
    prompts, responses : sequences of str or None, length N
        None if the text was not logged.

    Returns
    -------
    columns : dict of str to ndarray of float, shape (N,)
        ``invalid_chars``, ``special_tokens``, ``prompt_echo`` and ``foreign_script``, without those that have
        no value.
    hashes : dict of str to ndarray of uint64, shape (N,)
        ``prompt_hash`` and ``response_hash``; equal texts have equal hashes. None has that of an empty text.
    """
    starts = range(0, len(responses), TEXTS_AT_ONCE) or [0]
    slices = [slice(start, start + TEXTS_AT_ONCE) for start in starts]
    parts = [_read_texts(prompts[part], responses[part]) for part in slices]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    hashes = {name: joined.pop(name) for name in ("prompt_hash", "response_hash")}
    return {name: column for name, column in joined.items() if not np.isnan(column).all()}, hashes


def _read_texts(prompts: Texts, responses: Texts) -> dict[str, np.ndarray]:
    asked, encoded = empty_for_none(prompts), list(map(str.encode, empty_for_none(responses)))
    distinct = dict.fromkeys(asked)  # the samples of a group share a prompt
    hash_of = dict(zip(distinct, map(xxh3_64_intdigest, map(str.encode, distinct)), strict=True))
    return {
        "response_hash": np.fromiter(map(xxh3_64_intdigest, encoded), np.uint64, len(encoded)),
        "prompt_hash": np.fromiter(map(hash_of.__getitem__, asked), np.uint64, len(encoded)),
        "invalid_chars": _invalid_chars(responses),
        "special_tokens": special_token_counts(responses, encoded),
        "prompt_echo": prompt_echoes(prompts, responses),
        "foreign_script": foreign_shares(prompts, responses),
    }


def _invalid_chars(texts: Texts) -> np.ndarray:
    """Return the number of U+FFFD per text; the decoder puts one in place of invalid UTF-8."""
    known, counts = empty_for_none(texts), np.zeros(len(texts))
    for row in compress(range(len(known)), map(contains, known, repeat("\ufffd"))):
        counts[row] = known[row].count("\ufffd")
    counts[missing(texts)] = np.nan
    return counts
