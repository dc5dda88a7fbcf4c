"""Detects restarts: a job that resumes from a checkpoint logs the steps after that checkpoint again.

The rule applies to the lines of one rank, split and session in one file, in file order. For sessions among
each other, see `recorder_sessions`. **A restart is a jump back by two or more logged steps, followed by
consecutive lines of that step, at least half as many as it had before (or as the median step has, if it had
none). Earlier lines of that step and of later steps then belong to an older attempt.** Only the newest
attempt counts; rows of older ones are kept, but excluded.

Fewer lines are stragglers, as asynchronous trainers write them. A jump back by one step is never taken for
a restart, because stragglers look the same. Two formats have no stragglers: if a step has one line, a jump
back by one step is a restart, too; and if a step's samples are numbered, a step that begins again is one.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
    """A new attempt, which begins at ``step`` with the line at byte ``offset``."""

    step: int
    offset: int


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
