"""Builds a page in small steps, each in a turn of its own.

A complete page takes a quarter of a second of the event loop. Built at once, it would delay all other pages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import panel as pn

from rlpanel.panels.session.event_loop import SessionLoop
from rlpanel.panels.session.redraw_queue import redraw_queue

#: One step of the work; steps that it returns come next.
Step = Callable[[], "Iterable[Step] | None"]


class PartQueue:
    """Queue of the steps that build one page.

    Parameters
    ----------
    loop : SessionLoop, optional
        Event loop of the page; without a served page all steps are taken at once.
    steps : iterable of callable
    """

    def __init__(self, loop: SessionLoop | None, steps: Iterable[Step]) -> None:
        self._loop = loop
        self._steps = deque(steps)

    def start(self) -> None:
        """Take the steps, as soon as the event loop is free."""
        if self._loop is None or not self._loop.is_served:
            while self._steps:
                self._take()
        else:
            self._loop.call_soon(self._queue_next)

    def _queue_next(self) -> None:
        """Queue the next step, unless the browser is drawing the document that it just received.

        A view that is added meanwhile may be lost: it is not in the document, and the page ignores changes.
        """
        if self._loop is None or not self._steps:
            return
        if self._loop.is_loading:
            loop = self._loop
            pn.state.onload(lambda: loop.call_soon(self._queue_next))
        else:
            redraw_queue().put(self._loop, self._take_in_turn)

    def _take_in_turn(self) -> None:
        if self._loop is None:
            return
        if not self._loop.is_loading:  # the browser may have connected in the meantime
            self._take()
        self._loop.call_soon(self._queue_next)

    def _take(self) -> None:
        following = self._steps.popleft()()
        self._steps.extendleft(reversed(list(following or ())))
