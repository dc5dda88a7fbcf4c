"""Runs long work on threads, in pools by its length, and shows its results on the session's event loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

from rlpanel.panels.language.labels import current_language, using
from rlpanel.panels.session.event_loop import SessionLoop, drawing_loop

T = TypeVar("T")

MAX_WAIT = 60.0


class Threads:
    """Pools of threads, which start when they get work.

    Parameters
    ----------
    max_wait : float
        Seconds that a check of the findings waits at most for pages that read the rows of a run.

    Attributes
    ----------
    views : ThreadPoolExecutor
        Short work of the views, such as a comparison.
    pages : ThreadPoolExecutor
        Reads the rows of the page that is open: the findings, which `views` has, do not delay it.
    queries : ThreadPoolExecutor
        Queries and exports, which may take minutes.
    texts : ThreadPoolExecutor
        Reads the texts of the grid's rows.
    media : ThreadPoolExecutor
        Reads audio and video: a disk that does not answer delays nothing else.
    is_closed : bool
        Whether long work is to end early, since nobody looks at it any more.
    """

    def __init__(self, *, max_wait: float = MAX_WAIT) -> None:
        self.views = ThreadPoolExecutor(2, "rlpanel-views")
        self.pages = ThreadPoolExecutor(2, "rlpanel-pages")
        self.queries = ThreadPoolExecutor(2, "rlpanel-asking")
        self.texts = ThreadPoolExecutor(2, "rlpanel-texts")
        self.media = ThreadPoolExecutor(4, "rlpanel-media")
        self.is_closed = False
        self._max_wait = max_wait
        self._readings, self._changed = 0, threading.Condition()

    def before_findings(self, results: Iterator[T]) -> Iterator[T]:
        """Yield the results of a page; meanwhile a check of the findings waits before its next rule.

        The page is what a person waits for, and both would take their memory at the same time.
        """
        self._count_reading(1)
        try:
            yield from results
        finally:  # also of a job that is dropped
            self._count_reading(-1)

    def _count_reading(self, change: int) -> None:
        with self._changed:
            self._readings += change
            self._changed.notify_all()

    def end_of_check(self) -> Callable[[], bool]:
        """Return a function for one check, which asks before each rule whether it is to end.

        The function waits while a page reads, ``max_wait`` seconds in all at most.
        """
        left = self._max_wait

        def ended() -> bool:
            nonlocal left
            began = time.monotonic()
            with self._changed:
                self._changed.wait_for(lambda: self.is_closed or not self._readings, max(left, 0))
            left -= time.monotonic() - began
            return self.is_closed

        return ended

    def close(self) -> None:
        """Start no further work, and let the threads end after what they do now."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()
        for pool in (self.views, self.pages, self.queries, self.texts, self.media):
            pool.shutdown(wait=False, cancel_futures=True)


class BackgroundTask(Generic[T]):
    """Runs one job at a time; starting a new job ends the older one early.

    Parameters
    ----------
    show : callable
        Called on the session's loop with each result, as long as its job is the newest.
    pool : Executor
        One of the session's pools, see `Threads`.
    """

    def __init__(self, show: Callable[[T], None], pool: Executor) -> None:
        self._show = show
        self._pool = pool
        self._job = 0
        self._loop: SessionLoop | None = None

    @property
    def is_running(self) -> bool:
        """True while the newest job runs."""
        return self._loop is not None and self in self._loop.busy

    def start(self, results: Iterator[T]) -> None:
        """Compute ``results`` on a thread and show each one as it arrives.

        Without a session (in a script) they are computed and shown at once.
        """
        self._job += 1
        job, self._loop = self._job, drawing_loop()
        loop = self._loop
        if loop is None:
            for result in results:
                if job == self._job:
                    self._show(result)
        else:
            loop.busy.add(self)
            self._pool.submit(self._run, job, results, loop, current_language()).add_done_callback(
                lambda future: loop.draw(partial(self._end, job, future))
            )

    def _run(self, job: int, results: Iterator[T], loop: SessionLoop, language: str) -> None:
        with using(language):
            for result in results:
                if job != self._job or loop.is_gone or loop.has_stopped:
                    return
                loop.draw(partial(self._on_result, job, result))

    def _on_result(self, job: int, result: T) -> None:
        if job == self._job:
            self._show(result)

    def _end(self, job: int, future: Future[None]) -> None:
        if job == self._job:
            self.stop()
        if not future.cancelled():
            future.result()  # an exception is raised on the loop, which reports it like its other errors

    def stop(self) -> None:
        """End the current job early; its further results are not shown."""
        self._job += 1
        if self._loop is not None:
            self._loop.busy.discard(self)
