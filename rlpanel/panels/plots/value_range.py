"""A range of one column's values, and its text as a filter (`rlpanel.store.query.filter_syntax`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ValueRange:
    """Values from ``low`` to ``high``, both included; an infinite bound means that there is none."""

    column: str
    low: float
    high: float

    @property
    def text(self) -> str:
        """The range as a filter expression: ``0.3 <= `reward` <= 0.5``."""
        low = f"{self.low:.12g} <= " if np.isfinite(self.low) else ""
        high = f" <= {self.high:.12g}" if np.isfinite(self.high) else ""
        return f"{low}`{self.column}`{high}"
