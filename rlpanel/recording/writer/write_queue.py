"""Bounded queue of rows to write; if the disk is too slow, rows are dropped, and training never waits."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class WriteQueue(Generic[T]):
    """Bounded queue between training and the writer's thread.

    Parameters
    ----------
    rows, numbers : int
        Maximum length of the queue, in rows and in their total weight (see `put`).
    """

    def __init__(self, rows: int, numbers: int) -> None:
        self._rows, self._numbers = rows, numbers
        self._entries: deque[tuple[T, int]] = deque()
        self._weight = 0
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()

    def put(self, item: T, weight: int) -> bool:
        """Add an item, or return False at once if the queue is full; an empty queue accepts any item."""
        with self._changed:
            full = len(self._entries) >= self._rows or self._weight + weight > self._numbers
            if self._closed or (full and self._entries):
                return False
            self._entries.append((item, weight))
            self._weight += weight
            self._changed.notify_all()
            return True

    def take(self, most: int, timeout: float | None = None) -> list[T] | None:
        """Wait for an item and return up to ``most``; [] after the timeout, None once closed and empty."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._entries or self._closed, timeout)
            if not self._entries:
                return None if self._closed else []
            entries = [self._entries.popleft() for _ in range(min(most, len(self._entries)))]
            self._weight -= sum(weight for _, weight in entries)
            self._busy = True
            return [item for item, _ in entries]

    def wait_idle(self, timeout: float) -> bool:
        """Wait until all items are taken and processed; return False after ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._entries and not self._busy, timeout)

    def close(self) -> None:
        """Accept no more items; `take` still returns the queued ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
