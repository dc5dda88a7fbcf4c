"""Delivers changes of runs to one page or notebook cell, at most ten times a second.

`Session.notify` is thread-safe; redraws run on the event loop. Changes in quick succession share a redraw.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

import panel as pn

from rlpanel.panels.session.browser_pace import BrowserPace
from rlpanel.panels.session.event_loop import SessionLoop
from rlpanel.panels.session.redraw_queue import redraw_queue
from rlpanel.store.index.run_index import RunIndex

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Minimum seconds between two redraws of one session.
MIN_INTERVAL = 0.1
#: Seconds of drawing after which the other parts of a redraw get another turn. Each turn sends a message, and
#: many small ones cost the server and the browser more than one.
TURN = 0.02


class Session:
    """Throttled change notifications for one page or notebook cell.

    Parameters
    ----------
    loop : SessionLoop
        Event loop on which the session is drawn.
    draw : callable
        Called on the event loop with the set of changes: indexes of runs, and None for the list of runs. The
        set is empty if only time has passed. Callbacks that it returns are run one by one, in as many turns
        as their time needs.
    wants : callable, optional
        Returns whether changes of a run need a redraw; called on any thread.
    every : float, optional
        Seconds after which the session is redrawn without a change, for content that depends on the clock.
    pace : BrowserPace, optional
        Delays changes until the browser has time for them.
    """

    def __init__(
        self,
        loop: SessionLoop,
        draw: Callable[[set[RunIndex | None]], Iterable[Callable[[], object]] | None],
        wants: Callable[[RunIndex], bool] = lambda _: True,
        every: float = math.inf,
        pace: BrowserPace | None = None,
    ) -> None:
        self.loop = loop
        self._draw = draw
        self._wants, self._every, self._pace = wants, every, pace
        self._lock = threading.Lock()
        self._changed: set[RunIndex | None] = set()
        self._scheduled = self._idle_scheduled = False
        self._last_drawn = 0.0
        self.closed = False

    def notify(self, changed: RunIndex | None) -> None:
        """Record a change and schedule a redraw. Thread-safe."""
        if changed is None or self._wants(changed):
            self._schedule({changed})

    def redraw(self) -> None:
        """Schedule a redraw without a change, for content that depends on the clock."""
        self._schedule(set())

    def _schedule(self, changed: set[RunIndex | None]) -> None:
        with self._lock:
            self._changed |= changed
            if self._scheduled or self.closed:
                return
            self._scheduled = True
        self.loop.call_soon(self._queue_redraw)

    def _queue_redraw(self) -> None:
        """Queue the redraw after `MIN_INTERVAL` seconds, once the browser has drawn the last one."""
        if self.closed:
            return
        wait = MIN_INTERVAL if self.loop.is_sending else self._last_drawn + MIN_INTERVAL - time.monotonic()
        if self._pace is not None:
            wait = max(wait, self._pace.wait)
        if wait > 0:
            self.loop.call_later(wait, self._queue_redraw)
        else:
            redraw_queue().put(self.loop, self._flush)

    def _flush(self) -> None:
        with self._lock:
            changed, self._changed = self._changed, set()
            self._scheduled = False
        pace = self._pace if changed else None  # the clock alone draws little
        end = time.monotonic() + TURN
        with pn.io.hold():
            if pace is not None:
                self._try(pace.begin)
            parts = self._try(partial(self._draw, changed))
            self._draw_parts(deque(parts or ()), pace, end)
        self._last_drawn = time.monotonic()
        self._schedule_idle_redraw()

    def _draw_parts(self, parts: deque[Callable[[], object]], pace: BrowserPace | None, end: float) -> None:
        """Draw parts until the turn ends, and queue the others."""
        while parts and time.monotonic() < end:
            self._try(parts.popleft())
        if parts:
            redraw_queue().put(self.loop, partial(self._draw_turn, parts, pace))
        elif pace is not None:
            self._try(pace.end)

    def _draw_turn(self, parts: deque[Callable[[], object]], pace: BrowserPace | None) -> None:
        with pn.io.hold():
            self._draw_parts(parts, pace, time.monotonic() + TURN)

    def _try(self, draw: Callable[[], T]) -> T | None:
        """Call a drawing function and log its error: one broken view must not stop the session."""
        if self.closed:
            return None
        try:
            return draw()
        except Exception:
            log.exception("error while drawing a session")
            return None

    def _schedule_idle_redraw(self) -> None:
        """Schedule the redraw that is due if nothing changes for `every` seconds."""
        if self._every < math.inf and not self._idle_scheduled:
            left = self._last_drawn + self._every - time.monotonic()
            self._idle_scheduled = True
            # Without the document's lock: most pages were redrawn in the meantime and have nothing to do.
            self.loop.on_loop(lambda loop: loop.call_later(left, self._on_idle))

    def _on_idle(self) -> None:
        self._idle_scheduled = False
        if self.closed:
            return
        if self._last_drawn + self._every > time.monotonic():
            self._schedule_idle_redraw()
        else:
            self.redraw()
