"""Divides rows into batches of whole steps, so that what is computed needs memory for one batch only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

#: Number of rows that are assigned to batches at once.
CHUNK = 1 << 20
#: Row numbers, or all rows.
Rows: TypeAlias = np.ndarray | None


@dataclass(frozen=True)
class StepBatch:
    """Rows of some consecutive steps.

    Attributes
    ----------
    first, last : int
        Positions of its steps in the list of steps; ``last`` is not included.
    rows : ndarray of uint32, shape (N,)
        Row numbers, ascending. They take half the memory of numpy's usual integers.
    """

    first: int
    last: int
    rows: np.ndarray


def step_batches(step: np.ndarray, rows: Rows, steps: np.ndarray, most: int) -> list[StepBatch]:
    """Return rows in batches of whole steps, in the order of the steps.

    Parameters
    ----------
    step : ndarray of int
        Step of each row of a run.
    rows : ndarray of int, or None
        Ascending; None for all. Rows of other steps are left out.
    steps : ndarray of int, shape (S,)
        Ascending.
    most : int
        Largest number of rows of a batch, unless a single step has more.

    Returns
    -------
    list of StepBatch
        At least one; all steps are in one of them.
    """
    counts = np.zeros(len(steps), np.int64)
    for _, position in _chunks(step, rows, steps):
        counts += np.bincount(position, minlength=len(steps))
    starts = _starts(counts, most)
    batch_of_step = np.repeat(np.arange(len(starts)), np.diff([*starts, len(steps)]))
    batch_of_step = batch_of_step.astype(np.min_scalar_type(len(starts)))  # numpy sorts small integers faster
    parts: list[list[np.ndarray]] = [[] for _ in starts]
    for chosen, position in _chunks(step, rows, steps):
        batch = batch_of_step[position]
        order = np.argsort(batch, kind="stable")
        bounds = np.searchsorted(batch[order], np.arange(len(starts) + 1))
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            parts[number].append(chosen[order[bounds[number] : bounds[number + 1]]])
    ends = [*starts[1:], len(steps)]
    return [
        StepBatch(first, last, np.concatenate([*part, np.empty(0, np.uint32)]))
        for first, last, part in zip(starts, ends, parts, strict=True)
    ]


def _chunks(step: np.ndarray, rows: Rows, steps: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield row numbers chunk by chunk, and the position of their steps."""
    count = len(step) if rows is None else len(rows)
    for start in range(0, count if len(steps) else 0, CHUNK):
        end = min(count, start + CHUNK)
        chosen = np.arange(start, end, dtype=np.uint32) if rows is None else rows[start:end].astype(np.uint32)
        of = step[start:end] if rows is None else step[chosen]
        position = np.searchsorted(steps, of)
        position[position == len(steps)] = 0
        known = steps[position] == of
        yield (chosen, position) if known.all() else (chosen[known], position[known])


def _starts(counts: np.ndarray, most: int) -> list[int]:
    """Return the position of each batch's first step, from the number of rows of each step."""
    starts, size = [0], 0
    for position, count in enumerate(counts.tolist()):
        if size and size + count > most:
            starts.append(position)
            size = 0
        size += count
    return starts
