"""The rows of a run with their statistics, and what each row counts for.

A row is never changed, but what it counts for may: when a file is replaced, its rows die; when a job is
restarted, rows of the older attempt are set aside; of equal lines that chance cannot have made only one
counts. The statistics of the steps concerned are then made anew from the rows that count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from rlpanel.metrics.engine.compute import derive_columns
from rlpanel.sources.records.record_types import Chunk
from rlpanel.store.columns.columns import Column, Columns
from rlpanel.store.columns.hash_set import HashSet, mix
from rlpanel.store.columns.restart_detection import Restart, RestartDetector
from rlpanel.store.columns.row_builder import RowBuilder, Rows
from rlpanel.store.columns.splits import (
    COLUMN,
    MOST_SPLITS,
    TRAIN,
    TRAIN_CODE,
    Parts,
    SplitSteps,
    Where,
    code_of,
    name_of,
    parts_of,
    split_codes,
)

#: What a row counts for: nothing, because its line is gone; as a sample; as a sample, although an equal line
#: came before; nothing, because an equal line came before; nothing, because it belongs to an older attempt.
DEAD, COUNTED, REPEATED, DUPLICATE, OLDER = range(5)

#: A response of this surprisal is not drawn twice (its chance is below 1 in 10^27). The number of tokens
#: would not tell: a policy that collapses draws long responses again and again, and those samples count.
UNLIKELY = 64.0
#: Lines of one file, rank and split, in the order of the file.
Sequence = tuple[int, int, str]
#: Rows that may wait on the stage.
STAGED_ROWS = 32_768
#: Dead rows that are kept before the living are gathered anew.
DEAD_KEPT = 65_536


class RunTable:
    """Rows, their statistics and their state.

    Attributes
    ----------
    files : list of str
        Names by file number; of two equal lines the first by name and offset counts.
    columns : Columns
    steps : SplitSteps
        Statistics of the rows that count, split by split.
    state : ndarray of uint8
        Longer than the rows; never changed where a snapshot can see it.
    ranks : Counter
        Living rows by rank.
    restarts : dict of (file, rank, split) to list of Restart
    stage : RowBuilder
        What was read and is no row yet.
    loose : dict of int to int
        Files whose lines come in any order for now, and from which offset on: the lines of a part are
        counted from its first, until `settle` ends that.
    """

    def __init__(self) -> None:
        self.files: list[str] = []
        self.columns = Columns()
        self.steps = SplitSteps()
        self.state = np.zeros(1024, np.uint8)
        self.ranks: Counter[int] = Counter()
        self.restarts: dict[Sequence, list[Restart]] = {}
        self.stage = RowBuilder()
        self.loose: dict[int, int] = {}
        self._attempts: dict[Sequence, RestartDetector] = {}
        self._seen = HashSet()

    def take(self, file: int, chunk: Chunk, version: int) -> None:
        """The records of a chunk read from file number ``file``; they become rows now or later."""
        self.stage.take(file, chunk)
        if len(self.stage) >= STAGED_ROWS:
            self.add_staged(version)

    def join(self, rows: Rows, version: int) -> None:
        """Rows that another stage gathered."""
        self.stage.join(rows)
        if len(self.stage) >= STAGED_ROWS:
            self.add_staged(version)

    def loosen(self, files: Mapping[int, int], version: int) -> None:
        """Lines of these files come in any order from an offset on, and nobody knows their numbers."""
        self.add_staged(version)
        self.loose |= files

    def settle(self, file: int, starts: np.ndarray, before: np.ndarray, version: int) -> None:
        """All lines of a loose file have come.

        Parameters
        ----------
        file : int
        starts, before : ndarray of int, shape (P,)
            Where the parts begin that came in any order, ascending, and how many lines stand before each.
        version : int
        """
        self.add_staged(version)
        self.loose.pop(file, None)
        rows = np.flatnonzero((self._place("file") == file) & (self._state() != DEAD))
        if not len(rows):
            return
        rows = rows[np.argsort(self._place("offset")[rows], kind="stable")]
        part = np.searchsorted(starts, self._place("offset")[rows], "right") - 1
        moved, part = rows[part >= 0], part[part >= 0]
        self.columns.renumber(moved, self._place("line")[moved] + before[part])
        changed = self._set_aside(self._restarts_of(file, rows))
        if changed:
            self._count_anew(changed, version)

    def add_staged(self, version: int) -> None:
        """What was taken becomes rows; their steps are noted as changed in ``version``."""
        new = self.stage.flush()
        if new is not None:
            self.add(new, version)

    def add(self, new: Rows, version: int) -> None:
        """Append rows; rows of one file in the order of their lines, unless it is loose."""
        where = self.columns.append(new.place, new.numbers, new.labels)
        if where.stop > len(self.state):
            grown = np.zeros(max(where.stop, 2 * len(self.state)), np.uint8)
            grown[: where.start] = self.state[: where.start]
            self.state = grown
        self.state[where] = COUNTED
        self.ranks.update(new.place["rank"].tolist())
        parts = self._parts(where)
        self.steps.count(parts, len(new))
        changed = self._set_aside(self._restarts(new, where.start))
        changed |= self._tell_twins(new)
        if len(changed):
            self._count_anew(changed | set(new.place["step"].tolist()), version)
        else:
            self.steps.add(parts, new.place["step"], new.numbers, version)

    def adopt(self, columns: Columns, version: int) -> None:
        """Begin with rows that were saved; their files are in `files` already."""
        rows = columns.rows
        numbers = {name: column.view(rows) for name, column in columns.numbers.items()}
        self.stage.know(numbers, columns.labels)
        for name, values in derive_columns(numbers, self.stage.constants).items():
            columns.numbers[name] = Column(np.float64, np.nan)
            columns.numbers[name].write(0, values)
        self.columns, self.state = columns, np.full(max(1024, rows), COUNTED, np.uint8)
        if not rows:
            return
        ranks, times = np.unique(self._place("rank"), return_counts=True)
        self.ranks = Counter(dict(zip(ranks.tolist(), times.tolist(), strict=True)))
        self.steps.count(self._parts(slice(None)), rows)
        saved = Rows({name: self._place(name) for name in Columns.PLACE}, {}, {})
        self._set_aside(self._restarts(saved, 0))
        self._tell_twins(saved)
        self._count_all(version)

    def complete(self, found: Mapping[str, np.ndarray], version: int) -> None:
        """Give the first rows columns that they lacked, and what follows from those.

        Parameters
        ----------
        found : mapping of str to ndarray of float, shape (N,)
            Rows that came later have values of their own.
        version : int
        """
        self.add_staged(version)
        rows, numbers = self.columns.rows, self.columns.numbers
        for name, values in found.items():
            later = numbers[name].view(rows)[len(values) :] if name in numbers else np.empty(0)
            numbers[name] = Column(np.float64, np.nan)
            numbers[name].write(0, np.concatenate([values, later]))
        known = {name: column.view(rows) for name, column in numbers.items()}
        for name, values in derive_columns(known, self.stage.constants).items():
            numbers[name] = Column(np.float64, np.nan)
            numbers[name].write(0, values)
        self.steps.clear(self._place("step"), version)
        self._count_all(version)

    def _count_all(self, version: int) -> None:
        """Statistics of all rows that count."""
        rows = self.columns.rows
        counted = np.flatnonzero(counts(self._state()))
        for start in range(0, len(counted), STAGED_ROWS):  # so that copies stay small
            part = counted[start : start + STAGED_ROWS]
            parts = {name: column.view(rows)[part] for name, column in self.columns.numbers.items()}
            self.steps.add(self._parts(part), self._place("step")[part], parts, version)

    def mark_dead(self, files: Iterable[int], version: int) -> None:
        """The rows of these files are dead."""
        self.add_staged(version)
        numbers = set(files)
        self.loose = {file: start for file, start in self.loose.items() if file not in numbers}
        for key in [key for key in self._attempts if key[0] in numbers]:
            del self._attempts[key]
            self.restarts.pop(key, None)
        dead = np.flatnonzero(np.isin(self._place("file"), list(numbers)) & (self._state() != DEAD))
        if not len(dead):
            return
        self.ranks -= Counter(self._place("rank")[dead].tolist())
        self.steps.count(self._parts(dead), len(dead), -1)
        touched = set(self._place("step")[dead].tolist())
        self._write(dead, DEAD)
        self._judge_twins(touched)
        self._count_anew(touched, version)
        if np.count_nonzero(self._state() == DEAD) > max(DEAD_KEPT, self.columns.rows // 2):
            self._gather(version)

    # -- inside ----------------------------------------------------------------------------------

    def _place(self, name: str) -> np.ndarray:
        return self.columns.place[name].view(self.columns.rows)

    def _state(self) -> np.ndarray:
        return self.state[: self.columns.rows]

    def _codes(self, where: Where) -> np.ndarray:
        """The split of some rows, as a code that holds as long as no row is left behind."""
        found = split_codes(self.columns.labels, self.columns.rows, where)
        return np.full(len(self._place("file")[where]), TRAIN_CODE) if found is None else found[0]

    def _parts(self, where: Where) -> Parts:
        """Rows by their split."""
        found = split_codes(self.columns.labels, self.columns.rows, where)
        return [(TRAIN, slice(None))] if found is None else parts_of(*found)

    def _write(self, rows: np.ndarray, state: int | np.ndarray) -> None:
        self.state = self.state.copy()  # snapshots still look at the old one
        self.state[rows] = state

    def _count_anew(self, steps: set[int], version: int) -> None:
        """Statistics of these steps from the rows that count: a merge cannot subtract."""
        every = self._place("step")
        self.steps.clear(np.array(sorted(steps)), version)
        rows = np.flatnonzero(np.isin(every, list(steps)) & counts(self._state()))
        if len(rows):
            found = self.columns.numbers.items()
            values = {name: column.view(self.columns.rows)[rows] for name, column in found}
            self.steps.add(self._parts(rows), every[rows], values, version)

    def _gather(self, version: int) -> None:
        """Leave the dead behind."""
        living = np.flatnonzero(self._state() != DEAD)
        state = np.zeros(max(1024, len(living)), np.uint8)
        state[: len(living)] = self._state()[living]
        splits = self.columns.labels.get(COLUMN)
        crowded = splits is not None and len(splits.names) > MOST_SPLITS
        self.columns, self.state = self.columns.only(living), state
        self._seen = HashSet()
        self._seen.take(_line_keys(self._place("hash"), self._place("step"), self._place("part")))
        if crowded:  # there is room for other splits now
            self.steps = SplitSteps()
            self.steps.count(self._parts(slice(None)), self.columns.rows)
            self._count_all(version)

    # -- attempts --------------------------------------------------------------------------------

    def _restarts(self, new: Rows, start: int) -> list[tuple[Sequence, Restart]]:
        """Restarts among the new rows, with the sequence of lines that they are in."""
        file, rank, step = (new.place[name] for name in ("file", "rank", "step"))
        lines, split = [rank, file], None
        if COLUMN in self.columns.labels:
            split = self._codes(slice(start, start + len(new)))
            lines = [split, *lines]
        order = np.lexsort((new.place["offset"], *lines))
        borders = np.logical_or.reduce([of[order][1:] != of[order][:-1] for of in lines])
        found = []
        for rows in np.split(order, np.flatnonzero(borders) + 1):
            code = TRAIN_CODE if split is None else int(split[rows[0]])
            key = int(file[rows[0]]), int(rank[rows[0]]), self._split_name(code)
            if key[0] in self.loose:
                continue
            attempts = self._attempts.setdefault(key, RestartDetector())
            steps = step[rows]
            if (np.diff(steps) >= 0).all() and attempts.rise(int(steps[0]), int(steps[-1])):
                continue
            known = self._known(key, start)
            restarts = attempts.feed(_runs(steps, new.place["offset"][rows]), known)
            self.restarts.setdefault(key, []).extend(restarts)
            found += [(key, restart) for restart in restarts]
        return found

    def _restarts_of(self, file: int, rows: np.ndarray) -> list[tuple[Sequence, Restart]]:
        """Restarts among all rows of a file, given in the order of its lines."""
        ranks, splits, found = self._place("rank")[rows], self._codes(rows), []
        for rank, split in sorted(set(zip(ranks.tolist(), splits.tolist(), strict=True))):
            mine = rows[(ranks == rank) & (splits == split)]
            key = file, rank, self._split_name(split)
            attempts = self._attempts[key] = RestartDetector()
            restarts = attempts.feed(_runs(self._place("step")[mine], self._place("offset")[mine]), {})
            self.restarts[key] = restarts
            found += [(key, restart) for restart in restarts]
        return found

    def _split_name(self, code: int) -> str:
        return TRAIN if code == TRAIN_CODE else name_of(code, self.columns.labels[COLUMN].names)

    def _in_sequence(self, key: Sequence, rows: int) -> np.ndarray:
        """Which of the first rows are of one file, rank and split."""
        file, rank, split = key
        codes = self._codes(slice(rows))
        code = TRAIN_CODE if split == TRAIN else code_of(split, self.columns.labels[COLUMN].names)
        mine = (self._place("file")[:rows] == file) & (self._place("rank")[:rows] == rank)
        return mine & (codes == code)

    def _known(self, key: Sequence, before: int) -> dict[int, int]:
        """Rows by step of a sequence's newest attempt, those from row ``before`` on left out."""
        state = self.state[:before]
        mine = self._in_sequence(key, before)
        steps = self._place("step")[:before][mine & (state != DEAD) & (state != OLDER)]
        return dict(zip(*(part.tolist() for part in np.unique(steps, return_counts=True)), strict=True))

    def _set_aside(self, restarts: list[tuple[Sequence, Restart]]) -> set[int]:
        """What came before a restart and belongs to its step or a later one is older; the steps concerned."""
        changed: set[int] = set()
        for key, restart in restarts:
            mine = self._in_sequence(key, self.columns.rows)
            mine &= (self._place("offset") < restart.offset) & (self._place("step") >= restart.step)
            older = np.flatnonzero(mine & (self._state() != DEAD))
            changed |= set(self._place("step")[older].tolist())
            self._write(older, OLDER)
        self._judge_twins(changed)
        return changed

    # -- lines that came before ------------------------------------------------------------------

    def _tell_twins(self, new: Rows) -> set[int]:
        """Judge the steps of new lines that came before; returns the steps whose statistics that changes."""
        place = new.place
        twins = self._seen.take(_line_keys(place["hash"], place["step"], place["part"]))
        return self._judge_twins(set(place["step"][twins].tolist()))

    def _judge_twins(self, steps: set[int]) -> set[int]:
        """Of equal lines in a step the first by file and offset counts, others if chance may have made them.

        Returns the steps in which other rows count now.
        """
        if not steps:
            return set()
        rows = np.flatnonzero(np.isin(self._place("step"), list(steps)) & (self._state() != DEAD))
        rows = rows[self.state[rows] != OLDER]
        if not len(rows):
            return set()
        at = {name: self._place(name)[rows] for name in ("file", "offset", "part", "step", "hash")}
        at["split"] = self._codes(rows)
        by_name = np.argsort(np.argsort(np.array(self.files, dtype=object)))[at["file"]]
        order = np.lexsort((at["offset"], by_name, at["part"], at["hash"], at["split"], at["step"]))
        same = [at[name][order][1:] == at[name][order][:-1] for name in ("step", "split", "hash", "part")]
        again = np.zeros(len(rows), bool)
        again[order[1:]] = np.logical_and.reduce(same)
        state = np.where(again, np.where(self._unlikely(rows), DUPLICATE, REPEATED), COUNTED)
        changed = counts(state) != counts(self.state[rows])
        if (state != self.state[rows]).any():
            self._write(rows, state)
        return set(at["step"][changed].tolist())

    def _unlikely(self, rows: np.ndarray) -> np.ndarray:
        """Whether chance cannot have drawn a row's response twice; without logprobs nobody knows."""
        surprisal = self.columns.numbers.get("surprisal_sum")
        if surprisal is None:
            return np.zeros(len(rows), bool)
        return surprisal.view(self.columns.rows)[rows] >= UNLIKELY


def counts(state: np.ndarray) -> np.ndarray:
    """Which rows count as samples."""
    return (state == COUNTED) | (state == REPEATED)


def _line_keys(line: np.ndarray, step: np.ndarray, part: np.ndarray) -> np.ndarray:
    """One key for a line, its step and its part."""
    return line ^ mix(step.astype(np.uint64) ^ (part.astype(np.uint64) << np.uint64(48)))


def _runs(steps: np.ndarray, offsets: np.ndarray) -> list[tuple[int, int, int]]:
    """Neighbouring lines of one step: the step, the first one's offset, how many."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(steps)) + 1])
    lines = np.diff(np.append(starts, len(steps)))
    return list(zip(steps[starts].tolist(), offsets[starts].tolist(), lines.tolist(), strict=True))
