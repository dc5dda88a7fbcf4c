"""Statistics by episode, computed from the lines of a run in plain Python, as the trainers do.

It shares no code with rlpanel. Lines of replaced attempts are left out by the caller.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: File name and byte offset of a line, and what it holds.
Line = tuple[str, int, Mapping[str, Any]]
#: Split and step.
Place = tuple[str, int]
EQUAL = 1e-6


@dataclass
class Expected:
    """What is expected of one split and step."""

    samples: int = 0
    outcomes: list[Mapping[str, Any]] = field(default_factory=list)
    rows: list[Mapping[str, Any]] = field(default_factory=list)

    def values(self, column: str, *, by_rows: bool) -> list[float]:
        """The finite values of a column."""
        lines = self.rows if by_rows else self.outcomes
        return [line[column] for line in lines if _is_number(line.get(column))]

    def mean(self, column: str, *, by_rows: bool) -> float:
        found = self.values(column, by_rows=by_rows)
        return statistics.fmean(found) if found else math.nan

    def std(self, column: str, *, by_rows: bool) -> float:
        found = self.values(column, by_rows=by_rows)
        return statistics.stdev(found) if len(found) > 1 else math.nan

    def quantile(self, column: str, q: float, *, by_rows: bool) -> float:
        found = sorted(self.values(column, by_rows=by_rows))
        if not found:
            return math.nan
        at = q * (len(found) - 1)
        low, high = found[math.floor(at)], found[math.ceil(at)]
        return low + (high - low) * (at - math.floor(at))

    def groups(self, *, by_rows: bool) -> dict[str, list[float]]:
        """The rewards of each group with several members, NaN where none is logged."""
        found: dict[str, list[float]] = defaultdict(list)
        for line in self.rows if by_rows else self.outcomes:
            found[line["group"]].append(line["reward"] if _is_number(line.get("reward")) else math.nan)
        return {name: rewards for name, rewards in found.items() if len(rewards) > 1}

    def group_numbers(self, *, by_rows: bool) -> dict[str, tuple[int, float, float, float]]:
        """Size, mean, standard deviation and pass rate of each group; NaN for fewer than two rewards."""
        numbers = {}
        for name, rewards in self.groups(by_rows=by_rows).items():
            finite = [reward for reward in rewards if not math.isnan(reward)]
            several = len(finite) > 1
            numbers[name] = (
                len(rewards),
                statistics.fmean(finite) if several else math.nan,
                statistics.stdev(finite) if several else math.nan,
                sum(reward >= 1 - EQUAL for reward in finite) / len(finite) if several else math.nan,
            )
        return numbers

    def zero_variance(self, *, by_rows: bool) -> float:
        """Share of the groups with two or more rewards whose rewards are all equal."""
        found = [
            [reward for reward in rewards if not math.isnan(reward)]
            for rewards in self.groups(by_rows=by_rows).values()
        ]
        equal = [max(finite) - min(finite) <= EQUAL for finite in found if len(finite) > 1]
        return sum(equal) / len(equal) if equal else math.nan


def expected(lines: Iterable[Line]) -> dict[Place, Expected]:
    """What is expected of each split and step of these lines, which all count."""
    found: dict[Place, Expected] = defaultdict(Expected)
    units: dict[tuple[Any, ...], list[Line]] = defaultdict(list)
    for number, (file, offset, line) in enumerate(lines):
        place = line.get("split", "train"), line["step"]
        found[place].samples += 1
        found[place].rows.append(line)
        unit = (line["episode"], line.get("agent"), line.get("trajectory")) if "episode" in line else number
        units[place, unit].append((file, offset, line))
    for (place, _), members in units.items():
        found[place].outcomes.append(_last(members))
    return dict(found)


def _last(members: Sequence[Line]) -> Mapping[str, Any]:
    def order(member: Line) -> tuple[float, str, int]:
        file, offset, line = member
        return float(line.get("turn", -math.inf)), file, offset

    return max(members, key=order)[2]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
