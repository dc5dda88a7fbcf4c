"""Quality of response texts: invalid UTF-8 and repetition.

With a byte-level tokenizer a policy can emit half a character. Repetition is too slow to compute for every
row, so it is computed only where texts are asked for.
"""

from __future__ import annotations

import zlib

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments


@metric(
    "responses with invalid characters",
    level="step",
    unit="share",
    formula=r"\frac{\mathrm{responses\ with\ U+FFFD}}{\mathrm{responses}}",
    source="responses with U+FFFD / all",
    good="down",
    color="bad",
    advice="A rise means that the policy degrades, whatever the reward does. Check whether one language is "
    "affected.",
    quantity="whether the response contains U+FFFD",
    over="the step's samples that have a response, all equally",
    undefined="a step without responses",
)
def invalid_text_share(by: Segments, invalid_chars: np.ndarray) -> np.ndarray:
    """Share of responses that contain U+FFFD, the replacement for bytes that are not valid UTF-8."""
    invalid = np.where(np.isfinite(invalid_chars), (invalid_chars > 0).astype(float), np.nan)
    return by.mean(invalid)


#: Texts with fewer characters are too short to measure repetition.
MIN_CHARS = 16

_OVER = "nothing: it is computed in exports and by `run.samples(text=True)` only"
_UNDEFINED = f"a response of fewer than {MIN_CHARS} characters"


@metric(
    "zlib ratio",
    level="sample",
    formula=r"\frac{\mathrm{compressed\ bytes}}{\mathrm{bytes}}",
    source="packed bytes / bytes, zlib level 6",
    good="",
    advice="Prose is near 0.5, repetition loops are below 0.2, and short texts are always near 1.",
    color="length",
    compares="size of the response, compressed and plain",
    over=_OVER,
    undefined=_UNDEFINED,
)
def zlib_ratio(response_text: np.ndarray) -> np.ndarray:
    """Compressed size of the response divided by its size; low if the text repeats itself.

    The value is NaN for texts of fewer than 16 characters.
    """
    return np.array([_compression_ratio(text) for text in response_text])


@metric(
    "distinct 4-grams",
    level="sample",
    unit="share",
    formula=r"\frac{\mathrm{distinct\ 4\!-\!grams}}{\mathrm{4\!-\!grams}}",
    source="Li 2016, distinct-n, over characters",
    advice="Below about 0.5 the text contains repetition loops.",
    color="length",
    compares="number of distinct and of all 4-grams of the response",
    over=_OVER,
    undefined=_UNDEFINED,
)
def distinct_4(response_text: np.ndarray) -> np.ndarray:
    """Number of distinct character 4-grams divided by the number of all 4-grams.

    The value is NaN for texts of fewer than 16 characters.
    """
    return np.array([_distinct_ratio(text) for text in response_text])


def _compression_ratio(text: str) -> float:
    raw = text.encode("utf-8", "surrogatepass")
    return len(zlib.compress(raw)) / len(raw) if len(text) >= MIN_CHARS else np.nan


def _distinct_ratio(text: str) -> float:
    count = len(text) - 3
    return (
        len({text[start : start + 4] for start in range(count)}) / count if len(text) >= MIN_CHARS else np.nan
    )
