"""Throughput of reading a backlog, and the text for progress and remaining time."""

from __future__ import annotations

from collections import deque

from rlpanel.number_text import size_text

#: Length of the sliding window in seconds.
WINDOW = 5.0
#: Shortest time between two stored measurements: a reader may ask thousands of times a second.
INTERVAL = 0.1


class Throughput:
    """Bytes per second over a sliding window."""

    def __init__(self) -> None:
        self._measurements: deque[tuple[float, int]] = deque()

    def rate(self, now: float, done: int) -> float:
        """Record the bytes ``done`` at time ``now``; return bytes per second, 0 while unknown."""
        if self._measurements and done < self._measurements[-1][1]:  # a file was replaced
            self._measurements.clear()
        if not self._measurements or now - self._measurements[-1][0] >= INTERVAL:
            self._measurements.append((now, done))
        while now - self._measurements[0][0] > WINDOW and len(self._measurements) > 2:
            self._measurements.popleft()
        since, before = self._measurements[0]
        return (done - before) / (now - since) if now > since else 0.0


def describe(done: int, total: int, rate: float) -> str:
    """Return the progress as text: ``34% of 10.2 GB · 512 MB/s · 13 s left``."""
    share = done / total if total else 1.0
    words = [f"{min(share, 1.0):.0%} of {size_text(total)}"]
    if rate > 0:
        words += [f"{size_text(rate)}/s", f"{_duration((total - done) / rate)} left"]
    return " · ".join(words)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 0.0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
