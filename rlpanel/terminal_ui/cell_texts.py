"""Texts of cells: marks and ages of runs, and a row of numbers as bars of one character each."""

from __future__ import annotations

import math
from collections.abc import Sequence

# -- run marks -----------------------------------------------------------------------------------------
# Marks and ages of runs in a list.


#: The mark of the worst finding of a run; ``None`` stands for a run that was never checked.
MARKS: dict[str | None, str] = {"alarm": "●", "warning": "○", "info": "", "": "✓", None: "?"}
#: Colours of severities in a terminal.
SEVERITY_COLORS = {"alarm": "red", "warning": "yellow", "info": "bright_black"}
_UNITS = ((86_400 * 2, 86_400, "d"), (7200, 3600, "h"), (120, 60, "min"), (0, 1, "s"))


def age_text(seconds: float) -> str:
    """Return a time span in its largest unit.

    Examples
    --------
    >>> age_text(59), age_text(200), age_text(7300), age_text(86_400 * 12)
    ('59 s', '3 min', '2 h', '12 d')
    """
    span = max(seconds, 0.0)
    _, unit, name = next(each for each in _UNITS if span >= each[0])
    return f"{span // unit:,.0f} {name}"


# -- sparkline -----------------------------------------------------------------------------------------
# A row of numbers as bars of one character each.


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
