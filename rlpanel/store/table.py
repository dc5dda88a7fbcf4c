"""The rows of a run with their statistics, and which of the rows live.

A row is never changed. When a file is replaced, its rows die: they are masked, and the statistics of
their steps are made anew from the rows that are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from rlpanel.sources.base import Chunk
from rlpanel.store.columns import Columns
from rlpanel.store.stage import Stage
from rlpanel.store.steps import StepTable

#: Rows that may wait on the stage.
STAGED_ROWS = 32_768
#: Dead rows that are kept before the living are gathered anew.
DEAD_KEPT = 65_536


class Table:
    """Rows, their statistics and the mask of the living.

    Attributes
    ----------
    columns : Columns
    steps : StepTable
    alive : ndarray of bool
        Longer than the rows; never changed where a snapshot can see it.
    ranks : Counter
        Living rows by rank.
    stage : Stage
        What was read and is no row yet.
    """

    def __init__(self) -> None:
        self.columns = Columns()
        self.steps = StepTable()
        self.alive = np.zeros(1024, bool)
        self.ranks: Counter[int] = Counter()
        self.stage = Stage()
        self._dead = 0

    def take(self, file: int, chunk: Chunk, version: int) -> None:
        """The records of a chunk read from file number ``file``; they become rows now or later."""
        self.stage.take(file, chunk)
        if len(self.stage) >= STAGED_ROWS:
            self.add_staged(version)

    def add_staged(self, version: int) -> None:
        """What was taken becomes rows; their steps are noted as changed in ``version``."""
        new = self.stage.flush()
        if new is None:
            return
        where = self.columns.append(new.place, new.numbers, new.labels)
        if where.stop > len(self.alive):
            self.alive = np.concatenate([self.alive, np.zeros(max(where.stop, len(self.alive)), bool)])
        self.alive[where] = True
        self.steps.add(new.place["step"], new.numbers, version)
        self.ranks.update(new.place["rank"].tolist())

    def bury(self, files: Iterable[int], version: int) -> None:
        """The rows of these files are dead."""
        self.add_staged(version)
        rows = self.columns.rows
        dead = np.isin(self.columns.place["file"].view(rows), list(files)) & self.alive[:rows]
        if not dead.any():
            return
        steps = self.columns.place["step"].view(rows)
        touched = np.unique(steps[dead])
        self.alive = self.alive.copy()  # snapshots still look at the old mask
        self.alive[:rows][dead] = False
        self.ranks -= Counter(self.columns.place["rank"].view(rows)[dead].tolist())
        self.steps.clear(touched, version)
        left = np.flatnonzero(np.isin(steps, touched) & self.alive[:rows])
        if len(left):
            values = {name: column.view(rows)[left] for name, column in self.columns.numbers.items()}
            self.steps.add(steps[left], values, version)
        self._dead += int(dead.sum())
        if self._dead > max(DEAD_KEPT, rows // 2):
            self._gather()

    def _gather(self) -> None:
        """Leave the dead behind."""
        living = np.flatnonzero(self.alive[: self.columns.rows])
        self.columns = self.columns.only(living)
        self.alive = np.ones(max(1024, len(living)), bool)
        self._dead = 0
