"""Limit of open pages: a server that strangers reach must not be filled with them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

#: Seconds after which a refused browser may try again; a page that was closed is gone by then.
RETRY_AFTER = 30
#: Seconds for which an admitted page counts besides the open ones, because it may not be counted yet.
HELD = 5.0


class PageLimit:
    """Decides whether one more page may be opened.

    Parameters
    ----------
    most : int
        Most pages that are open at once; 0 means without a limit.
    count : callable
        Returns the number of pages that are open or being built.
    """

    def __init__(self, most: int, count: Callable[[], int]) -> None:
        self._most, self._count = most, count
        self._admitted: deque[float] = deque()

    def admit(self) -> bool:
        """Return True, and hold a place for the page, if one more may be opened."""
        if not self._most:
            return True
        now = time.monotonic()
        while self._admitted and now - self._admitted[0] > HELD:
            self._admitted.popleft()
        if self._count() + len(self._admitted) >= self._most:
            return False
        self._admitted.append(now)
        return True

    @property
    def sentence(self) -> str:
        """Text for a viewer whose page was refused."""
        return f"This board has {self._most} open pages, which is its limit. Try again in a minute."
