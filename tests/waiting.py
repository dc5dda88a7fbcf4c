"""Waits for other threads, the event loop or the browser by polling, without fixed sleeps."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from playwright.sync_api import Page

T = TypeVar("T")


def run_alone(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a thread of its own: Playwright leaves an event loop running on this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def let_loop_run_until(predicate: Callable[[], bool], timeout: float = 30.0) -> None:
    """Let the event loop run until the result is true; TimeoutError after that many seconds."""
    async with asyncio.timeout(timeout):
        while not predicate():
            await asyncio.sleep(0.001)  # other threads may run


def occupy_thread(seconds: float) -> None:
    """Keep the thread busy, as a slow redraw does; a sleep would not count as work."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def wait_until(
    predicate: Callable[[], T],
    timeout: float = 30.0,
    message: str = "",
    *,
    page: Page | None = None,
    every: float = 0.01,
) -> T:
    """Poll until the result is true, and return it.

    Parameters
    ----------
    predicate : callable
        Called again and again; an AssertionError counts as false, and is shown if it never passes.
    timeout : float
        Seconds.
    message : str
        Description of the condition.
    page : Page, optional
        If given, the browser's events are handled between two calls.
    every : float
        Seconds between two calls.

    Raises
    ------
    AssertionError
        After the timeout, with the message and the last result.
    """
    __tracebackhide__ = True
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    while True:
        try:
            last: object = predicate()
            if last:
                return last  # type: ignore[return-value]
        except AssertionError as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {message or predicate}; last answer: {last!r}")
        if page is None:
            pause.wait(every)
        else:
            page.wait_for_timeout(every * 1000)
