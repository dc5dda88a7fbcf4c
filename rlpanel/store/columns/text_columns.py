"""Columns that are counted in the texts of prompts and responses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from rlpanel.metrics.engine.text_batch import empty_for_none, missing
from rlpanel.metrics.prompt_echo import prompt_echoes
from rlpanel.metrics.scripts import foreign_shares
from rlpanel.metrics.special_tokens import special_token_counts

Texts = Sequence[str | None]


def text_columns(prompts: Texts, responses: Texts) -> dict[str, np.ndarray]:
    """Return the columns of N samples that their texts give, without those that have no value.

    Parameters
    ----------
    prompts, responses : sequences of str or None, length N
        None if the text was not logged.

    Returns
    -------
    dict of str to ndarray of float, shape (N,)
        ``invalid_chars``, ``special_tokens``, ``prompt_echo`` and ``foreign_script``.
    """
    if all(text is None for text in responses):
        return {}
    columns = {
        "invalid_chars": _invalid_chars(responses),
        "special_tokens": special_token_counts(responses),
        "prompt_echo": prompt_echoes(prompts, responses),
        "foreign_script": foreign_shares(prompts, responses),
    }
    return {name: column for name, column in columns.items() if not np.isnan(column).all()}


def _invalid_chars(texts: Texts) -> np.ndarray:
    """Return the number of U+FFFD per text; the decoder puts one in place of invalid UTF-8."""
    counts = np.array(list(map(str.count, empty_for_none(texts), repeat("\ufffd"))), float)
    counts[missing(texts)] = np.nan
    return counts
