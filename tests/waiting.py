"""Waiting for what happens on another thread or in the browser, without guessing how long it takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from playwright.sync_api import Page

T = TypeVar("T")


def wait_until(
    predicate: Callable[[], T], timeout: float = 10.0, message: str = "", *, page: Page | None = None
) -> T:
    """Ask until the answer is true, and give it back.

    Parameters
    ----------
    predicate : callable
        Asked every 10 ms; an AssertionError counts as not yet, and is shown if it never passes.
    timeout : float
        Seconds.
    message : str
        What was waited for, in words.
    page : Page, optional
        Where given, the browser's own events are handled between two questions.

    Raises
    ------
    AssertionError
        When the time ran out, with the message and the last answer.
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
            pause.wait(0.01)
        else:
            page.wait_for_timeout(10)
