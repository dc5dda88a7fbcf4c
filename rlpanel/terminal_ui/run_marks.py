"""Marks and ages of runs in a list."""

from __future__ import annotations

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
