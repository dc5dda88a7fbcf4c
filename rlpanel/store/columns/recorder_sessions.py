"""Determines which sessions of rlpanel's recorder follow another one, whose later lines then count no more.

The recorder writes its ``session``, which begins with the time of its creation, and a ``time`` on each line.
**A session follows another one of the same rank if it was created after the other's last line. From the step
of its first line on, the other's lines of the same split belong to an older attempt**, in whatever files.
Lines are ordered by time, then by file name and offset; a session's last line may be of any split.

Two recorders that run at the same time each write after the other was created, so neither follows the other.
A forked child writes to its own file under its parent's session, to which it adds its own. Older recorders
gave it an unrelated session: a file that ends with the process id of its session was written by such a child.
Older recorders also rounded ``time`` to ten seconds; so a line may be five seconds later than it says.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from rlpanel.store.columns.columns import Columns
from rlpanel.store.columns.splits import RowSelector

SESSION_COLUMN, TIME_COLUMN = "session", "time"
#: Number of the session of lines that were not written by the recorder, or have no valid time.
NO_SESSION = -1

#: Milliseconds since 1970 and process id, both in hex; in a forked child the parent's, then its own.
_SESSION = re.compile(r"(([0-9a-f]{11})-([0-9a-f]{1,8}))(?:-[0-9a-f]{11}-[0-9a-f]{1,8})?")
#: Name of a forked child's file, with its process id.
_CHILD_FILE = re.compile(r"_rank_\d+_(\d{1,9})\.jsonl")


class SessionNumbers:
    """Assigns a number to each session of the recorder; a forked child has that of its parent.

    Attributes
    ----------
    starts : list of float
        Time of creation of each session, in milliseconds.
    """

    def __init__(self) -> None:
        self.starts: list[float] = []
        self._numbers: dict[str, int] = {}
        self._pids: list[int] = []
        self._names: list[str] | None = None  # label names that `_of_code` belongs to
        self._of_code = np.empty(0, np.int64)
        self._file_pids = np.empty(0, np.int64)

    def of_rows(self, columns: Columns, files: Sequence[str], where: RowSelector) -> np.ndarray | None:
        """Return the session number of some rows; None if no line names a session and its time."""
        labels, times = columns.labels.get(SESSION_COLUMN), columns.numbers.get(TIME_COLUMN)
        if labels is None or times is None:
            return None
        self._update(labels.names, files)
        numbers = self._of_code[labels.codes.view(columns.rows)[where]]
        if not self.starts:
            return numbers
        created = np.array([*self.starts, math.inf])[numbers]
        pids = np.array([*self._pids, -1])[numbers]
        # A `time` that a user's row brings along is usually no time since 1970, but before the creation.
        valid = latest_times(times.view(columns.rows)[where]) >= created
        valid &= pids != self._file_pids[columns.metadata["file"].view(columns.rows)[where]]
        return np.where(valid, numbers, NO_SESSION)

    def _update(self, names: list[str], files: Sequence[str]) -> None:
        """Parse the sessions and file names that were added; compacted columns have new codes."""
        known = len(self._of_code) - 1 if names is self._names else 0
        if known < len(names):
            added = [*map(self._number, names[known:]), NO_SESSION]  # the last is that of code -1
            self._of_code = np.concatenate([self._of_code[:known], np.array(added, np.int64)])
            self._names = names
        if len(files) != len(self._file_pids):
            found = (_CHILD_FILE.search(name) for name in files)
            self._file_pids = np.array([int(match[1]) if match else -2 for match in found], np.int64)

    def _number(self, name: str) -> int:
        match = _SESSION.fullmatch(name)
        if match is None:
            return NO_SESSION
        if match[1] not in self._numbers:
            self._numbers[match[1]] = len(self.starts)
            self.starts.append(float(int(match[2], 16)))
            self._pids.append(int(match[3], 16))
        return self._numbers[match[1]]


def latest_times(times: np.ndarray) -> np.ndarray:
    """Return the latest time of each line in milliseconds: a logged time may be rounded to ten seconds."""
    with np.errstate(over="ignore"):  # a time near the largest float is after every other time
        return np.rint(times * 1e3) + np.where(np.rint(times / 10) * 10 == times, 5e3, 0.0)


class LinePlace(NamedTuple):
    """Position of a line in the order of a session's lines."""

    time: float
    file: str
    offset: int


