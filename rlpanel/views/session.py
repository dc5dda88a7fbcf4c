"""One page's or one cell's ear for changes: any thread may tell, drawing happens on the event loop.

What comes in quick succession is drawn at once, at most ten times a second.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from bokeh.document import Document

from rlpanel.store.index import RunIndex
from rlpanel.views.pace import Turns, is_taking

log = logging.getLogger(__name__)

#: Seconds between two updates of one session.
FLOOR = 0.1


class Loop:
    """An event loop with a document's ways to be called back: a notebook's cells have no document to ask.

    Parameters
    ----------
    loop : AbstractEventLoop
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def add_next_tick_callback(self, callback: Callable[[], object]) -> None:
        """Call back soon; RuntimeError once the loop is closed. Any thread may call."""
        self._loop.call_soon_threadsafe(callback)

    def add_timeout_callback(self, callback: Callable[[], object], milliseconds: int) -> None:
        """Call back later; called on the loop."""
        self._loop.call_later(milliseconds / 1000, callback)


class Session:
    """One document's place in the hub.

    Parameters
    ----------
    document : Document or Loop
        Where callbacks are scheduled.
    draw : callable
        Called on the event loop with the set of what changed: runs' indexes, None for the list of runs.
    turns : Turns, optional
        Shared by the sessions of an event loop.
    """

    def __init__(
        self,
        document: Document | Loop,
        draw: Callable[[set[RunIndex | None]], None],
        turns: Turns | None = None,
    ) -> None:
        self._document = document
        self._draw = draw
        self._turns = turns or Turns()
        self._lock = threading.Lock()
        self._changed: set[RunIndex | None] = set()
        self._scheduled = False
        self._drawn = 0.0
        self.closed = False

    def tell(self, changed: RunIndex | None) -> None:
        """Note a change; any thread may call."""
        with self._lock:
            self._changed.add(changed)
            if self._scheduled or self.closed:
                return
            self._scheduled = True
        try:
            self._document.add_next_tick_callback(self._soon)
        except RuntimeError:  # the session is being torn down
            self.closed = True

    @property
    def is_taking(self) -> bool:
        """Whether the browser still takes the last drawing."""
        return isinstance(self._document, Document) and is_taking(self._document)

    def _soon(self) -> None:
        now = time.monotonic()
        wait = self._turns.after(max(now, self._drawn + FLOOR)) - now
        if wait > 0:
            self._document.add_timeout_callback(self._flush, int(wait * 1000) + 1)
        else:
            self._flush()

    def _flush(self) -> None:
        if self.is_taking and not self.closed:
            self._document.add_timeout_callback(self._flush, int(FLOOR * 1000))
            return
        with self._lock:
            changed, self._changed = self._changed, set()
            self._scheduled = False
        if self.closed:
            return
        begin = time.thread_time()  # not by the clock: what a busy machine adds is no reason to wait
        try:
            self._draw(changed)
        except Exception:  # one broken view must not silence the session
            log.exception("a session could not be drawn")
        self._drawn = time.monotonic()
        self._turns.took(time.thread_time() - begin)
