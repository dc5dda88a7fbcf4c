"""Finds rows that a table repeats: some trainers log the last samples they hold, whether new or not.

Such a trainer keeps its last samples in a queue of limited length, and each of its lines is the whole queue.
Two lines of a step then overlap: the later one begins with the rows with which the earlier one ends.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlpanel.sources.records.row_overlap import overlap


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
            tables = key[order[before:start]].tolist(), key[order[start:end]].tolist()
            mask[order[start : start + overlap(*tables)]] = True
    return mask