@dataclass
class SessionLines:
    """Lines of one session with one rank and split.

    Attributes
    ----------
    rank, split, session : int, str, int
    first : LinePlace
        Place of the first line, which has the step ``first_step``.
    last_step : int
        The highest step.
    files : set of int
    cut : float
        Lines of this step and of later ones belong to an older attempt.
    """

    rank: int
    split: str
    session: int
    first: LinePlace
    first_step: int
    last_step: int
    files: set[int]
    cut: float = math.inf

    @property
    def sequences(self) -> set[tuple[int, int, str, int]]:
        """File, rank, split and session of these lines, for each file."""
        return {(file, self.rank, self.split, self.session) for file in self.files}


_BySession = dict[int, SessionLines]


class SessionAttempts:
    """Determines up to which step the lines of each session count. The order of adding does not matter.

    Parameters
    ----------
    starts : list of float
        Time of creation of each session, in milliseconds; may grow.
    """

    def __init__(self, starts: Sequence[float]) -> None:
        self._starts = starts
        self._ends: dict[tuple[int, int], float] = {}  # time of the last line, by rank and session
        self._newest: dict[int, float] = {}  # creation of the newest session, by rank
        self._lines: dict[tuple[int, str], _BySession] = {}  # by rank and split
        self._changed: set[int] = set()  # ranks

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, added: SessionLines, end: float) -> SessionLines:
        """Add lines of a session, the last at time ``end``; return all its lines with this rank and split."""
        rank, session = added.rank, added.session
        lines = self._lines.setdefault((rank, added.split), {}).setdefault(session, added)
        if lines is added or added.first < lines.first:
            lines.first, lines.first_step = added.first, added.first_step
            self._changed.add(rank)
        lines.last_step = max(lines.last_step, added.last_step)
        lines.files |= added.files
        newest = self._newest.setdefault(rank, self._starts[session])
        if end > self._ends.get((rank, session), -math.inf):
            self._ends[rank, session] = end
            if self._starts[session] < newest:  # the end of the newest session has no effect
                self._changed.add(rank)
        self._newest[rank] = max(newest, self._starts[session])
        return lines

    def update(self) -> list[SessionLines]:
        """Determine the cuts; return the lines of which others count now."""
        changed, self._changed = self._changed, set()
        by_session = (lines for (rank, _), lines in self._lines.items() if rank in changed)
        return [lines for sessions in by_session if len(sessions) > 1 for lines in self._recut(sessions)]

    def cut(self, rank: int, split: str, session: int) -> float:
        """Return the step from which on lines of a session belong to an older attempt; infinity for none."""
        lines = self._lines.get((rank, split), {}).get(session)
        return math.inf if lines is None else lines.cut

    def cut_otherwise(self, before: SessionAttempts) -> set[tuple[int, int, str, int]]:
        """Return the sequences of lines whose cut differs from that in ``before``."""
        cuts = {
            (*place, lines.session): lines.cut
            for place, sessions in before._lines.items()
            for lines in sessions.values()
        }
        return {
            sequence
            for sessions in self._lines.values()
            for lines in sessions.values()
            if lines.cut != cuts.get((lines.rank, lines.split, lines.session), math.inf)
            for sequence in lines.sequences
        }

    def restart_steps(self) -> set[int]:
        """Return the first steps of all sessions that replaced lines of another one."""
        several = (sessions for sessions in self._lines.values() if len(sessions) > 1)
        return {step for sessions in several for step in self._restarts(sessions)}

    def _recut(self, sessions: _BySession) -> Iterator[SessionLines]:
        """Set the cuts for one rank and split: the lowest first step of all sessions that follow."""
        newest_first = sorted(sessions.values(), key=lambda lines: -self._starts[lines.session])
        created = [-self._starts[lines.session] for lines in newest_first]
        lowest = [math.inf, *accumulate((lines.first_step for lines in newest_first), min)]
        for lines in newest_first:
            cut = lowest[bisect_left(created, -self._ends[lines.rank, lines.session])]
            if cut != lines.cut and lines.last_step >= min(cut, lines.cut):
                yield lines
            lines.cut = cut

    def _restarts(self, sessions: _BySession) -> Iterator[int]:
        """Return the first steps of the sessions that follow one with this step or a later one."""
        first_ended = sorted(sessions.values(), key=lambda lines: self._ends[lines.rank, lines.session])
        ended = [self._ends[lines.rank, lines.session] for lines in first_ended]
        highest = [-math.inf, *accumulate((lines.last_step for lines in first_ended), max)]
        for lines in first_ended:
            if highest[bisect_left(ended, self._starts[lines.session])] >= lines.first_step:
                yield lines.first_step
