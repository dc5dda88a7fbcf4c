"""What waits to be written: bounded, so that a slow disk costs rows and never training's time."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class WriteQueue(Generic[T]):
    """A queue between training and the writer's thread.

    Parameters
    ----------
    rows, numbers : int
        How much may wait, in rows and in the weight that `put` is told.
    """

    def __init__(self, rows: int, numbers: int) -> None:
        self._rows, self._numbers = rows, numbers
        self._waiting: deque[tuple[T, int]] = deque()
        self._weight = 0
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()

    def put(self, item: T, weight: int) -> bool:
        """Add an item; False, at once, where there is no place for it. A single one always has a place."""
        with self._changed:
            full = len(self._waiting) >= self._rows or self._weight + weight > self._numbers
            if self._closed or (full and self._waiting):
                return False
            self._waiting.append((item, weight))
            self._weight += weight
            self._changed.notify_all()
            return True

    def take(self, most: int, timeout: float | None = None) -> list[T] | None:
        """Up to ``most`` items, waiting for the first; [] when time ran out, None when closed and empty."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._closed, timeout)
            if not self._waiting:
                return None if self._closed else []
            taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            self._weight -= sum(weight for _, weight in taken)
            self._busy = True
            return [item for item, _ in taken]

    def wait_idle(self, timeout: float) -> bool:
        """Whether everything put so far was taken and dealt with within ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout)

    def close(self) -> None:
        """Take nothing more; what waits is still handed out."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
