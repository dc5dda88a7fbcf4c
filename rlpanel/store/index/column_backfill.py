"""Backfills columns that saved rows lack because their token metric is new, by reading the lines again.

It runs in short turns, so that the run is usable meanwhile with its saved columns. Only the token arrays of
the lines are used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np

from rlpanel.errors import LineError, SourceChanged
from rlpanel.metrics.engine.compute import reduce_tokens
from rlpanel.settings import BackfillLimits
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.adapter_calls import read_samples
from rlpanel.sources.records.json_parser import parse
from rlpanel.sources.records.record_types import Locator, Record
from rlpanel.store.columns.run_table import DEAD, RunTable

Readers = Callable[[int], JsonlFile]


class ColumnBackfill:
    """Computes columns for the rows that a table has when the backfill starts.

    Parameters
    ----------
    table : RunTable
    names : iterable of str
        Columns to compute.
    limits : BackfillLimits

    Attributes
    ----------
    stuck : bool
        True if a file could not be read; the backfill pauses until this is reset.
    """

    def __init__(self, table: RunTable, names: Iterable[str], limits: BackfillLimits) -> None:
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
