"""Steps that come again: a training job that was resumed appends anew what it had done after its checkpoint.

The rule, for the lines of one rank in one file, in their order: **where the log goes back by two or more
of its steps, and at least half as many lines as that step had come again in one go, the job was restarted
there; earlier lines of that step and of later ones belong to an older attempt.** The newest attempt counts,
older ones are kept beside it.

Fewer lines are stragglers, as asynchronous trainers write them. One step back is never taken for a restart,
because stragglers look the same.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: How many of its steps a log must go back to begin another attempt.
STEPS_BACK = 2


@dataclass
class _Return:
    """Lines of an earlier step that may be the beginning of another attempt."""

    step: int
    offset: int
    lines: int


@dataclass(frozen=True)
class Restart:
    """From the line at ``offset`` on, a new attempt begins at ``step``."""

    step: int
    offset: int


class RestartDetector:
    """Follows the lines of one rank in one file."""

    def __init__(self) -> None:
        self._top: int | None = None  # highest step of the attempt that is going on
        self._return: _Return | None = None

    def rise(self, first: int, last: int) -> bool:
        """Take lines whose steps rise from ``first`` to ``last``; False if they must be fed instead."""
        if self._return is not None or (self._top is not None and first < self._top):
            return False
        self._top = last
        return True

    def feed(self, runs: Iterable[tuple[int, int, int]], known: Mapping[int, int]) -> list[Restart]:
        """Take lines that may bring something back.

        Parameters
        ----------
        runs : iterable of (step, offset, lines)
            Neighbouring lines of one step, the first of them at ``offset``.
        known : mapping of int to int
            Lines by step of the attempt that is going on, all that were taken before.

        Returns
        -------
        list of Restart
        """
        counts = Counter(known)
        if self._return is not None:
            counts[self._return.step] -= self._return.lines
        counts = +counts  # without the steps that have no lines left
        restarts = [restart for run in runs if (restart := self._take(*run, counts))]
        self._top = max(counts, default=self._top)
        return restarts

    def _take(self, step: int, offset: int, lines: int, counts: Counter[int]) -> Restart | None:
        if self._return is not None and step != self._return.step:
            counts[self._return.step] += self._return.lines  # they were stragglers
            self._return = None
        if self._return is not None:
            self._return.lines += lines
        elif sum(other > step for other in counts) >= STEPS_BACK:
            self._return = _Return(step, offset, lines)
        else:
            counts[step] += lines
        begun = self._return
        if begun is None or 2 * begun.lines < (counts[step] or statistics.median(counts.values())):
            return None
        self._return = None
        return self._restart(begun, counts)

    def _restart(self, begun: _Return, counts: Counter[int]) -> Restart:
        """Forget what the new attempt has not done yet."""
        for step in [step for step in counts if step >= begun.step]:
            del counts[step]
        counts[begun.step] = begun.lines
        return Restart(begun.step, begun.offset)
