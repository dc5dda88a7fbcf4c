"""Work that is too long for the event loop: done on a thread, shown on the session's own loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

import panel as pn

from rlpanel.panels.session.event_loop import SessionLoop, drawing_loop
from rlpanel.panels.session.redraw_queue import draw_in_turn

T = TypeVar("T")

_pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="rlpanel-views")


class BackgroundTask(Generic[T]):
    """One piece of work at a time; a newer one takes the place of the older, which then ends early.

    Parameters
    ----------
    show : callable
        Takes each result on the session's loop, and only while its work is the newest.
    pool : Executor, optional
        Threads of their own, for work that may take minutes and should keep nobody waiting.
    """

    def __init__(self, show: Callable[[T], None], pool: Executor | None = None) -> None:
        self._show = show
        self._pool = pool or _pool
        self._turn = 0

    def start(self, results: Iterator[T]) -> None:
        """Draw results from ``results`` on a thread; each is shown as it comes.

        Without a session (in a script) they are drawn and shown at once.
        """
        self._turn += 1
        turn, place = self._turn, drawing_loop()
        if place is None:
            for result in results:
                if turn == self._turn:
                    self._show(result)
        else:
            # An error is said where the loop's other errors are said.
            self._pool.submit(self._work, turn, results, place).add_done_callback(
                lambda done: place.call_soon(done.result) if done.exception() else None
            )

    def _work(self, turn: int, results: Iterator[T], place: SessionLoop) -> None:
        for result in results:
            if turn != self._turn or place.is_gone:
                return
            draw_in_turn(place, partial(self._arrived, turn, result))

    def _arrived(self, turn: int, result: T) -> None:
        if turn == self._turn:
            with pn.io.hold():
                self._show(result)

    def stop(self) -> None:
        """What is under way is no longer wanted."""
        self._turn += 1
