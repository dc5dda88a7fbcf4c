"""What is saved of a run, and which saved rows count: those of the newest generation of files still there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlpanel.store.backlog.backlog import Backlog
from rlpanel.store.cache.run_cache import SavedRun
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.run_table import DEAD, RunTable
from rlpanel.store.index.run_file import RunFile


def state_of(table: RunTable, files: Sequence[RunFile], backlog: Backlog, newest_line: float) -> SavedRun:
    """What is to be saved. A file that was replaced and not read again yet is left out."""
    since = first_living(table.columns, table.state, len(files))
    kept = []
    for file in files:
        mark = None if file.gone else file.reader.mark(file.generation)
        if mark is not None:
            kept.append(file.state(since[file.number], mark, backlog.state(file.number)))
    constants = list(table.stage.constants.at_ingest)
    return SavedRun(table.columns, kept, newest_line, table.stage.left_out, constants)


def first_living(columns: Columns, state: np.ndarray, files: int) -> list[int]:
    """For each file the row behind its last dead one: rows die by the file, so all before it are dead."""
    since = np.zeros(files, np.int64)
    dead = np.flatnonzero(state[: columns.rows] == DEAD)
    np.maximum.at(since, columns.place["file"].view(columns.rows)[dead], dead + 1)
    return since.tolist()


def kept_rows(columns: Columns, kept: Mapping[int, tuple[int, int]]) -> Columns:
    """The rows of kept files under their new numbers; the same columns where that is all of them.

    Parameters
    ----------
    columns : Columns
    kept : mapping of int to (int, int)
        By the number that a file had: the one it has now, and the row from which its rows count.
    """
    file = columns.place["file"].view(columns.rows)
    most = 1 + max([*kept, *file[:1], int(file.max(initial=-1))])
    number, since = np.full(most, -1, np.int32), np.full(most, columns.rows, np.int64)
    for old, (new, first) in kept.items():
        number[old], since[old] = new, first
    alive = np.arange(columns.rows) >= since[file]
    if alive.all() and all(old == new for old, (new, _) in kept.items()):
        return columns
    found = columns.only(np.flatnonzero(alive))
    found.place["file"].write(0, number[file[alive]])
    return found
