"""Texts of numbers with at most four significant digits, in one form on the page and in sentences.

Digits before the decimal point are never rounded away, because steps, tokens and samples are counted. Numbers
from a million on and below 0.0001 are written in powers of ten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

#: A spread or change below this share of the values is the rounding error of their sums.
DUST = 1e-12


def number(value: float, *, sign: bool = False) -> str:
    """Return a number as text; NaN becomes a dash.

    Parameters
    ----------
    value : float
    sign : bool
        Whether a number above zero gets a plus sign.

    Examples
    --------
    >>> number(0.1 + 0.2), number(13.02), number(1234.5), number(2e9), number(float("nan"))
    ('0.3', '13.0', '1,234', '2e9', '–')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size and (size >= 10**6 or size < 10**-4):
        digits, power = f"{size:.2e}".split("e")
        text = f"{digits.rstrip('0').rstrip('.')}e{int(power)}".replace("-", "−")
    elif size >= 100 or float(value).is_integer():
        text = f"{size:,.0f}"
    else:
        text = f"{size:.1f}" if size >= 10 else f"{size:.2f}" if size >= 1 else f"{size:.3g}"
    return f"−{text}" if value < 0 else f"+{text}" if sign and value > 0 else text


def change_text(value: float, before: float) -> str:
    """Return the change since the previous step (▲ 0.14); empty if a value is missing."""
    change = value - before
    if math.isnan(change):
        return ""
    if abs(change) < DUST * max(abs(value), abs(before)):
        change = 0.0
    return f"{'▲' if change > 0 else '▼' if change < 0 else '='} {number(abs(change))}"


def plus_minus(mean: float, spread: float) -> str:
    """Return a mean with its spread (0.2 ± 0.05); the rounding error of equal values is no spread."""
    if abs(spread) < DUST * abs(mean):
        spread = 0.0
    return f"{number(mean)} ± {number(spread)}"


def decimals(values: Iterable[float]) -> int:
    """Return how many decimals a column of numbers has, so that none has more than four digits.

    The numbers of a column stand below each other, so all have the same number of decimals: at most three,
    more only if all are below 0.1, and never more than six.
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not largest:
        return 3
    magnitude = math.floor(math.log10(largest))
    return min(6, 2 - magnitude) if magnitude < -1 else max(0, 3 - max(0, magnitude))
