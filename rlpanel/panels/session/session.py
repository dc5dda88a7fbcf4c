"""Delivers changes of runs to one page, at the pace at which its browser draws them."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import param

from rlpanel.panel_fixes.component import Component, pair_of
from rlpanel.panels.session.event_loop import SessionLoop, Step, drawing_loop
from rlpanel.panels.ui.assets import read_assets
from rlpanel.store.index.run_index import RunIndex

# -- browser pace --------------------------------------------------------------------------------------
# Throttles updates of a page to the pace at which its browser draws them.
#
# The next update is sent when the browser has drawn the last one and has rested.
#
# A fast run may have fifteen steps a second, and a slow browser needs half a second to draw one. Without a
# limit it would do nothing else, would answer clicks late, and would show steps that are long past.


#: Share of the browser's main thread that news may take.
SHARE = 0.25
#: Longest pause after a drawing, and wait for each redraw that the browser does not report, in seconds.
MAX_PAUSE, MAX_WAIT = 5.0, 10.0
#: Seconds between two looks for the browser's report.
LOOK_AGAIN = 0.05


class BrowserPace(Component):
    """Invisible component that measures how long the browser takes to draw.

    A message is a pair: the number of the redraw that the browser has drawn, and the milliseconds from its
    beginning until it was on the screen. Or it is ``["settled", number]``: the number is sent back as soon as
    nothing is left to draw of what the viewer did before.
    """

    begun = param.Integer(default=0, doc="Number of redraws whose first part was sent.")
    sent = param.Integer(default=0, doc="Number of redraws that were sent.")

    _esm = read_assets("panels/session/drawn.js", "panels/session/browser_pace.js")

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._drawn = 0
        self._sent_at = self._free_at = 0.0

    @property
    def wait(self) -> float:
        """Seconds until the browser has time for news; 0 for a browser that never reports."""
        now = time.monotonic()
        # A suspended page does not report. It gets ever fewer redraws: they pile up in the process's memory.
        if 0 < self._drawn < self.sent and now - self._sent_at < MAX_WAIT * (self.sent - self._drawn):
            return LOOK_AGAIN
        return max(0.0, self._free_at - now)

    def begin(self) -> None:
        """Tell the browser that a redraw begins."""
        self.begun += 1

    def end(self) -> None:
        """Tell the browser that a redraw is complete."""
        self._sent_at = time.monotonic()
        self.sent += 1

    def receive(self, message: Any) -> None:
        """Note what the browser has drawn, or answer its question. The message comes from the browser."""
        number, took = pair_of(message)
        if number == "settled" and type(took) is int:
            self._answer_when_settled(took)
        elif isinstance(number, int) and isinstance(took, int | float) and math.isfinite(took):
            self._note_drawn(number, took)

    def _answer_when_settled(self, number: int) -> None:
        loop = drawing_loop()
        if loop is not None:
            loop.when_settled(partial(self.send, number))

    def _note_drawn(self, drawn: int, took: float) -> None:
        if self._drawn < drawn <= self.sent:
            self._drawn = drawn
            pause = max(0.0, took) / 1000 * (1 / SHARE - 1)
            self._free_at = time.monotonic() + min(pause, MAX_PAUSE)


# -- session -------------------------------------------------------------------------------------------
# Delivers changes of runs to one page or notebook cell, at most ten times a second.
#
# `Session.notify` is thread-safe; redraws run on the event loop. Changes in quick succession share a redraw.


#: Minimum seconds between two redraws of one session.
MIN_INTERVAL = 0.1


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
        draw: Callable[[set[RunIndex | None]], Iterable[Step] | None],
        wants: Callable[[RunIndex], bool] = lambda _: True,
        every: float = math.inf,
        pace: BrowserPace | None = None,
    ) -> None:
        self.loop = loop
        self._draw = draw
        self._wants, self._every, self._pace = wants, every, pace
        self._lock = threading.Lock()
        self._changed: set[RunIndex | None] = set()
        self._last_drawn = 0.0
        self._draws = False
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False

    def notify(self, changed: RunIndex | None) -> None:
        """Record a change and schedule a redraw. Thread-safe."""
        if changed is None or self._wants(changed):
            with self._lock:
                is_first = not self._changed
                self._changed.add(changed)
            if is_first:
                self.redraw()

    def redraw(self) -> None:
        """Redraw as soon as it is due. Thread-safe."""
        self.loop.on_loop(self._wait)

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a redraw that is due, or look again when it is; without the document's lock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._draws or self.closed:
            return
        if self._changed:
            self.loop.busy.add(self)
        seconds = self._seconds_left
        if seconds <= 0:
            self._draws = True
            self.loop.draw(self._begin)
        elif seconds < math.inf:
            self._timer = loop.call_later(seconds, self._wait, loop)

    @property
    def _seconds_left(self) -> float:
        """Seconds until a redraw is due, and the browser has drawn the last one and has rested."""
        interval = MIN_INTERVAL if self._changed else self._every
        waits = [self._last_drawn + interval - time.monotonic()]
        if self.loop.has_unsent_changes:
            waits.append(MIN_INTERVAL)
        if self._pace is not None:
            waits.append(self._pace.wait)
        return max(waits)

    def _begin(self) -> list[Step]:
        """Return the steps of a redraw."""
        with self._lock:
            changed, self._changed = self._changed, set()
        if self.closed:
            return []
        draw = partial(self._draw, changed)
        if self._pace is None or not changed:  # the clock alone draws little
            return [draw, self._end]
        return [self._pace.begin, draw, self._pace.end, self._end]

    def _end(self) -> None:
        self._draws, self._last_drawn = False, time.monotonic()
        self.loop.busy.discard(self)  # a page whose run grows is settled between two redraws
        self.redraw()
