"""Python's full collections look at what is new, and at all there is only when pages were closed.

A page is very many objects that live as long as it is open. A full collection looks at each: 25 ms a page,
which with fifty open stops the event loop for more than a second, again and again, to find nothing.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rlpanel.app.session_hub import SessionHub

#: All is looked at when as many pages were closed as this part of those that are open,
PART = 0.25
#: and after so many seconds although none was.
EVERY = 600.0
#: Seconds from one look whether it is time to the next.
LOOK = 10.0


@contextmanager
def without_old_objects(
    hub: SessionHub, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[], None]]:
    """Set what outlives a full collection apart from later ones.

    Parameters
    ----------
    hub : SessionHub
        Knows how many pages are open, and how many were closed.
    clock : callable
        Seconds.

    Yields
    ------
    callable
        To be called every `LOOK` seconds: collects all that nobody uses, if it is time.
    """
    looked, closed = clock(), hub.left

    def collected(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()

    def look() -> None:
        nonlocal looked, closed
        if hub.left - closed > PART * hub.sessions or clock() - looked > EVERY:
            looked, closed = clock(), hub.left
            gc.unfreeze()
            gc.collect()

    gc.callbacks.append(collected)
    try:
        yield look
    finally:
        gc.callbacks.remove(collected)
        gc.unfreeze()
