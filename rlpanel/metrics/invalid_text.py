"""Share of responses with invalid UTF-8: with a byte-level tokenizer a policy can emit half a character."""

from __future__ import annotations

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
