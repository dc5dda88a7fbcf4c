"""Texts of many samples, of which some may be missing, without Python code that runs once per text."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import cast

import numpy as np


def empty_for_none(texts: Sequence[str | None]) -> Sequence[str]:
    """Return the texts with an empty one in place of each None."""
    return [text or "" for text in texts] if None in texts else cast(Sequence[str], texts)


def missing(texts: Sequence[str | None]) -> np.ndarray:
    """Return a mask of the texts that are None, shape (N,)."""
    return np.fromiter(map(is_, texts, [None] * len(texts)), np.bool_, len(texts))


def text_lengths(texts: Sequence[str]) -> np.ndarray:
    """Return the number of characters of each text, shape (N,)."""
    return np.fromiter(map(len, texts), np.int64, len(texts))
