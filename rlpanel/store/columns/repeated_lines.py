"""Finds equal lines, and tells copies of a line from samples that a recorder wrote with equal lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def equal_before(keys: Sequence[np.ndarray], place: Sequence[np.ndarray]) -> np.ndarray:
    """Return for each row the number of rows before it that have the same keys.

    Parameters
    ----------
    keys : sequence of ndarray, shape (N,) each
    place : sequence of ndarray, shape (N,) each
        Order of the rows with the same keys; the first array decides first.

    Returns
    -------
    ndarray of int, shape (N,)
    """
    order = np.lexsort((*reversed(place), *keys))
    is_other = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
    numbers = np.arange(len(order))
    first = np.maximum.accumulate(np.where(np.append(True, is_other), numbers, 0))
    before = np.empty(len(order), np.int64)
    before[order] = numbers - first
    return before


def is_copy(
    line: Sequence[np.ndarray], file: np.ndarray, offset: np.ndarray, has_session: np.ndarray
) -> np.ndarray:
    """Return a mask of the rows that copy an earlier line, if no two samples have equal lines by chance.

    A recorder writes each sample once. So equal lines that it wrote to one file are several samples, and the
    second such line of a file can only be a copy of the second one of another file.

    Parameters
    ----------
    line : sequence of ndarray, shape (N,) each
        Keys that equal lines have in common.
    file, offset : ndarray of int, shape (N,)
        Place of each line; files are numbered by name.
    has_session : ndarray of bool, shape (N,)
        Mask of the lines that rlpanel's recorder wrote.

    Returns
    -------
    ndarray of bool, shape (N,)
    """
    number = np.where(has_session, equal_before([*line, file], [offset]), 0)
    return equal_before([*line, number], [file, offset]) > 0
