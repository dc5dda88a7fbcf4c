"""Loops in a text: too dear for every line of a log, so worked out for the samples that are shown."""

from __future__ import annotations

import zlib

import numpy as np

from rlpanel.metrics.engine.column_info import metric

#: Shorter texts say nothing about repetition.
SHORTEST = 16


@metric(
    "zlib ratio",
    level="sample",
    source="packed bytes / bytes, zlib level 6",
    good="",
    advice="Prose is near 0.5 and loops are below 0.2, but short texts are always near 1.",
    color="length",
)
def zlib_ratio(response_text: np.ndarray) -> np.ndarray:
    """How well the response packs: low where it repeats itself.

    Parameters
    ----------
    response_text : ndarray of str, shape (N,)

    Returns
    -------
    ndarray of float, shape (N,)
        NaN for texts of fewer than 16 characters.
    """
    return np.array([_packed(text) for text in response_text])


@metric(
    "distinct 4-grams",
    level="sample",
    unit="share",
    source="Li 2016, distinct-n, over characters",
    advice="Below about 0.5 the text loops.",
    color="length",
)
def distinct_4(response_text: np.ndarray) -> np.ndarray:
    """Distinct runs of four characters over all of them.

    Parameters
    ----------
    response_text : ndarray of str, shape (N,)

    Returns
    -------
    ndarray of float, shape (N,)
        NaN for texts of fewer than 16 characters.
    """
    return np.array([_distinct(text) for text in response_text])


def _packed(text: str) -> float:
    raw = text.encode("utf-8", "surrogatepass")
    return len(zlib.compress(raw)) / len(raw) if len(text) >= SHORTEST else np.nan


def _distinct(text: str) -> float:
    count = len(text) - 3
    return len({text[at : at + 4] for at in range(count)}) / count if len(text) >= SHORTEST else np.nan
