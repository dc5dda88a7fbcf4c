"""Unexpected errors of parts that go on without each other: each is logged once, and its part rests."""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable
from dataclasses import dataclass

from rlpanel.errors import describe_error

log = logging.getLogger(__name__)

#: Seconds for which a part rests after its first error, and at most. Each error in a row doubles them.
FIRST_REST, MAX_REST = 1.0, 60.0
#: Seconds without an error after which the next one counts as the first.
_FORGET = 600.0
#: Number of remembered reasons that are not logged again.
_MAX_LOGGED = 1000


@dataclass(frozen=True)
class _Fault:
    reason: str
    time: float
    rest: float
    current: bool = True


class Faults:
    """Errors of parts, each named by a key.

    Parameters
    ----------
    first, longest : float
        Seconds for which a part rests.
    """

    def __init__(self, first: float = FIRST_REST, longest: float = MAX_REST) -> None:
        self._first, self._longest = first, longest
        self._faults: dict[Hashable, _Fault] = {}
        self._logged: set[tuple[Hashable, str]] = set()

    def note(self, key: Hashable, what: str, error: Exception) -> str:
        """Note the error of a part, and return its reason; call it while the error is handled.

        ``what`` says in the log what does not work.
        """
        now, reason, before = time.monotonic(), describe_error(error), self._faults.get(key)
        recent = before is not None and now - before.time < _FORGET
        rest = min(2 * before.rest, self._longest) if before is not None and recent else self._first
        self._faults[key] = _Fault(reason, now, rest)
        if (key, reason) not in self._logged:
            if len(self._logged) >= _MAX_LOGGED:
                self._logged.clear()
            self._logged.add((key, reason))
            log.warning("%s: %s", what, reason)
            log.debug("%s", what, exc_info=True)
        return reason

    def clear(self, key: Hashable) -> None:
        """Note that a part works again; if it soon fails once more, its rest is longer than before."""
        fault = self._faults.get(key)
        if fault is not None and fault.current:
            self._faults[key] = _Fault(fault.reason, fault.time, fault.rest, current=False)

    def forget(self, key: Hashable) -> None:
        """Forget a part that does not exist any more."""
        self._faults.pop(key, None)

    def reason(self, key: Hashable) -> str:
        """Return why a part does not work; empty if it works."""
        fault = self._faults.get(key)
        return fault.reason if fault is not None and fault.current else ""

    def rest(self, key: Hashable) -> float:
        """Return the seconds for which a part still rests; 0 if it works or is to be tried again."""
        fault = self._faults.get(key)
        if fault is None or not fault.current:
            return 0.0
        return max(0.0, fault.time + fault.rest - time.monotonic())

    @property
    def next_attempt(self) -> float:
        """Seconds until the first part that does not work is tried again; infinite if all work."""
        waits = (self.rest(key) for key, fault in self._faults.items() if fault.current)
        return min(waits, default=float("inf"))
