"""Limits Python's full garbage collections to new objects; old ones are checked after pages were closed.

An open page consists of very many long-lived objects. A full collection visits all of them, 25 ms per page.
With fifty open pages it would repeatedly block the event loop for over a second without freeing anything.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rlpanel.panels.session.session_hub import SessionHub

#: All objects are collected when the closed pages exceed this share of the open ones,
PART = 0.25
#: and after this many seconds in any case.
EVERY = 600.0
#: Seconds between two checks of these conditions.
CHECK_SECONDS = 10.0


@contextmanager
def exclude_old_objects(
    hub: SessionHub, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[], None]]:
    """Exclude objects that survived a full collection from later collections.

    Parameters
    ----------
    hub : SessionHub
        Counts the open and the closed pages.
    clock : callable
        Returns seconds.

    Yields
    ------
    callable
        Call it every `CHECK_SECONDS` seconds: it collects all unused objects if that is due.
    """
    last, closed = clock(), hub.left

    def freeze_survivors(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()

    def collect_if_due() -> None:
        nonlocal last, closed
        if hub.left - closed > PART * hub.sessions or clock() - last > EVERY:
            last, closed = clock(), hub.left
            gc.unfreeze()
            gc.collect()

    gc.callbacks.append(freeze_survivors)
    try:
        yield collect_if_due
    finally:
        gc.callbacks.remove(freeze_survivors)
        gc.unfreeze()
