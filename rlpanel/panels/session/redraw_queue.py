"""When a page may be drawn: not while its browser still takes the last drawing, and one page after another.

Drawing one page takes some milliseconds of the event loop. With fifty pages told of the same news, the loop
would draw for seconds and answer nobody; in turns, with a pause after each, everybody waits a little longer
and what comes meanwhile is drawn with it.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary

from rlpanel.panels.session.event_loop import SessionLoop

#: Share of the event loop's time that drawing may take while pages wait for their turn.
SHARE = 0.85
#: No drawing is followed by a pause as if it took longer: a page's first one, say.
MOST_SECONDS = 0.1
#: Seconds after which a page that does not draw, although it is its turn, holds nobody back any more.
PATIENCE = 0.5


class RedrawQueue:
    """Who draws next, on one event loop: first come, first served."""

    def __init__(self) -> None:
        self._free = 0.0
        self._draws = False
        self._waiting: deque[tuple[SessionLoop, Callable[[], object]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, place: SessionLoop, draw: Callable[[], object]) -> None:
        """Draw now, or as soon as it is the turn of ``place``; called on the loop, in a callback of it."""
        wait = self._free - time.monotonic()
        if wait <= 0 and not self._waiting and not self._draws:
            self._run(draw)
            return
        self._waiting.append((place, draw))
        if self._timer is None and not self._draws:
            self._after(wait)

    def _run(self, draw: Callable[[], object]) -> None:
        begin, self._draws = time.monotonic(), True
        try:
            draw()
        finally:
            self._draws = False
            end = time.monotonic()
            self._free = end + min(end - begin, MOST_SECONDS) * (1 / SHARE - 1)
            self._after(self._free - end)

    def _next(self) -> None:
        """Call up the one who has waited longest; a document draws in a callback of its own."""
        self._timer = None
        while self._waiting:
            place, draw = self._waiting.popleft()
            if not place.is_gone:
                place.call_soon(partial(self._run, draw))
                self._after(PATIENCE)
                return

    def _after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            # In no document's context: it would be kept in memory by whoever draws next.
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._next, context=contextvars.Context())


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, RedrawQueue] = WeakKeyDictionary()


def redraw_queue() -> RedrawQueue:
    """The turns of the event loop that runs; where none does, nobody waits."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return RedrawQueue()
    return _turns.setdefault(loop, RedrawQueue())


def draw_in_turn(place: SessionLoop, draw: Callable[[], object]) -> None:
    """Draw when it is the turn of ``place``; any thread may call."""
    place.call_soon(lambda: redraw_queue().put(place, draw))
