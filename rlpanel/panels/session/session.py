"""One page's or one cell's ear for changes: any thread may tell, drawing happens on the event loop.

What comes in quick succession is drawn at once, at most ten times a second.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from rlpanel.panels.session.event_loop import SessionLoop
from rlpanel.panels.session.redraw_queue import redraw_queue
from rlpanel.store.index.run_index import RunIndex

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Seconds between two updates of one session.
FLOOR = 0.1


class Session:
    """One page's ear.

    Parameters
    ----------
    place : SessionLoop
        Where it is drawn.
    draw : callable
        Called on the event loop with the set of what changed: runs' indexes, None for the list of runs;
        nothing where only time has passed. What it returns is drawn part by part, each in a turn of its own.
    wants : callable, optional
        Whether a run's changes are worth a drawing; any thread may ask.
    every : float, optional
        Seconds after which it is drawn although nothing changed, for what depends on the clock.
    """

    def __init__(
        self,
        place: SessionLoop,
        draw: Callable[[set[RunIndex | None]], Iterable[Callable[[], object]] | None],
        wants: Callable[[RunIndex], bool] = lambda _: True,
        every: float = math.inf,
    ) -> None:
        self.place = place
        self._draw = draw
        self._wants, self._every = wants, every
        self._lock = threading.Lock()
        self._changed: set[RunIndex | None] = set()
        self._scheduled = self._waits = False
        self._drawn = 0.0
        self.closed = False

    def notify(self, changed: RunIndex | None) -> None:
        """Note a change; any thread may call."""
        if changed is None or self._wants(changed):
            self._schedule({changed})

    def redraw(self) -> None:
        """Time has passed; what is drawn soon in any case shows it, too."""
        self._schedule(set())

    def _schedule(self, changed: set[RunIndex | None]) -> None:
        with self._lock:
            self._changed |= changed
            if self._scheduled or self.closed:
                return
            self._scheduled = True
        self.place.call_soon(self._soon)

    def _soon(self) -> None:
        """Take a turn, once there was some rest and the browser has taken the last drawing."""
        wait = FLOOR if self.place.is_sending else self._drawn + FLOOR - time.monotonic()
        if self.closed:
            return
        if wait > 0:
            self.place.call_later(wait, self._soon)
        else:
            redraw_queue().put(self.place, self._flush)

    def _flush(self) -> None:
        with self._lock:
            changed, self._changed = self._changed, set()
            self._scheduled = False
        for part in self._try(partial(self._draw, changed)) or ():
            redraw_queue().put(self.place, partial(self._try, part))
        self._drawn = time.monotonic()
        self._rest()

    def _try(self, draw: Callable[[], T]) -> T | None:
        """Draw; one broken view must not silence the session."""
        if self.closed:
            return None
        try:
            return draw()
        except Exception:
            log.exception("a session could not be drawn")
            return None

    def _rest(self) -> None:
        """Be drawn again when nothing else has drawn it until then."""
        if self._every < math.inf and not self._waits:
            left = self._drawn + self._every - time.monotonic()
            self._waits = True
            # In no document's context, nor on a document's list: either would outlive the session.
            asyncio.get_running_loop().call_later(left, self._rested, context=contextvars.Context())

    def _rested(self) -> None:
        self._waits = False
        if self.closed:
            return
        if self._drawn + self._every > time.monotonic():
            self._rest()
        else:
            self.redraw()
