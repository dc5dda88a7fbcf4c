"""Responses that are no text: byte-level tokenizers let a policy say half a character."""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.engine.column_info import metric
from rlpanel.metrics.engine.segments import Segments


@metric(
    "responses with invalid characters",
    level="step",
    unit="share",
    source="responses with U+FFFD / all",
    good="down",
    color="bad",
    advice="A rise is the policy losing the language, whatever the reward does; see whether it sits in one "
    "language.",
)
def invalid_text_share(by: Segments, invalid_chars: np.ndarray) -> np.ndarray:
    """Share of responses that hold U+FFFD, which stands for bytes that are no UTF-8."""
    known = np.where(np.isfinite(invalid_chars), (invalid_chars > 0).astype(float), np.nan)
    return by.mean(known)
