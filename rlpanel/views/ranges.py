"""A range of one column's values as a filter of the grid: its text, its rows, and the chip that shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from rlpanel.metrics import registry
from rlpanel.store.snapshot import Snapshot
from rlpanel.views.theme import number

_TEXT = re.compile(r"(?:(\S+) <= )?`([^`]+)`(?: <= (\S+))?")


@dataclass(frozen=True)
class Range:
    """Values from ``low`` to ``high``, both included; an infinite end is open."""

    column: str
    low: float
    high: float

    @property
    def text(self) -> str:
        """As an expression over the column: ``0.3 <= `reward` <= 0.5``."""
        low = f"{self.low:.12g} <= " if np.isfinite(self.low) else ""
        high = f" <= {self.high:.12g}" if np.isfinite(self.high) else ""
        return f"{low}`{self.column}`{high}"

    @property
    def label(self) -> str:
        """For people: ``reward 0.3–0.5``."""
        name = registry.describe(self.column).label
        if not np.isfinite(self.low):
            return f"{name} ≤ {number(self.high)}"
        if not np.isfinite(self.high):
            return f"{name} ≥ {number(self.low)}"
        return f"{name} {number(self.low)}–{number(self.high)}"


def read(text: str) -> Range:
    """The range that a text means.

    Raises
    ------
    ValueError
        If it is none.
    """
    found = _TEXT.fullmatch(text)
    if not found or not (found.group(1) or found.group(3)):
        raise ValueError(text)
    low, high = float(found.group(1) or "-inf"), float(found.group(3) or "inf")
    return Range(found.group(2), low, high)


def keep(snapshot: Snapshot, rows: np.ndarray, text: str) -> np.ndarray:
    """The rows whose value lies in the range; all where there is none, or the run has no such column."""
    if not text:
        return rows
    wanted = read(text)
    if not snapshot.has(wanted.column):
        return rows
    values = snapshot.number(wanted.column)[rows]
    return rows[(values >= wanted.low) & (values <= wanted.high)]
