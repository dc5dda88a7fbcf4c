"""When it is time to look at the folders again."""

from __future__ import annotations

import time

#: Looking takes at most this share of the time by the clock, and this where files come and go.
_SHARE, _SHARE_MOVED = 0.05, 0.3


class Clock:
    """Says when an interval has passed, and begins it again."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self, interval: float) -> bool:
        """Whether the last time this was True is at least ``interval`` seconds ago."""
        now = time.monotonic()
        if now - self._last < interval:
            return False
        self._last = now
        return True


class RescanTimer:
    """How long looks at the folders take, and how long to rest between two of them.

    A single slow look says nothing of the next one: a library was imported, a disk was asleep, another
    program had the processor. Of the last two the shorter one counts.
    """

    def __init__(self) -> None:
        self._last = self._before = 0.0

    def took(self, seconds: float) -> None:
        """Note a look."""
        self._before, self._last = self._last, seconds

    @property
    def rest(self) -> float:
        """Seconds between two looks."""
        return min(self._last, self._before) / _SHARE

    @property
    def rest_moved(self) -> float:
        """Seconds between two looks while files come and go."""
        return min(self._last, self._before) / _SHARE_MOVED
