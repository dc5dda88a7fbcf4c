"""Turns of the pages that are drawn on one event loop: one after another, with a pause after each.

Drawing one page takes some milliseconds of the event loop. If fifty pages redrew at once for the same change,
the loop would answer no request for seconds. With pauses each page waits a little longer, and changes that
arrive meanwhile are drawn together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

#: Share of the event loop's time that drawing may take while pages are waiting.
SHARE = 0.85
#: Upper limit of the drawing time that a pause is computed from; a page's first drawing may take longer.
MAX_DRAW_SECONDS = 0.1


class Turns:
    """Lock that gives the pages of an event loop their turns in the order in which they ask.

    Attributes
    ----------
    waiting : int
        Number of pages that wait for their turn.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a turn, and leave the event loop to requests after it."""
        self.waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self.waiting -= 1
        try:
            begin = time.monotonic()
            yield
            await asyncio.sleep(min(time.monotonic() - begin, MAX_DRAW_SECONDS) * (1 / SHARE - 1))
        finally:
            self._lock.release()


#: Of the process, but held by asyncio's loop: they end with it.
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def turns() -> Turns:
    """Return the turns of the running event loop; without a loop, turns for which nobody waits."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return Turns()
    return _turns.setdefault(loop, Turns())
