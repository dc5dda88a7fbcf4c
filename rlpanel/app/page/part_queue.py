"""Builds a page in small steps, each in a turn of its own.

A complete page takes a quarter of a second of the event loop. Built at once, it would delay all other pages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

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
        if self._loop is not None and self._steps:
            redraw_queue().put(self._loop, self._take_in_turn)

    def _take_in_turn(self) -> None:
        self._take()
        if self._loop is not None:
            self._loop.call_soon(self._queue_next)

    def _take(self) -> None:
        following = self._steps.popleft()()
        self._steps.extendleft(reversed(list(following or ())))
