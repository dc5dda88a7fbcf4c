"""Work that is too long for the event loop: done on a thread, shown on the session's own loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

import panel as pn

T = TypeVar("T")

_pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="rlpanel-views")


class Background(Generic[T]):
    """One piece of work at a time; a newer one takes the place of the older, which then ends early.

    Parameters
    ----------
    show : callable
        Takes each result on the session's loop, and only while its work is the newest.
    """

    def __init__(self, show: Callable[[T], None]) -> None:
        self._show = show
        self._turn = 0

    def start(self, results: Iterator[T]) -> None:
        """Draw results from ``results`` on a thread; each is shown as it comes.

        Without a session (in a script) they are drawn and shown at once.
        """
        self._turn += 1
        turn, document = self._turn, pn.state.curdoc
        if document is None:
            for result in results:
                self._show(result)
        else:
            later = document.add_next_tick_callback
            # An error is said where the loop's other errors are said.
            _pool.submit(self._work, turn, results, later).add_done_callback(
                lambda done: later(done.result) if done.exception() else None
            )

    def _work(self, turn: int, results: Iterator[T], later: Callable[[Callable[[], None]], object]) -> None:
        for result in results:
            if turn != self._turn:
                return
            later(partial(self._arrived, turn, result))

    def _arrived(self, turn: int, result: T) -> None:
        if turn == self._turn:
            with pn.io.hold():
                self._show(result)

    def stop(self) -> None:
        """What is under way is no longer wanted."""
        self._turn += 1
