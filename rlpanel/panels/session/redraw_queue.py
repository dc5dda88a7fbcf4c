"""Fair queue of redraws: the pages of one event loop draw one after another, with a pause after each.

Drawing one page takes some milliseconds of the event loop. If fifty pages redrew at once for the same change,
the loop would answer no request for seconds. With pauses each page waits a little longer, and changes that
arrive meanwhile are drawn together.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary

import panel as pn

from rlpanel.panels.session.event_loop import SessionLoop

#: Share of the event loop's time that drawing may take while pages are waiting.
SHARE = 0.85
#: Upper limit of the drawing time that a pause is computed from; a page's first drawing may take longer.
MAX_DRAW_SECONDS = 0.1
#: Seconds after which the queue moves on if the page whose turn it is does not draw.
PATIENCE = 0.5


class RedrawQueue:
    """First-in, first-out queue of redraws on one event loop.

    Redraws of one page run in the order in which they were put: each may send the next part of a file.
    """

    def __init__(self) -> None:
        self._free_at = 0.0
        self._drawing = False
        self._waiting: deque[tuple[SessionLoop, Callable[[], object]]] = deque()
        # Number of redraws that have left the queue, but that the event loop has not run yet.
        self._scheduled: WeakKeyDictionary[SessionLoop, int] = WeakKeyDictionary()
        # Redraws of pages that are loading; all are older than those of the same page that wait.
        self._held: WeakKeyDictionary[SessionLoop, list[Callable[[], object]]] = WeakKeyDictionary()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, session_loop: SessionLoop, draw: Callable[[], object]) -> None:
        """Draw now if nothing is waiting, else in turn; to be called in a callback of ``session_loop``."""
        wait = self._free_at - time.monotonic()
        is_first = not self._waiting and not self._scheduled.get(session_loop)
        if is_first and self._is_held(session_loop):
            self._hold(session_loop, draw)
            return
        if wait <= 0 and is_first and not self._drawing:
            self._run(draw)
            return
        self._waiting.append((session_loop, draw))
        if self._timer is None and not self._drawing:
            self._schedule_next(wait)

    def _run(self, draw: Callable[[], object]) -> None:
        begin, self._drawing = time.monotonic(), True
        try:
            draw()
        finally:
            self._drawing = False
            end = time.monotonic()
            self._free_at = end + min(end - begin, MAX_DRAW_SECONDS) * (1 / SHARE - 1)
            self._schedule_next(self._free_at - end)

    def _draw_next(self) -> None:
        """Start the redraw that has waited longest, in a callback of its own document."""
        self._timer = None
        while self._waiting:
            session_loop, draw = self._waiting.popleft()
            if not session_loop.is_gone:
                self._scheduled[session_loop] = self._scheduled.get(session_loop, 0) + 1
                session_loop.call_soon(partial(self._run_scheduled, session_loop, draw))
                self._schedule_next(PATIENCE)
                return

    def _run_scheduled(self, session_loop: SessionLoop, draw: Callable[[], object]) -> None:
        self._scheduled[session_loop] -= 1
        if self._is_held(session_loop):
            self._hold(session_loop, draw)
        else:
            self._run(draw)

    # -- pages that load -------------------------------------------------------------------------

    def _is_held(self, session_loop: SessionLoop) -> bool:
        """Return whether redraws must wait until the browser has drawn the document that it received.

        It would ignore changes until then.
        """
        return session_loop in self._held or session_loop.is_loading

    def _hold(self, session_loop: SessionLoop, draw: Callable[[], object]) -> None:
        if session_loop not in self._held:
            self._held[session_loop] = []
            pn.state.onload(lambda: session_loop.call_soon(partial(self._release, session_loop)))
        self._held[session_loop].append(draw)

    def _release(self, session_loop: SessionLoop) -> None:
        """Let the held redraws wait for their turn, before newer ones of the same page."""
        if self._scheduled.get(session_loop):  # newer ones: they are held first
            session_loop.call_soon(partial(self._release, session_loop))
            return
        held = self._held.pop(session_loop, [])
        self._waiting.extendleft((session_loop, draw) for draw in reversed(held))
        if self._timer is None and not self._drawing:
            self._schedule_next(self._free_at - time.monotonic())

    def _schedule_next(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            # An empty context: the timer would keep the document of the current one in memory.
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._draw_next, context=contextvars.Context())


#: Of the process, but held by asyncio's loop: they end with it.
_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, RedrawQueue] = WeakKeyDictionary()


def redraw_queue() -> RedrawQueue:
    """Return the queue of the running event loop; without a loop an empty queue, which draws at once."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return RedrawQueue()
    return _queues.setdefault(loop, RedrawQueue())


def draw_in_turn(session_loop: SessionLoop, draw: Callable[[], object]) -> None:
    """Put a redraw into the queue of the session's event loop. Thread-safe."""
    session_loop.call_soon(lambda: redraw_queue().put(session_loop, draw))
