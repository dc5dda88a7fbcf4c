"""Saved rows of a run: restored when it is opened, completed by columns that they lack, and saved again.

Rows of files that were replaced or deleted are dropped on loading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rlpanel.settings import StoreLimits
from rlpanel.sources.discovery.directory import RolloutFileInfo
from rlpanel.store.backlog.backlog import OpenFile, restore_open_file
from rlpanel.store.cache.run_cache import RunCache
from rlpanel.store.cache.saved_state import SavedRun
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.run_table import DEAD
from rlpanel.store.index.column_backfill import ColumnBackfill
from rlpanel.store.index.run_content import RunContent
from rlpanel.store.index.run_files import RunFile
from rlpanel.store.snapshot.snapshot import Snapshot

AddFile = Callable[[str, RolloutFileInfo], RunFile]


class SavedRows:
    """Restores the rows of a run from its cache, and saves them to it.

    Parameters
    ----------
    content : RunContent
        Without rows yet.
    cache : RunCache or None
    limits : StoreLimits

    Attributes
    ----------
    backfill : ColumnBackfill or None
        Computes the columns that restored rows lack; None once that is done.
    problem : str
        Reason why the rows are not saved, if that failed in an unexpected way.
    """

    def __init__(self, content: RunContent, cache: RunCache | None, limits: StoreLimits) -> None:
        self._content, self._cache, self._limits = content, cache, limits
        self.backfill: ColumnBackfill | None = None
        self.problem = ""
        self._restored = False
        self._version = 0  # that of the last save

    def restore(self, seen: Mapping[str, RolloutFileInfo], add_file: AddFile) -> None:
        """Start with the rows from the cache, for all files that are unchanged or only grew; only once.

        Parameters
        ----------
        seen : mapping of str to RolloutFileInfo
            The files in the run's folder by name.
        add_file : callable
            Adds a file to the run and returns it.
        """
        if self._restored:
            return
        self._restored = True
        saved, table = self._cache.load() if self._cache is not None else None, self._content.table
        if saved is None or saved.constants != list(table.stage.constants.at_ingest):
            return
        restore_run(saved, seen, add_file, self._content)
        if saved.missing:
            self.backfill = ColumnBackfill(table, saved.missing, self._limits.backfill)

    def run_backfill(self) -> None:
        """Continue to backfill the columns of new metrics, for rows that were saved without them."""
        content, files = self._content, self._content.files.numbered
        if self.backfill is not None and self.backfill.run(
            lambda number: files[number].reader, content.version
        ):
            self.backfill, content.changed = None, True

    def is_due(self, snapshot: Snapshot, *, last: bool) -> bool:
        """Return True if a published snapshot is to be saved; small logs are not.

        Once line numbers have changed, everything must be written again; so this waits for the backlog.
        """
        if self._cache is None or self.backfill is not None or snapshot.version == self._version:
            return False
        is_large = snapshot.progress.bytes_read >= self._limits.cache.min_log_bytes
        return is_large and (
            last or (self._cache.due and not (self._content.renumbered and self._content.backlog))
        )

    def save(self, version: int) -> bool:
        """Save the rows as those of a version; return whether that succeeded."""
        if self._cache is None or not self._cache.save(saved_run(self._content)):
            return False
        self._version, self._content.renumbered = version, False
        return True

    def release(self) -> None:
        """Let other processes save."""
        if self._cache is not None:
            self._cache.close()

    def stop(self, reason: str = "") -> None:
        """Never save again."""
        self.release()
        self._cache, self.problem = None, reason or self.problem


def saved_run(content: RunContent) -> SavedRun:
    """Return the state to save. A file that was replaced and not read again yet is left out."""
    states, table = [], content.table
    for file in content.files.numbered:
        mark = None if file.gone else file.reader.mark(file.generation)
        if mark is not None:
            states.append(file.state(mark, content.backlog.state(file.number)))
    constants = list(table.stage.constants.at_ingest)
    return SavedRun(
        table.columns,
        states,
        content.newest_line,
        table.stage.left_out,
        constants,
        has_repeats=table.has_repeats,
        dead=dead_rows(table.state[: table.columns.rows]),
    )


def restore_run(
    saved: SavedRun, seen: Mapping[str, RolloutFileInfo], add_file: AddFile, content: RunContent
) -> None:
    """Add the saved rows of all files that are unchanged or only grew, and continue their backlog."""
    kept: dict[int, int] = {}  # as for `kept_rows`
    unsettled: list[OpenFile] = []
    table, backlog = content.table, content.backlog
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
            content.restore(file, state)
            kept[state.number] = file.number
            unsettled += [unfinished] if unfinished is not None else []
    table.backlog_starts = {unfinished.file: unfinished.start for unfinished in unsettled}
    backlog.add(unsettled)
    columns = kept_rows(saved.columns, kept, saved.dead)
    table.restore(columns, content.version, has_repeats=saved.has_repeats)
    table.stage.left_out, content.newest_line = saved.left_out, saved.newest_line


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
