"""Parallel coordinates of the runs: settings and numbers as axes, a run as a line; a brush is a filter."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpanel.number_text import number
from rlpanel.panels.runs.run_order import value_of
from rlpanel.panels.runs.run_rows import RunRow, setting_text

#: Most axes, and most values of a setting that has a place for each.
MAX_AXES, MAX_KINDS = 10, 12
#: Settings whose largest value is this many times the smallest are on a logarithmic axis.
_LOG_FROM = 30.0
#: Decimals of a position: a thousandth of an axis.
_DECIMALS = 3
#: A condition that a brush writes, with the name of its axis.
_BRUSHED = re.compile(r"(?P<name>[^\s<>=!]+) (?:>=|<=|in|==) .+")
#: A text with one of these is an expression, see `run_order`.
_EXPRESSION = re.compile(r"[<>=!]|\b(contains|startswith|endswith|matches|in|missing)\b")


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes
    ----------
    name, title : str
        Name for filters, and as it is shown.
    low, high : float
        Values at the bottom and at the top; of kinds, -0.5 and one less than their number plus 0.5.
    kinds : tuple of str
        Texts of a setting whose values have no order of their own; empty for numbers.
    is_log : bool
        Whether the axis is logarithmic.
    """

    name: str
    title: str
    low: float
    high: float
    kinds: tuple[str, ...] = ()
    is_log: bool = False

    def position(self, value: float | str | bool | None) -> float | None:
        """Return the place of a value, 0 at the bottom and 1 at the top; None if it is not known."""
        if value is None:
            return None
        if self.kinds:
            text = setting_text(value)
            return self._share(float(self.kinds.index(text))) if text in self.kinds else None
        if isinstance(value, str) or not math.isfinite(value):
            return None
        return self._share(float(value))

    def _share(self, value: float) -> float:
        low, high, value = (math.log(each) if self.is_log else each for each in (self.low, self.high, value))
        return round((value - low) / (high - low), _DECIMALS) if high > low else 0.5

    def value(self, share: float) -> float:
        """Return the value at a place."""
        if self.is_log:
            return float(math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low))))
        return self.low + share * (self.high - self.low)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Places and texts of the ticks."""
        if self.kinds:
            return [(self._share(float(at)), kind) for at, kind in enumerate(self.kinds)]
        if self.high <= self.low:
            return [(0.5, setting_text(self.low))]
        return [(share, number(self.value(share))) for share in (0.0, 0.5, 1.0)]

    def condition(self, low: float, high: float) -> str:
        """Return the filter for the runs between two places; empty if it holds for no value."""
        if self.kinds:
            inside = [kind for at, kind in enumerate(self.kinds) if low <= self._share(float(at)) <= high]
            return f"{self.name} in {json.dumps(inside, ensure_ascii=False)}" if inside else ""
        return f"{self.name} >= {self.value(low):.4g} and {self.name} <= {self.value(high):.4g}"


def axes_of(rows: Sequence[RunRow], names: Sequence[tuple[str, str]]) -> list[Axis]:
    """Return the axes of settings and numbers that at least two runs have, in the given order.

    Parameters
    ----------
    rows : sequence of RunRow
    names : sequence of (str, str)
        Name and title of each setting or number.
    """
    found = (_axis(name, title, [value_of(row, name) for row in rows]) for name, title in names)
    return [axis for axis in found if axis is not None][:MAX_AXES]


def _axis(name: str, title: str, values: Sequence[float | str | None]) -> Axis | None:
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    if any(isinstance(value, str | bool) for value in known):
        kinds = sorted({setting_text(value) for value in known})
        if not 1 < len(kinds) <= MAX_KINDS:
            return None
        return Axis(name, title, -0.5, len(kinds) - 0.5, tuple(kinds))
    numbers = np.array([float(value) for value in known])
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return None
    low, high = float(numbers.min()), float(numbers.max())
    return Axis(name, title, low, high, is_log=low > 0 and high / low >= _LOG_FROM)


def lines_of(rows: Sequence[RunRow], axes: Sequence[Axis]) -> dict[str, list[float | None]]:
    """Return the places of each run on all axes; None where it has no value."""
    return {row.name: [axis.position(value_of(row, axis.name)) for axis in axes] for row in rows}


def axis_json(axis: Axis) -> dict[str, Any]:
    """Return what the browser draws of an axis."""
    return {"name": axis.name, "title": axis.title, "ticks": axis.ticks, "log": axis.is_log}


def brushed(text: str, name: str, condition: str) -> str:
    """Return a filter with the condition of a brush in place of an earlier one on the same axis.

    Words become conditions on the run's path, since a filter is either words or an expression.
    """
    text = text.strip()
    if text and not _EXPRESSION.search(text):
        words = [word for word in text.split() if '"' not in word and "\\" not in word]
        parts = [f'run contains "{word}"' for word in words]
    else:
        parts = [part.strip() for part in text.split(" and ") if part.strip()]
    kept = [part for part in parts if (found := _BRUSHED.fullmatch(part)) is None or found["name"] != name]
    return " and ".join([*kept, condition] if condition else kept)
