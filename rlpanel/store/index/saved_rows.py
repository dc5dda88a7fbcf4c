"""Saved rows of a run: restored when it is opened, completed by columns that they lack, and saved again.

Rows of files that were replaced or deleted are dropped on loading. Columns that are missing because their
token metric is new are computed by reading the lines again, in short turns, so that the run is usable
meanwhile with its saved columns. Only the token arrays of the lines are used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from rlpanel.errors import LineError, SourceChanged
from rlpanel.metrics.engine.compute import reduce_tokens
from rlpanel.settings import BackfillLimits, StoreLimits
from rlpanel.sources.discovery.directory import RolloutFileInfo
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.adapter_calls import read_samples
from rlpanel.sources.records.json_parser import parse
from rlpanel.sources.records.record_types import Locator, Record
from rlpanel.store.backlog.backlog import OpenFile, restore_open_file
from rlpanel.store.cache.run_cache import RunCache
from rlpanel.store.cache.saved_state import SavedRun
from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.row_table import DEAD, RowTable
from rlpanel.store.index.run_content import RunContent
from rlpanel.store.index.run_files import RunFile
from rlpanel.store.snapshot.snapshot import Snapshot

Readers = Callable[[int], JsonlFile]


class ColumnBackfill:
    """Computes columns for the rows that a table has when the backfill starts.

    Parameters
    ----------
    table : RowTable
    names : iterable of str
        Columns to compute.
    limits : BackfillLimits

    Attributes
    ----------
    stuck : bool
        True if a file could not be read; the backfill pauses until this is reset.
    """

    def __init__(self, table: RowTable, names: Iterable[str], limits: BackfillLimits) -> None:
        self._table, self._names, self._limits = table, tuple(names), limits
        self.stuck = False
        self._start()

    def __bool__(self) -> bool:
        """Return True if rows are left to process."""
        return self._done < len(self._order)

    @property
    def waiting(self) -> int:
        """Bytes of lines that still have to be read again."""
        return int(self._ends[-1] - self._ends[self._done])

    def run(self, readers: Readers, version: int) -> bool:
        """Run for one turn; True once the columns were added to the table, in ``version``.

        Parameters
        ----------
        readers : callable
            Returns the reader of a file by its number.
        version : int
        """
        if self._columns is not self._table.columns:
            self._start()  # the table was compacted, which changed the row numbers
        deadline = time.monotonic() + self._limits.turn_seconds
        while self and not self.stuck:
            self._process_rows(readers)
            if time.monotonic() > deadline:
                break
        if self:
            return False
        self._table.add_columns(self._values, version)
        return True

    def _start(self) -> None:
        self._columns, self._done = self._table.columns, 0
        file, offset, part, length = map(self._column, ("file", "offset", "part", "length"))
        living = np.flatnonzero(self._table.state[: len(file)] != DEAD)
        self._order = living[np.lexsort((part[living], offset[living], file[living]))]
        # A line with several samples is read once, so its length counts for the first one only.
        lengths = np.where(part[self._order] == 0, length[self._order], 0)
        self._ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self._values: dict[str, np.ndarray] = {}
        self._rows = len(file)

    def _column(self, name: str) -> np.ndarray:
        return self._columns.metadata[name].view(self._columns.rows)

    def _process_rows(self, readers: Readers) -> None:
        """Process the next rows."""
        rows = self._order[self._done : self._done + self._limits.batch_rows]
        living = rows[self._table.state[rows] != DEAD]
        files = self._column("file")[living].tolist()
        locators = zip(*(self._column(name)[living].tolist() for name in Locator._fields), strict=True)
        samples, last_line, records = [], (-1, -1), list[Record]()
        try:
            for file, locator in zip(files, map(Locator._make, locators), strict=True):
                if last_line != (file, locator.offset):
                    last_line, records = (file, locator.offset), _read_records(readers(file), locator)
                samples.append(records[locator.part].arrays if locator.part < len(records) else {})
        except OSError:
            self.stuck = True
            return
        numbers = {
            name: column.view(self._columns.rows)[living] for name, column in self._columns.numbers.items()
        }
        for name, values in reduce_tokens(samples, numbers, self._table.stage.constants).items():
            if name in self._names:
                self._values.setdefault(name, np.full(self._rows, np.nan))[living] = values
        self._done += len(rows)


def _read_records(reader: JsonlFile, locator: Locator) -> list[Record]:
    """Parse the samples of a line; empty if its bytes have changed: then its rows will be marked dead soon.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    try:
        return read_samples(reader.adapter, parse(reader.raw(locator)), reader.name, full=False)
    except LineError:
        return []
    except SourceChanged as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from error
        return []


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
