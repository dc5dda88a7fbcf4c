"""Texts of numbers and times, in one form on the page and in sentences.

Numbers have at most four significant digits. A time may be any number: file systems and logs hold times that
no calendar has.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

#: A spread or change below this share of the values is the rounding error of their sums.
DUST = 1e-12
#: A text is exact if it differs from the number by less than this share of it: many are stored in 32 bits.
_EXACT = 1e-6
#: Units of `size_text`, each with its least size: 999.5 kB would be written as 1,000 kB.
_UNITS = ((999.5e6, 1e9, "GB"), (999.5e3, 1e6, "MB"), (-math.inf, 1e3, "kB"))


def number(value: float, *, sign: bool = False, whole: bool = False) -> str:
    """Return a number as text; NaN becomes a dash.

    Parameters
    ----------
    value : float
    sign : bool
        Whether a number above zero gets a plus sign.
    whole : bool
        Whether whole numbers keep all digits, as in tables, where they may be ids.

    Examples
    --------
    >>> number(0.1 + 0.2), number(1.5), number(13.02), number(1234.5), number(2e9), number(float("nan"))
    ('0.3', '1.5', '13.0', '1,234', '2e9', '–')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if whole and size < 10**15 and float(value).is_integer():
        text = f"{size:,.0f}"
    elif size and (size >= 10**6 or size < 10**-4):
        digits, power = f"{size:.2e}".split("e")
        text = f"{digits.rstrip('0').rstrip('.')}e{int(power)}".replace("-", "−")
    elif size >= 100 or float(value).is_integer():
        text = f"{size:,.0f}"
    else:
        text = f"{size:.1f}" if size >= 10 else f"{size:.2f}" if size >= 1 else f"{size:#.3g}"
        if abs(float(text) - size) < _EXACT * size:
            text = text.rstrip("0").rstrip(".")
    return f"−{text}" if value < 0 else f"+{text}" if sign and value > 0 else text


def fixed(value: float, digits: int = 2, *, sign: bool = False) -> str:
    """Return a number with a fixed number of decimals and, below zero, the minus sign of `number`.

    Parameters
    ----------
    value : float
    digits : int
        Number of decimals.
    sign : bool
        Whether a number from zero on gets a plus sign, as the difference of two numbers.

    Examples
    --------
    >>> fixed(-0.654), fixed(0.5, sign=True), fixed(-0.001, sign=True), fixed(float("nan"))
    ('−0.65', '+0.50', '+0.00', '–')
    """
    if math.isnan(value):
        return "–"
    rounded = round(value, digits) + 0.0  # no minus before what rounds to zero
    return f"{rounded:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def size_text(size: float) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> size_text(0), size_text(16_500), size_text(2_000_000), size_text(10.24e9), size_text(1.08e12)
    ('0 kB', '16.5 kB', '2 MB', '10.2 GB', '1,080 GB')
    """
    unit, name = next((unit, name) for least, unit, name in _UNITS if size >= least)
    value = size / unit
    return f"{value:,.0f} {name}" if value >= 100 else f"{value:.1f}".removesuffix(".0") + f" {name}"


def plus_minus(mean: float, spread: float) -> str:
    """Return a mean with its spread (0.2 ± 0.05); the rounding error of equal values is no spread."""
    if abs(spread) < DUST * abs(mean):
        spread = 0.0
    return f"{number(mean)} ± {number(spread)}"


def utc_text(seconds: float, form: str = "%Y-%m-%dT%H:%M:%SZ") -> str | None:
    """Return a time in UTC as text; None for a time outside of the years 1 to 9999.

    Parameters
    ----------
    seconds : float
        Seconds since the epoch.
    form : str
        Format of the text.

    Examples
    --------
    >>> utc_text(0.0), utc_text(1e15), utc_text(float("nan"))
    ('1970-01-01T00:00:00Z', None, None)
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return None
