"""Limits the number of tools that have columns of their own; the others share one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from rlpanel.schema import TOOL_CALLS, TOOL_ERRORS
from rlpanel.sources.records.message_columns import OTHER

#: Most tools with columns of their own, in order of appearance.
MOST_TOOLS = 20


class ToolNames:
    """Tools of a run that have columns of their own."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def declare(self, columns: Iterable[str]) -> list[str]:
        """Give columns to the tools named by some columns, as far as there is room; return the others."""
        beyond = []
        for column in columns:
            if not column.startswith(TOOL_CALLS):
                continue
            tool = column.removeprefix(TOOL_CALLS)
            if tool in self._known or tool == OTHER:
                continue
            if len(self._known) < MOST_TOOLS:
                self._known.add(tool)
            else:
                beyond.append(tool)
        return beyond

    def fold_rows(self, rows: Sequence[dict[str, float]], columns: Iterable[str]) -> None:
        """Add the numbers of tools beyond the limit to those of ``other``, in each row."""
        beyond = {
            prefix + tool: prefix + OTHER
            for tool in self.declare(columns)
            for prefix in (TOOL_CALLS, TOOL_ERRORS)
        }
        for row in rows if beyond else ():
            for column in [column for column in row if column in beyond]:
                other = beyond[column]
                row[other] = row.get(other, 0.0) + row.pop(column)

    def fold_columns(self, numbers: dict[str, np.ndarray]) -> None:
        """Add the columns of tools beyond the limit to those of ``other``; NaN counts as no call."""
        for tool in self.declare(list(numbers)):
            for prefix in (TOOL_CALLS, TOOL_ERRORS):
                column = numbers.pop(f"{prefix}{tool}", None)
                if column is not None:
                    numbers[f"{prefix}{OTHER}"] = _sum(numbers.get(f"{prefix}{OTHER}"), column)


def _sum(one: np.ndarray | None, other: np.ndarray) -> np.ndarray:
    if one is None:
        return other
    total = np.nan_to_num(one) + np.nan_to_num(other)
    return np.where(np.isnan(one) & np.isnan(other), np.nan, total)
