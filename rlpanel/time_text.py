"""Texts of times, which may be any number: file systems and logs hold times that no calendar has."""

from __future__ import annotations

from datetime import UTC, datetime


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
