"""The rows of a run with their statistics, and which of the rows live.

A row is never changed. When a file is replaced, its rows die: they are masked, and the statistics of
their steps are made anew from the rows that are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from rlpanel.metrics.compute import derive_columns, reduce_tokens
from rlpanel.metrics.registry import computed_columns
from rlpanel.sources.base import Chunk, Locator, Record
from rlpanel.sources.tail import line_hash
from rlpanel.store.columns import Columns
from rlpanel.store.steps import StepTable

Values = TypeVar("Values")

#: Most number columns and most label columns; a log that makes up keys must not fill the memory.
MOST_COLUMNS = 512
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
    left_out : str
        The first logged column beyond `MOST_COLUMNS`; empty if there is none.
    """

    def __init__(self) -> None:
        self.columns = Columns()
        self.steps = StepTable()
        self.alive = np.zeros(1024, bool)
        self.ranks: Counter[int] = Counter()
        self.left_out = ""
        self._dead = 0

    def append(self, file: int, chunk: Chunk, version: int) -> None:
        """Add the records of a chunk read from file number ``file``."""
        records = chunk.records
        place = _places(file, chunk.locators, records)
        numbers = _numbers(records)
        numbers = self._admit(numbers, self.columns.numbers)
        numbers |= reduce_tokens([record.arrays for record in records])
        numbers |= derive_columns(numbers)
        labels = self._admit(_labels(records), self.columns.labels)
        where = self.columns.append(place, numbers, labels)
        if where.stop > len(self.alive):
            self.alive = np.concatenate([self.alive, np.zeros(max(where.stop, len(self.alive)), bool)])
        self.alive[where] = True
        self.steps.add(place["step"], numbers, version)
        self.ranks.update(place["rank"].tolist())

    def bury(self, files: Iterable[int], version: int) -> None:
        """The rows of these files are dead."""
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

    def _admit(self, found: dict[str, Values], known: Mapping[str, object]) -> dict[str, Values]:
        """Logged columns under names that nothing else uses, as many as there is room for."""
        room = MOST_COLUMNS - len(known)
        admitted = {}
        for name, values in found.items():
            name = f"logged_{name}" if name in computed_columns() else name
            if name not in known:
                room -= 1
                if room < 0:
                    self.left_out = self.left_out or name
                    continue
            admitted[name] = values
        return admitted


def _places(file: int, locators: Sequence[Locator], records: Sequence[Record]) -> dict[str, np.ndarray]:
    found = zip(Locator._fields, zip(*locators, strict=True), strict=True)
    place = {name: np.array(values, Columns.PLACE[name]) for name, values in found}
    place["step"] = np.array([record.step for record in records], np.int64)
    place["rank"] = np.array([record.rank for record in records], np.int32)
    place["notes"] = np.array([min(len(record.notes), 255) for record in records], np.uint8)
    place["file"] = np.full(len(records), file, np.int32)
    place["prompt_hash"] = np.array([_prompt_hash(record) for record in records], np.uint64)
    return place


def _prompt_hash(record: Record) -> int:
    return line_hash(record.texts.get("prompt", "").encode())


def _numbers(records: Sequence[Record]) -> dict[str, np.ndarray]:
    """The records' numbers as columns; NaN where a record lacks one."""
    names = dict.fromkeys(name for record in records for name in record.numbers)
    return {name: np.array([record.numbers.get(name, np.nan) for record in records]) for name in names}


def _labels(records: Sequence[Record]) -> dict[str, list[str | None]]:
    names = dict.fromkeys(name for record in records for name in record.labels)
    return {name: [record.labels.get(name) for record in records] for name in names}
