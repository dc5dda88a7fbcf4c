"""Rescan intervals: limits the share of time that the reader spends on listing folders."""

from __future__ import annotations

import time

#: Rescans take at most this share of the time: in general, and while files are added or removed.
_SHARE, _SHARE_MOVED = 0.05, 0.3


class IntervalTimer:
    """Interval timer."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self, interval: float) -> bool:
        """Return True, and restart, if the last True was at least ``interval`` seconds ago."""
        now = time.monotonic()
        if now - self._last < interval:
            return False
        self._last = now
        return True


class RescanTimer:
    """Derives the interval between two rescans from the time that rescans take.

    The shorter of the last two durations is used. A single slow rescan does not predict the next one: a
    library was imported, a disk spun up, or another program used the processor.
    """

    def __init__(self) -> None:
        self._last = self._before = 0.0

    def record(self, seconds: float) -> None:
        """Record the duration of a rescan."""
        self._before, self._last = self._last, seconds

    @property
    def interval(self) -> float:
        """Seconds between two rescans."""
        return min(self._last, self._before) / _SHARE

    @property
    def interval_moved(self) -> float:
        """Seconds between two rescans while files are added or removed."""
        return min(self._last, self._before) / _SHARE_MOVED
