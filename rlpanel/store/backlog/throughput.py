"""How fast a backlog is read, and how long the rest will take."""

from __future__ import annotations

from collections import deque

#: Seconds over which the rate is taken.
WINDOW = 5.0


class Throughput:
    """Bytes a second over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, now: float, done: int) -> float:
        """Note how far it is at ``now``; bytes a second since the window began, 0 while nobody can tell."""
        if self._seen and done < self._seen[-1][1]:  # a file was replaced
            self._seen.clear()
        self._seen.append((now, done))
        while now - self._seen[0][0] > WINDOW and len(self._seen) > 2:
            self._seen.popleft()
        since, before = self._seen[0]
        return (done - before) / (now - since) if now > since else 0.0


def describe(done: int, total: int, rate: float) -> str:
    """Progress in words: ``34 % of 10,240 MB · 512 MB/s · 13 s left``."""
    share = done / total if total else 1.0
    words = [f"{min(share, 1.0):.0%} of {total / 1e6:,.0f} MB"]
    if rate > 0:
        words += [f"{rate / 1e6:,.0f} MB/s", f"{_duration((total - done) / rate)} left"]
    return " · ".join(words)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 0.0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
