"""Converts a run to and from its saved state; rows of replaced or deleted files are dropped on loading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rlpanel.sources.discovery.directory import RolloutFileInfo
from rlpanel.store.backlog.backlog import Backlog, OpenFile, restore_open_file
from rlpanel.store.cache.saved_state import SavedRun
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.run_table import DEAD, RunTable
from rlpanel.store.index.run_files import RunFile

AddFile = Callable[[str, RolloutFileInfo], RunFile]


def saved_run(table: RunTable, files: Sequence[RunFile], backlog: Backlog, newest_line: float) -> SavedRun:
    """Return the state to save. A file that was replaced and not read again yet is left out."""
    states = []
    for file in files:
        mark = None if file.gone else file.reader.mark(file.generation)
        if mark is not None:
            states.append(file.state(mark, backlog.state(file.number)))
    constants = list(table.stage.constants.at_ingest)
    return SavedRun(
        table.columns,
        states,
        newest_line,
        table.stage.left_out,
        constants,
        has_repeats=table.has_repeats,
        dead=dead_rows(table.state[: table.columns.rows]),
    )


def restore_run(
    saved: SavedRun,
    seen: Mapping[str, RolloutFileInfo],
    add_file: AddFile,
    table: RunTable,
    backlog: Backlog,
    version: int,
) -> None:
    """Add the saved rows of all files that are unchanged or only grew, and continue their backlog.

    Parameters
    ----------
    saved : SavedRun
    seen : mapping of str to RolloutFileInfo
        The files in the run's folder by name.
    add_file : callable
        Adds a file to the run and returns it.
    table : RunTable
        An empty table.
    backlog : Backlog
        An empty backlog.
    version : int
        Version of the next snapshot.
    """
    kept: dict[int, int] = {}  # as for `kept_rows`
    unsettled: list[OpenFile] = []
    for state in saved.files:
        found = seen.get(state.name)
        if found is None or found.adapter.name != state.adapter:
            continue
        file = add_file(state.name, found)
        unfinished = None
        if state.unsettled is not None:
            unfinished = restore_open_file(
                file.number, file.reader, state.unsettled, file.modified, backlog.range_bytes
            )
            if unfinished is None or saved.missing:
                continue
        # Column backfill needs random access, so compressed files are skipped.
        if (file.reader.lines_on_disk or not saved.missing) and file.reader.resume(state.mark):
            file.restore(state)
            kept[state.number] = file.number
            unsettled += [unfinished] if unfinished is not None else []
    table.backlog_starts = {unfinished.file: unfinished.start for unfinished in unsettled}
    backlog.add(unsettled)
    table.restore(kept_rows(saved.columns, kept, saved.dead), version, has_repeats=saved.has_repeats)
    table.stage.left_out = saved.left_out


def dead_rows(state: np.ndarray) -> list[tuple[int, int]]:
    """Return the dead rows, as pairs of a row and the row after the last one."""
    borders = np.flatnonzero(np.diff(state == DEAD, prepend=False, append=False))
    return list(zip(borders[::2].tolist(), borders[1::2].tolist(), strict=True))


def kept_rows(columns: Columns, kept: Mapping[int, int], dead: Sequence[tuple[int, int]]) -> Columns:
    """Return the rows of kept files with new file numbers; the same object if nothing changes.

    Parameters
    ----------
    columns : Columns
    kept : mapping of int to int
        Old file number to new file number.
    dead : sequence of (int, int)
        As in `SavedRun`.
    """
    file = columns.metadata["file"].view(columns.rows)
    n_files = 1 + max([*kept, *file[:1], int(file.max(initial=-1))])
    number = np.full(n_files, -1, np.int32)
    for old, new in kept.items():
        number[old] = new
    alive = number[file] >= 0
    for first, end in dead:
        alive[first:end] = False
    if alive.all() and all(old == new for old, new in kept.items()):
        return columns
    selected = columns.select(np.flatnonzero(alive))
    selected.metadata["file"].write(0, number[file[alive]])
    return selected
