"""Determines which rows belong to an older attempt, because a restarted job logged their steps again.

Lines with a session of rlpanel's recorder are compared with those of other sessions (`recorder_sessions`).
Within a session, and among lines without one, jumps back are looked for (`RestartDetector`). Only the newest
attempt counts; rows of older ones are kept, but excluded.

Jumps back are looked for in the lines of one rank, split and session in one file, in file order. **A restart
is a jump back by two or more logged steps, followed by consecutive lines of that step, at least half as many
as it had before (or as the median step has, if it had none). Earlier lines of that step and of later steps
then belong to an older attempt.**

If a counter such as ``epoch`` goes on where the steps begin again, a later epoch begins, and all lines count
(see `resumed_files`). Files that repeat steps of other files are compared by `resumed_files`.

Fewer lines are stragglers, as asynchronous trainers write them. A jump back by one step is never taken for
a restart, because stragglers look the same. Two formats have no stragglers: if a step has one line, a jump
back by one step is a restart, too; and if a step's samples are numbered, a step that begins again is one.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.recorder_sessions import (
    NO_SESSION,
    SESSION_COLUMN,
    TIME_COLUMN,
    LinePlace,
    SessionAttempts,
    SessionLines,
    SessionNumbers,
    latest_times,
)
from rlpanel.store.columns.resumed_files import Place, ResumedFiles, Spans, goes_on
from rlpanel.store.columns.splits import TRAIN, TRAIN_CODE, RowSelector, split_code, split_codes, split_name

#: A restart goes back by at least this many logged steps.
STEPS_BACK = 2


@dataclass
class _Candidate:
    """Consecutive lines of an earlier step, which may turn out to be a restart."""

    step: int
    offset: int
    lines: int


@dataclass(frozen=True)
class Restart:
    """A new attempt, which begins at ``step`` with the line at byte ``offset``.

    Lines before the byte ``since`` are of earlier epochs, and count.
    """

    step: int
    offset: int
    since: int = 0


class RestartDetector:
    """Finds restarts in the lines of one sequence, fed in file order.

    Parameters
    ----------
    steps_back : int
        A restart goes back by at least this many logged steps.
    numbered : bool
        Whether a step that begins again is a restart, because its samples are numbered.
    """

    def __init__(self, steps_back: int = STEPS_BACK, *, numbered: bool = False) -> None:
        self._steps_back, self._numbered = steps_back, numbered
        self._top: int | None = None  # highest step of the current attempt
        self._candidate: _Candidate | None = None

    def feed_ascending(self, first: int, last: int) -> bool:
        """Add lines with ascending steps, ``first`` to ``last``; False if `feed` must be used instead."""
        if self._candidate is not None or (self._top is not None and first < self._top):
            return False
        self._top = last
        return True

    def feed(self, runs: Iterable[Sequence[int]], known: Mapping[int, int]) -> list[Restart]:
        """Add lines that may contain a restart.

        Parameters
        ----------
        runs : iterable of (step, offset, lines), or (step, offset, lines, begins)
            Consecutive lines of one step; ``offset`` is that of the first, which may begin the step's batch.
        known : mapping of int to int
            Number of lines per step of the current attempt, from all lines added before.

        Returns
        -------
        list of Restart
        """
        counts = Counter(known)
        if self._candidate is not None:
            counts[self._candidate.step] -= self._candidate.lines
        counts = +counts  # drops the steps without remaining lines
        restarts = [restart for run in runs if (restart := self._add_lines(counts, *run))]
        self._top = max(counts, default=self._top)
        return restarts

    def _add_lines(
        self, counts: Counter[int], step: int, offset: int, lines: int, begins: bool | int = False
    ) -> Restart | None:
        if self._numbered and begins and counts[step]:
            return self._restart(_Candidate(step, offset, lines), counts)
        if self._candidate is not None and step != self._candidate.step:
            counts[self._candidate.step] += self._candidate.lines  # those were stragglers
            self._candidate = None
        if self._candidate is not None:
            self._candidate.lines += lines
        elif sum(counted > step for counted in counts) >= self._steps_back:
            self._candidate = _Candidate(step, offset, lines)
        else:
            counts[step] += lines
        candidate = self._candidate
        if candidate is None or 2 * candidate.lines < (counts[step] or statistics.median(counts.values())):
            return None
        self._candidate = None
        return self._restart(candidate, counts)

    def _restart(self, candidate: _Candidate, counts: Counter[int]) -> Restart:
        """Return the restart, and drop the counts of steps that the new attempt has not reached yet."""
        for step in [step for step in counts if step >= candidate.step]:
            del counts[step]
        counts[candidate.step] = candidate.lines
        return Restart(candidate.step, candidate.offset)


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
    tables : collection of int
        Numbers of the files whose lines repeat rows; may change.
    """

    def __init__(
        self, files: Sequence[str], once_per_step: Mapping[int, str], tables: Collection[int] = ()
    ) -> None:
        self._files, self._once_per_step, self._tables = files, once_per_step, tables
        self._resumed = ResumedFiles(files)
        self._spans: dict[Place, Spans] = {}  # of files whose lines have no session
        self._moved: set[Place] = set()  # ranks and splits whose spans have changed
        self._epochs: dict[LineSequence, list[Restart]] = {}
        self._restarts: dict[LineSequence, list[Restart]] = {}
        self._detectors: dict[LineSequence, RestartDetector] = {}
        self._numbers = SessionNumbers()
        self._sessions = SessionAttempts(self._numbers.starts)
        self._session_steps: set[int] = set()  # first steps of the sessions that follow another one

    @property
    def restart_steps(self) -> tuple[int, ...]:
        """The steps at which newer attempts begin, ascending."""
        jumps = {restart.step for restarts in self._restarts.values() for restart in restarts}
        repeated = {cut for cuts in self._resumed.cuts.values() for cut in cuts.values()}
        return tuple(sorted(jumps | self._session_steps | repeated))

    @property
    def epochs(self) -> int:
        """How often steps begin again in a later epoch, in one sequence of lines or from file to file."""
        return max([*map(len, self._epochs.values()), *self._resumed.epochs.values()], default=0)

    @property
    def doubtful_steps(self) -> tuple[int, ...]:
        """The steps that a second file has as well, which may be that of a resumed job."""
        return tuple(sorted({step for steps in self._resumed.doubtful.values() for step in steps}))

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
            self._note_steps(key, steps)
            detector = self._detectors.setdefault(key, self._new_detector(key))
            ascends = (np.diff(steps) >= 0).all() and not begins.any()
            if ascends and detector.feed_ascending(int(steps[0]), int(steps[-1])):
                continue
            known = self._attempt_counts(columns, key, alive()[: new.start])
            restarts = detector.feed(_runs_of_steps(steps, _values(columns, "offset", rows), begins), known)
            if restarts:
                rows = self._rows_of(columns, key, alive())
                self._restarts.setdefault(key, []).extend(self._without_epochs(columns, key, rows, restarts))
                changed.add(key)
        if lines_of:
            changed |= self._cut_sequences()
        changed |= self._compare_files(columns, alive)
        return changed | {key for key, (lines, last_step) in lines_of.items() if last_step >= lines.cut}

    def read_file(self, columns: Columns, file: int, rows: np.ndarray, alive: Alive) -> set[LineSequence]:
        """Find jumps back among all rows of a file; return the sequences with any, now or before."""
        known = [key for key in self._detectors if key[0] == file]
        for key in known:
            del self._detectors[key]
            self._epochs.pop(key, None)
        self._drop_steps([file])
        changed = {key for key in known if self._restarts.pop(key, [])}
        for key, in_sequence in self._sequences(columns, rows):
            detector = self._detectors[key] = self._new_detector(key)
            steps, offsets = (_values(columns, name, in_sequence) for name in ("step", "offset"))
            runs = _runs_of_steps(steps, offsets, self._begins(columns, key, in_sequence))
            self._note_steps(key, steps)
            restarts = detector.feed(runs, {})
            self._restarts[key] = self._without_epochs(columns, key, in_sequence, restarts)
            if self._restarts[key]:
                changed.add(key)
        return changed | self._compare_files(columns, alive)

    def drop_files(self, columns: Columns, files: Collection[int], alive: Alive) -> set[LineSequence]:
        """Forget the lines of these files; return the sequences in which other rows may be older now."""
        for key in [key for key in self._detectors if key[0] in files]:
            del self._detectors[key]
            self._restarts.pop(key, None)
            self._epochs.pop(key, None)
        self._drop_steps(files)
        changed = self._compare_files(columns, alive)
        dropped, self._sessions = self._sessions, SessionAttempts(self._numbers.starts)
        if not dropped:
            return changed
        for key, rows in self._sequences(columns, np.flatnonzero(alive())):
            if key[-1] != NO_SESSION:
                self._add_to_session(columns, key, rows)
        self._cut_sequences()
        return changed | self._sessions.cut_otherwise(dropped)

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
        sessions = self._sessions_of(columns, rows)
        return np.zeros(len(rows), bool) if sessions is None else sessions != NO_SESSION

    # -- inside ----------------------------------------------------------------------------------

    def _new_detector(self, key: LineSequence) -> RestartDetector:
        once = self._once_per_step.get(key[0], "")
        return RestartDetector(1) if once == "line" else RestartDetector(numbered=bool(once))

    def _sessions_of(self, columns: Columns, where: RowSelector) -> np.ndarray | None:
        """Return the number of the recorder's session of some rows; None if no line names a session."""
        if SESSION_COLUMN not in columns.labels:
            return None
        return self._numbers.of_rows(columns, self._files, where)

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
        sessions = self._sessions_of(columns, where)
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
        changed = {key for lines in self._sessions.update() for key in lines.sequences}
        self._session_steps = self._sessions.restart_steps()
        return changed

    def _note_steps(self, key: LineSequence, steps: np.ndarray) -> None:
        """Note the steps of lines without a session, of formats that do not log a step once."""
        file, rank, split, session = key
        if session != NO_SESSION or file in self._once_per_step or file in self._tables:
            return
        spans, first, last = self._spans.setdefault((rank, split), {}), int(steps.min()), int(steps.max())
        known = spans.get(file)
        spans[file] = (first, last) if known is None else (min(first, known[0]), max(last, known[1]))
        if spans[file] != known and len(spans) > 1:
            self._moved.add((rank, split))

    def _drop_steps(self, files: Collection[int]) -> None:
        """Forget the steps of these files."""
        for place, spans in self._spans.items():
            for file in spans.keys() & set(files):
                del spans[file]
                self._moved.add(place)

    def _compare_files(self, columns: Columns, alive: Alive) -> set[LineSequence]:
        """Find files that a resumed job wrote; return the sequences in which other rows are older now."""

        def rows_of(place: Place) -> np.ndarray:
            rows = np.flatnonzero(alive() & (_values(columns, "rank") == place[0]))
            found = [
                in_sequence[~self._before_restart(columns, key, in_sequence)]
                for key, in_sequence in self._sequences(columns, rows)
                if key[1:] == (*place, NO_SESSION) and key in self._detectors
            ]
            return np.concatenate(found) if found else rows[:0]

        if not self._moved:
            return set()
        spans = {place: self._spans[place] for place in self._moved}
        self._moved.clear()
        changed = self._resumed.update(spans, rows_of, columns)
        return {key for key in self._detectors if key[1:3] in changed and key[3] == NO_SESSION}

    def _without_epochs(
        self, columns: Columns, key: LineSequence, rows: np.ndarray, restarts: Sequence[Restart]
    ) -> list[Restart]:
        """Return the restarts that no later epoch explains, and note those that one does.

        ``rows`` are all rows of the sequence.
        """
        found, epochs = [], self._epochs.setdefault(key, [])
        steps, offsets = _values(columns, "step", rows), _values(columns, "offset", rows)
        for restart in restarts:
            since = epochs[-1].offset if epochs else 0
            is_before = (offsets < restart.offset) & (offsets >= since) & (steps >= restart.step)
            is_after = (offsets >= restart.offset) & (steps == restart.step)
            if goes_on(columns, rows[is_before], rows[is_after]):
                epochs.append(restart)
            else:
                found.append(replace(restart, since=since))
        return found

    def _attempt_counts(self, columns: Columns, key: LineSequence, alive: np.ndarray) -> dict[int, int]:
        """Return the rows per step of a sequence's newest attempt and epoch, among the first rows."""
        rows = self._rows_of(columns, key, alive)
        is_older, epochs = self._before_restart(columns, key, rows), self._epochs.get(key)
        if epochs:
            is_older |= _values(columns, "offset", rows) < epochs[-1].offset
        steps = _values(columns, "step", rows[~is_older])
        return dict(zip(*(part.tolist() for part in np.unique(steps, return_counts=True)), strict=True))

    def _rows_of(self, columns: Columns, key: LineSequence, alive: np.ndarray) -> np.ndarray:
        """Return the rows of a sequence among the first rows."""
        file, rank, split, session = key
        n = len(alive)
        mask = (_values(columns, "file")[:n] == file) & (_values(columns, "rank")[:n] == rank) & alive
        rows = np.flatnonzero(mask)
        splits = split_codes(columns.labels, columns.rows, rows)
        if splits is not None:
            rows = rows[splits[0] == (TRAIN_CODE if split == TRAIN else split_code(split, splits[1]))]
        sessions = self._sessions_of(columns, rows)
        if sessions is not None:
            rows = rows[sessions == session]
        return rows

    def _is_older(self, columns: Columns, key: LineSequence, rows: np.ndarray) -> np.ndarray:
        """Return a mask of a sequence's rows that belong to an older attempt."""
        older = self._before_restart(columns, key, rows)
        if key[-1] == NO_SESSION:
            return older | (_values(columns, "step", rows) >= self._resumed.cut(*key[:3]))
        return older | (_values(columns, "step", rows) >= self._sessions.cut(*key[1:]))

    def _before_restart(self, columns: Columns, key: LineSequence, rows: np.ndarray) -> np.ndarray:
        """Return a mask of a sequence's rows before a restart that have its step or a later one."""
        steps, offsets = _values(columns, "step", rows), _values(columns, "offset", rows)
        older = np.zeros(len(rows), bool)
        for restart in self._restarts.get(key, ()):
            older |= (offsets < restart.offset) & (offsets >= restart.since) & (steps >= restart.step)
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
