"""A range of one column's values, as a filter of the grid (`rlpanel.store.query.filter_syntax`) says it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ValueRange:
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
