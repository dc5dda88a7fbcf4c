"""Finds rows that a table repeats: some trainers log the last samples they hold, whether new or not.

Such a trainer keeps its last samples in a queue of limited length, and each of its lines is the whole queue.
Two lines of a step then overlap: the later one begins with the rows with which the earlier one ends.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def repeated_rows(place: Mapping[str, np.ndarray], key: np.ndarray) -> np.ndarray:
    """Return a mask of rows that repeat a row of the table before, in the same step of the same file.

    A row is repeated if it belongs to the longest beginning of its table that is also the end of the table
    before. Equal rows of one table are no repetition.

    Parameters
    ----------
    place : mapping of str to ndarray of int, shape (N,)
        Columns ``file``, ``step``, ``offset`` and ``part``; a table is what has one offset.
    key : ndarray of uint64, shape (N,)
        Equal for rows with equal values.
    """
    order = np.lexsort([place[name] for name in ("part", "offset", "step", "file")])
    file, step, offset = (place[name][order] for name in ("file", "step", "offset"))
    is_new_step = (file[1:] != file[:-1]) | (step[1:] != step[:-1])
    starts = np.flatnonzero(np.concatenate([[True], is_new_step | (offset[1:] != offset[:-1])]))
    ends = np.append(starts[1:], len(order))
    mask = np.zeros(len(order), bool)
    for before, start, end in zip(starts, starts[1:], ends[1:], strict=False):
        if not is_new_step[start - 1]:
            tables = key[order[before:start]], key[order[start:end]]
            mask[order[start : start + overlap(*tables)]] = True
    return mask


def overlap(before: np.ndarray, after: np.ndarray) -> int:
    """Return the length of the longest end of one sequence that is the beginning of the next."""
    longest = min(len(before), len(after))
    beginning, end = after[:longest].tolist(), before[len(before) - longest :].tolist()
    borders = _borders(beginning)
    length = 0
    for item in end:
        while length and (length == longest or beginning[length] != item):
            length = borders[length - 1]
        length += beginning[length] == item
    return length


def _borders(items: list[int]) -> list[int]:
    """Return for each prefix the longest proper prefix that also ends it (Knuth, Morris and Pratt)."""
    borders = [0] * len(items)
    length = 0
    for position in range(1, len(items)):
        while length and items[position] != items[length]:
            length = borders[length - 1]
        length += items[position] == items[length]
        borders[position] = length
    return borders
