"""Python's full collections look at what is new, and only now and then at all.

A page is very many objects that live as long as it is open. A full collection looks at each: 25 ms a page,
which with fifty open stops the event loop for more than a second, again and again, to find nothing.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rlpanel.app.hub import Hub

#: Seconds after which all is looked at although no page was closed.
EVERY = 600.0
#: So is it when as many pages were closed as this part of those that are open.
PART = 0.25


@contextmanager
def spared(hub: Hub, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Set what outlives a full collection apart from later ones, until pages were closed or time has passed.

    Parameters
    ----------
    hub : Hub
        Knows how many pages are open, and how many were closed.
    clock : callable
        Seconds.
    """
    looked, closed = clock(), hub.left

    def collected(phase: str, info: dict[str, Any]) -> None:
        nonlocal looked, closed
        if info["generation"] < 2:
            return
        if phase == "stop":
            gc.freeze()
        elif hub.left - closed > PART * hub.sessions or clock() - looked > EVERY:
            gc.unfreeze()
            looked, closed = clock(), hub.left

    gc.callbacks.append(collected)
    try:
        yield
    finally:
        gc.callbacks.remove(collected)
        gc.unfreeze()
