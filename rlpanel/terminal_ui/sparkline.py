"""A row of numbers as bars of one character each."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None]) -> str:
    """Return one character per value: a bar from the lowest to the highest, a space if it is missing."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return ""
    low, span = min(finite), max(finite) - min(finite)
    return "".join(
        " " if value is None or not math.isfinite(value) else _bar(value, low, span) for value in values
    )


def _bar(value: float, low: float, span: float) -> str:
    if not span:
        return _BARS[3]
    return _BARS[min(int((value - low) / span * len(_BARS)), len(_BARS) - 1)]
