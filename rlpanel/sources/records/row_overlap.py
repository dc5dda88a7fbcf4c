"""Finds the rows that two consecutive tables share: the later one begins with the end of the earlier one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def overlap(before: Sequence[Hashable], after: Sequence[Hashable]) -> int:
    """Return the length of the longest end of one sequence that is the beginning of the next."""
    longest = min(len(before), len(after))
    beginning, end = after[:longest], before[len(before) - longest :]
    borders = _borders(beginning)
    length = 0
    for item in end:
        while length and (length == longest or beginning[length] != item):
            length = borders[length - 1]
        length += beginning[length] == item
    return length


def _borders(items: Sequence[Hashable]) -> list[int]:
    """Return for each prefix the longest proper prefix that also ends it (Knuth, Morris and Pratt)."""
    borders = [0] * len(items)
    length = 0
    for position in range(1, len(items)):
        while length and items[position] != items[length]:
            length = borders[length - 1]
        length += items[position] == items[length]
        borders[position] = length
    return borders
