"""The rows of a run with their statistics, and which of the rows live.

Chunks are staged as columns when they are read, so that neither records nor token arrays pile up, and
become rows together. A row is never changed. When a file is replaced, its rows die: they are masked,
and the statistics of their steps are made anew from the rows that are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
        self._staged: list[_Staged] = []
        self._number_names: set[str] = set()
        self._label_names: set[str] = set()
        self._dead = 0

    def stage(self, file: int, chunk: Chunk) -> None:
        """Take the records of a chunk read from file number ``file``; only their columns are kept."""
        records = chunk.records
        self._staged.append(
            _Staged(
                place=_places(file, chunk.locators, records),
                numbers=self._admit(_numbers(records), self._number_names)
                | reduce_tokens([record.arrays for record in records]),
                labels=self._admit(_labels(records), self._label_names),
            )
        )

    def add_staged(self, version: int) -> None:
        """What was staged becomes rows; their steps are noted as changed in ``version``."""
        staged, self._staged = self._staged, []
        if not staged:
            return
        place = {name: np.concatenate([part.place[name] for part in staged]) for name in Columns.PLACE}
        numbers = _join([part.numbers for part in staged], [part.rows for part in staged])
        numbers |= derive_columns(numbers)
        labels = {
            name: [text for part in staged for text in part.labels.get(name, [None] * part.rows)]
            for name in dict.fromkeys(name for part in staged for name in part.labels)
        }
        where = self.columns.append(place, numbers, labels)
        if where.stop > len(self.alive):
            self.alive = np.concatenate([self.alive, np.zeros(max(where.stop, len(self.alive)), bool)])
        self.alive[where] = True
        self.steps.add(place["step"], numbers, version)
        self.ranks.update(place["rank"].tolist())

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

    def _admit(self, found: dict[str, Values], known: set[str]) -> dict[str, Values]:
        """Logged columns under names that nothing else uses, as many as there is room for."""
        admitted = {}
        for name, values in found.items():
            name = f"logged_{name}" if name in computed_columns() else name
            if name in known or len(known) < MOST_COLUMNS:
                known.add(name)
                admitted[name] = values
            else:
                self.left_out = self.left_out or name
        return admitted


@dataclass(frozen=True)
class _Staged:
    """The columns of a chunk."""

    place: Mapping[str, np.ndarray]
    numbers: Mapping[str, np.ndarray]
    labels: Mapping[str, Sequence[str | None]]

    @property
    def rows(self) -> int:
        """How many samples it has."""
        return len(self.place["step"])


def _join(parts: Sequence[Mapping[str, np.ndarray]], sizes: Sequence[int]) -> dict[str, np.ndarray]:
    """Columns end to end; NaN where a part lacks one."""
    gaps = [np.full(size, np.nan) for size in sizes]
    return {
        name: np.concatenate([part.get(name, gap) for part, gap in zip(parts, gaps, strict=True)])
        for name in dict.fromkeys(name for part in parts for name in part)
    }


def _places(file: int, locators: Sequence[Locator], records: Sequence[Record]) -> dict[str, np.ndarray]:
    found = zip(Locator._fields, zip(*locators, strict=True), strict=True)
    place = {name: np.array(values, Columns.PLACE[name]) for name, values in found}
    place["file"] = np.full(len(records), file, np.int32)
    place["step"] = np.array([record.step for record in records], np.int64)
    place["rank"] = np.array([record.rank for record in records], np.int32)
    place["notes"] = np.array([min(len(record.notes), 255) for record in records], np.uint8)
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
