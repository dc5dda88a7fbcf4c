"""Determines which rows belong to an older attempt, because a restarted job logged their steps again.

Lines with a session of rlpanel's recorder are compared with those of other sessions, see `recorder_sessions`.
Within a session, and among lines without one, jumps back are looked for, see `restart_detection`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.recorder_sessions import (
    NO_SESSION,
    TIME_COLUMN,
    LinePlace,
    SessionAttempts,
    SessionLines,
    SessionNumbers,
    latest_times,
)
from rlpanel.store.columns.restart_detection import Restart, RestartDetector
from rlpanel.store.columns.splits import TRAIN, TRAIN_CODE, split_code, split_codes, split_name

#: Key of a sequence of lines in file order: file number, rank, split, number of the recorder's session.
LineSequence = tuple[int, int, str, int]
Alive = Callable[[], np.ndarray]


class Attempts:
    """Attempts of a run. Each method gets the run's columns, because the table may replace them.

    Parameters
    ----------
    files : list of str
        Names by file number; may grow.
    once_per_step : mapping of int to str
        What is logged once per step in a file, by its number; may change.
    """

    def __init__(self, files: Sequence[str], once_per_step: Mapping[int, str]) -> None:
        self._files, self._once_per_step = files, once_per_step
        self._restarts: dict[LineSequence, list[Restart]] = {}
        self._detectors: dict[LineSequence, RestartDetector] = {}
        self._numbers = SessionNumbers()
        self._sessions = SessionAttempts(self._numbers.starts)

    @property
    def restart_steps(self) -> tuple[int, ...]:
        """The steps at which newer attempts begin, ascending."""
        jumps = {restart.step for restarts in self._restarts.values() for restart in restarts}
        return tuple(sorted(jumps | self._sessions.restart_steps()))

    def add(
        self, columns: Columns, new: slice, alive: Alive, unordered: Collection[int]
    ) -> set[LineSequence]:
        """Find restarts among new rows.

        Parameters
        ----------
        columns : Columns
        new : slice
            Numbers of the new rows, which are the last ones.
        alive : callable
            Returns a mask of the rows whose lines exist.
        unordered : collection of int
            Files whose lines arrive in any order; jumps in them are found by `read_file` later.

        Returns
        -------
        set of LineSequence
            The sequences in which other rows may be older now.
        """
        changed, lines_of = set(), {}
        for key, rows in self._sequences(columns, new):
            if key[-1] != NO_SESSION:
                lines_of[key] = self._add_to_session(columns, key, rows)
            if key[0] in unordered:
                continue
            steps, begins = _values(columns, "step", rows), self._begins(columns, key, rows)
            detector = self._detectors.setdefault(key, self._new_detector(key))
            ascends = (np.diff(steps) >= 0).all() and not begins.any()
            if ascends and detector.feed_ascending(int(steps[0]), int(steps[-1])):
                continue
            known = self._attempt_counts(columns, key, alive()[: new.start])
            restarts = detector.feed(_runs_of_steps(steps, _values(columns, "offset", rows), begins), known)
            if restarts:
                self._restarts.setdefault(key, []).extend(restarts)
                changed.add(key)
        changed |= self._cut_sequences()
        return changed | {key for key, (lines, last_step) in lines_of.items() if last_step >= lines.cut}

    def read_file(self, columns: Columns, file: int, rows: np.ndarray) -> set[LineSequence]:
        """Find jumps back among all rows of a file; return the sequences with any, now or before."""
        known = [key for key in self._detectors if key[0] == file]
        for key in known:
            del self._detectors[key]
        changed = {key for key in known if self._restarts.pop(key, [])}
        for key, in_sequence in self._sequences(columns, rows):
            detector = self._detectors[key] = self._new_detector(key)
            steps, offsets = (_values(columns, name, in_sequence) for name in ("step", "offset"))
            runs = _runs_of_steps(steps, offsets, self._begins(columns, key, in_sequence))
            self._restarts[key] = detector.feed(runs, {})
            if self._restarts[key]:
                changed.add(key)
        return changed

    def drop_files(self, columns: Columns, files: Collection[int], alive: Alive) -> set[LineSequence]:
        """Forget the lines of these files; return the sequences in which other rows may be older now."""
        for key in [key for key in self._detectors if key[0] in files]:
            del self._detectors[key]
            self._restarts.pop(key, None)
        dropped, self._sessions = self._sessions, SessionAttempts(self._numbers.starts)
        if not dropped:
            return set()
        for key, rows in self._sequences(columns, np.flatnonzero(alive())):
            if key[-1] != NO_SESSION:
                self._add_to_session(columns, key, rows)
        self._cut_sequences()
        return self._sessions.cut_otherwise(dropped)

    def rows_in(
        self, columns: Columns, keys: Collection[LineSequence], alive: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of these sequences, and a mask of those that belong to an older attempt."""
        rows = np.flatnonzero(np.isin(_values(columns, "file"), [key[0] for key in keys]) & alive)
        found = [(key, in_sequence) for key, in_sequence in self._sequences(columns, rows) if key in keys]
        older = [self._is_older(columns, key, in_sequence) for key, in_sequence in found]
        if not found:
            return rows[:0], np.zeros(0, bool)
        return np.concatenate([in_sequence for _, in_sequence in found]), np.concatenate(older)

    def has_session(self, columns: Columns, rows: np.ndarray) -> np.ndarray:
        """Return a mask of the rows that a recorder wrote, of these rows."""
        sessions = self._numbers.of_rows(columns, self._files, rows)
        return np.zeros(len(rows), bool) if sessions is None else sessions != NO_SESSION

    # -- inside ----------------------------------------------------------------------------------

    def _new_detector(self, key: LineSequence) -> RestartDetector:
        once = self._once_per_step.get(key[0], "")
        return RestartDetector(1) if once == "line" else RestartDetector(numbered=bool(once))

    def _begins(self, columns: Columns, key: LineSequence, rows: np.ndarray) -> np.ndarray:
        """Return a mask of the rows with which the batch of a step begins, if samples are numbered in it."""
        index = columns.numbers.get(self._once_per_step.get(key[0], ""))
        return np.zeros(len(rows), bool) if index is None else index.view(columns.rows)[rows] == 0

    def _sequences(
        self, columns: Columns, where: slice | np.ndarray
    ) -> Iterator[tuple[LineSequence, np.ndarray]]:
        """Group rows by sequence; each group in the order of its lines."""
        rank, file, offset = (_values(columns, name, where) for name in ("rank", "file", "offset"))
        splits = split_codes(columns.labels, columns.rows, where)
        sessions = self._numbers.of_rows(columns, self._files, where)
        parts = [rank, file, *([] if splits is None else [splits[0]])]
        if sessions is not None and len(sessions) and (sessions != sessions[0]).any():
            parts.append(sessions)
        order = np.lexsort((offset, *parts))
        borders = np.logical_or.reduce([part[order][1:] != part[order][:-1] for part in parts])
        for group in np.split(order, np.flatnonzero(borders) + 1) if len(order) else ():
            first = group[0]
            split = TRAIN if splits is None else _split_name(int(splits[0][first]), splits[1])
            session = NO_SESSION if sessions is None else int(sessions[first])
            rows = group + where.start if isinstance(where, slice) else where[group]
            yield (int(file[first]), int(rank[first]), split, session), rows

    def _add_to_session(
        self, columns: Columns, key: LineSequence, rows: np.ndarray
    ) -> tuple[SessionLines, int]:
        """Add rows to their session; return all its lines of this rank and split, and the rows' last step."""
        file, rank, split, session = key
        steps = _values(columns, "step", rows)
        times = columns.numbers[TIME_COLUMN].view(columns.rows)[rows]
        first, last_step = int(times.argmin()), int(steps.max())
        offset = int(_values(columns, "offset", rows)[first])
        place = LinePlace(float(times[first]), self._files[file], offset)
        lines = SessionLines(rank, split, session, place, int(steps[first]), last_step, {file})
        return self._sessions.add(lines, float(latest_times(times).max())), last_step

    def _cut_sequences(self) -> set[LineSequence]:
        """Determine the cuts of the sessions anew; return the sequences in which other rows are older now."""
        return {key for lines in self._sessions.update() for key in lines.sequences}

    def _attempt_counts(self, columns: Columns, key: LineSequence, alive: np.ndarray) -> dict[int, int]:
        """Return the rows per step of a sequence's newest attempt, among the first rows."""
        file, rank, split, session = key
        n = len(alive)
        mask = (_values(columns, "file")[:n] == file) & (_values(columns, "rank")[:n] == rank) & alive
        rows = np.flatnonzero(mask)
        splits = split_codes(columns.labels, columns.rows, rows)
        if splits is not None:
            rows = rows[splits[0] == (TRAIN_CODE if split == TRAIN else split_code(split, splits[1]))]
        sessions = self._numbers.of_rows(columns, self._files, rows)
        if sessions is not None:
            rows = rows[sessions == session]
        steps = _values(columns, "step", rows[~self._before_restart(columns, key, rows)])
        return dict(zip(*(part.tolist() for part in np.unique(steps, return_counts=True)), strict=True))

    def _is_older(self, columns: Columns, key: LineSequence, rows: np.ndarray) -> np.ndarray:
        """Return a mask of a sequence's rows that belong to an older attempt."""
        older = self._before_restart(columns, key, rows)
        return (
            older
            if key[-1] == NO_SESSION
            else older | (_values(columns, "step", rows) >= self._sessions.cut(*key[1:]))
        )

    def _before_restart(self, columns: Columns, key: LineSequence, rows: np.ndarray) -> np.ndarray:
        """Return a mask of a sequence's rows before a restart that have its step or a later one."""
        steps, offsets = _values(columns, "step", rows), _values(columns, "offset", rows)
        older = np.zeros(len(rows), bool)
        for restart in self._restarts.get(key, ()):
            older |= (offsets < restart.offset) & (steps >= restart.step)
        return older


def _values(columns: Columns, name: str, where: slice | np.ndarray = slice(None)) -> np.ndarray:
    return columns.metadata[name].view(columns.rows)[where]


def _split_name(code: int, names: list[str]) -> str:
    return TRAIN if code == TRAIN_CODE else split_name(code, names)


def _runs_of_steps(
    steps: np.ndarray, offsets: np.ndarray, begins: np.ndarray
) -> list[tuple[int, int, int, bool]]:
    """Group consecutive lines of one step: (step, offset of the first, number of lines, begins a batch)."""
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(steps) != 0) | begins[1:]]))
    lines = np.diff(np.append(starts, len(steps)))
    parts = (steps[starts], offsets[starts], lines, begins[starts])
    return list(zip(*(part.tolist() for part in parts), strict=True))
