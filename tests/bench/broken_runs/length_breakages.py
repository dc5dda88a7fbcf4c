"""Broken runs whose cause is the length of the responses."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tests.bench.broken_runs.breakage import Breakage, Shape
from tests.bench.broken_runs.sample_table import SampleTable

_FREE_TEXT: dict[str, Any] = {"text": ["words", "code"]}
_LENGTH = ("sustained_change~response", "sustained_change~length")


class TruncationJump(Breakage):
    """Most responses are truncated from some step on, because they no longer end."""

    rules = ("truncated", "sustained_change~truncated")
    limits = _FREE_TEXT

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        endless = (strength > 0) & table.chance(float(self.draw.uniform(0.5, 0.95)))
        table.length = np.where(endless, self.setup.limit + 1, table.length)


class TruncationInCategory(TruncationJump):
    """Most responses of one category are truncated from some step on."""

    place = "category"


class TruncatedAlways(Breakage):
    """Nearly all responses are truncated from the first step on: the length limit is too low for the task."""

    rules = ("truncated",)
    shape: ClassVar[Shape] = "always"
    limits = _FREE_TEXT | {"reward": "binary"}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.length = np.where(table.chance(0.98), self.setup.limit + 1, table.length)
        table.solve -= 3.0


class LengthExplosion(Breakage):
    """Responses become three times as long within some steps, far from the limit."""

    rules = _LENGTH
    shape: ClassVar[Shape] = "slide"
    severity = "warning"
    limits = _FREE_TEXT | {"growth": (0.8, 1.2), "limit_factor": (6.0, 8.0), "length": (8, 14)}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.length = np.rint(table.length * (1 + 2.2 * strength)).astype(int)


class LengthCollapse(Breakage):
    """Responses become a quarter as long within some steps."""

    rules = _LENGTH
    shape: ClassVar[Shape] = "slide"
    severity = "warning"
    limits = _FREE_TEXT | {"growth": (0.8, 1.2), "length": (16, 28)}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.length = np.maximum(2, np.rint(table.length * (1 - 0.75 * strength))).astype(int)
