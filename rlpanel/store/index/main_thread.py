"""Tells whether the main thread, which runs the event loop of `rlpanel serve`, is using the processor.

Python runs one thread at a time, so a reader that adds old lines slows down a page that is being built.
Asking the system needs no signal from those who draw, and also covers redraws that the reader's own
snapshots cause.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: Share of the time since the last question that makes the main thread count as busy.
BUSY_SHARE = 0.5


def main_thread_seconds() -> float:
    """Return the processor time of the main thread in seconds; always 0 where the system does not tell."""
    ident = threading.main_thread().ident
    if ident is None or not hasattr(time, "pthread_getcpuclockid"):
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(ident))


class MainThread:
    """Compares the processor time of the main thread with the time that has passed.

    Parameters
    ----------
    worked, clock : callable
        Return the processor time of the main thread, and the time, in seconds.
    """

    def __init__(
        self,
        worked: Callable[[], float] = main_thread_seconds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worked, self._clock = worked, clock
        self._last = worked(), clock()

    @property
    def is_busy(self) -> bool:
        """True if it used at least `BUSY_SHARE` of the time since the last question."""
        (worked, then), self._last = self._last, (self._worked(), self._clock())
        return self._last[0] - worked > BUSY_SHARE * (self._last[1] - then)
