"""Curves of a statistic of a column over each step's samples, such as ``reward:std``.

A column's plain name stands for its mean.
"""

from __future__ import annotations

#: Statistic → its description.
STATISTICS = {"std": "standard deviation", "min": "minimum", "max": "maximum"}


def split_statistic(curve: str) -> tuple[str, str]:
    """Return the column and the statistic of a curve's name; the statistic of a plain column is empty."""
    column, colon, statistic = curve.rpartition(":")
    return (column, statistic) if colon and column and statistic in STATISTICS else (curve, "")
