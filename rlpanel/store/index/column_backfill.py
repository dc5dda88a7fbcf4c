"""Columns that saved rows lack, because their metric over tokens is new: made from the lines, bit by bit.

Meanwhile the run is there with all that was saved. The rows' lines are read again by their places, and of
each only the token arrays are used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np

from rlpanel.errors import LineError, SourceChanged
from rlpanel.metrics.engine.compute import reduce_tokens
from rlpanel.sources.readers.jsonl import JsonlFile
from rlpanel.sources.records.json_parser import parse
from rlpanel.sources.records.record_types import Locator, Record
from rlpanel.store.columns.run_table import DEAD, RunTable

#: Seconds of one turn, and rows whose arrays are reduced together.
TURN_SECONDS, TOGETHER = 0.05, 256

Readers = Callable[[int], JsonlFile]


class ColumnBackfill:
    """Makes columns for the rows that a table has now.

    Parameters
    ----------
    table : RunTable
    names : iterable of str
        Columns to make.

    Attributes
    ----------
    stuck : bool
        Whether a file could not be read; nothing goes on until that is cleared.
    """

    def __init__(self, table: RunTable, names: Iterable[str]) -> None:
        self._table, self._names = table, tuple(names)
        self.stuck = False
        self._begin()

    def __bool__(self) -> bool:
        """Whether something is left to do."""
        return self._at < len(self._order)

    @property
    def waiting(self) -> int:
        """Bytes of lines that are to be read again."""
        return int(self._ends[-1] - self._ends[self._at])

    def turn(self, readers: Readers, version: int) -> bool:
        """Go on for a moment; True when the rows got their columns, in ``version``.

        Parameters
        ----------
        readers : callable
            Gives the reader of a file by its number.
        version : int
        """
        if self._columns is not self._table.columns:
            self._begin()  # the dead were left behind, and rows have other numbers now
        deadline = time.monotonic() + TURN_SECONDS
        while self and not self.stuck:
            self._some(readers)
            if time.monotonic() > deadline:
                break
        if self:
            return False
        self._table.complete(self._found, version)
        return True

    def _begin(self) -> None:
        self._columns, self._at = self._table.columns, 0
        file, offset, part, length = map(self._place, ("file", "offset", "part", "length"))
        living = np.flatnonzero(self._table.state[: len(file)] != DEAD)
        self._order = living[np.lexsort((part[living], offset[living], file[living]))]
        lengths = np.where(part[self._order] == 0, length[self._order], 0)  # a line of several is read once
        self._ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self._found: dict[str, np.ndarray] = {}
        self._rows = len(file)

    def _place(self, name: str) -> np.ndarray:
        return self._columns.place[name].view(self._columns.rows)

    def _some(self, readers: Readers) -> None:
        """The next rows."""
        rows = self._order[self._at : self._at + TOGETHER]
        living = rows[self._table.state[rows] != DEAD]
        files = self._place("file")[living].tolist()
        places = zip(*(self._place(name)[living].tolist() for name in Locator._fields), strict=True)
        samples, known, records = [], (-1, -1), list[Record]()
        try:
            for file, locator in zip(files, map(Locator._make, places), strict=True):
                if known != (file, locator.offset):
                    known, records = (file, locator.offset), _records(readers(file), locator)
                samples.append(records[locator.part].arrays if locator.part < len(records) else {})
        except OSError:
            self.stuck = True
            return
        numbers = {
            name: column.view(self._columns.rows)[living] for name, column in self._columns.numbers.items()
        }
        for name, values in reduce_tokens(samples, numbers, self._table.stage.constants).items():
            if name in self._names:
                self._found.setdefault(name, np.full(self._rows, np.nan))[living] = values
        self._at += len(rows)


def _records(reader: JsonlFile, locator: Locator) -> list[Record]:
    """The samples of a line; none where other bytes stand there now: then its rows are about to die.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    try:
        return reader.adapter.read(parse(reader.raw(locator)), reader.name, full=False)
    except LineError:
        return []
    except SourceChanged as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from error
        return []
