"""Limit of open pages: a server that strangers reach must not be filled with them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection

#: Seconds after which a refused browser may try again; a page that was closed is gone by then.
RETRY_AFTER = 30
#: Seconds for which an admitted page counts although it is not among the open ones: it may never be.
HELD = 5.0


class PageLimit:
    """Decides whether one more page may be opened.

    Parameters
    ----------
    most : int
        Most pages that are open at once; 0 means without a limit.
    pages : callable
        Returns the ids of the pages that are open or being built.
    """

    def __init__(self, most: int, pages: Callable[[], Collection[str]]) -> None:
        self._most, self._pages = most, pages
        self._admitted: deque[float] = deque()
        self._known: set[str] = set()

    def admit(self) -> bool:
        """Return True, and hold a place for the page, if one more may be opened."""
        if not self._most:
            return True
        pages, now = set(self._pages()), time.monotonic()
        self._release(len(pages - self._known), now)
        self._known = pages
        if len(pages) + len(self._admitted) >= self._most:
            return False
        self._admitted.append(now)
        return True

    def _release(self, built: int, now: float) -> None:
        """Give up the places held for pages that are now among the open ones, and those held for too long."""
        for _ in range(min(built, len(self._admitted))):
            self._admitted.popleft()
        while self._admitted and now - self._admitted[0] > HELD:
            self._admitted.popleft()

    @property
    def sentence(self) -> str:
        """Text for a viewer whose page was refused."""
        return f"This board has {self._most} open pages, which is its limit. Try again in a minute."
