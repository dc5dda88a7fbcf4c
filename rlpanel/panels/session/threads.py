"""Runs long work on threads, in pools by its length, and shows its results on the session's event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

from rlpanel.panels.language.labels import current_language, using
from rlpanel.panels.session.event_loop import SessionLoop, drawing_loop


class Threads:
    """Pools of threads, which start when they get work.

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

    def __init__(self) -> None:
        self.views = ThreadPoolExecutor(2, "rlpanel-views")
        self.pages = ThreadPoolExecutor(2, "rlpanel-pages")
        self.queries = ThreadPoolExecutor(2, "rlpanel-asking")
        self.texts = ThreadPoolExecutor(2, "rlpanel-texts")
        self.media = ThreadPoolExecutor(4, "rlpanel-media")
        self.is_closed = False

    def close(self) -> None:
        """Start no further work, and let the threads end after what they do now."""
        self.is_closed = True
        for pool in (self.views, self.pages, self.queries, self.texts, self.media):
            pool.shutdown(wait=False, cancel_futures=True)


T = TypeVar("T")


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
