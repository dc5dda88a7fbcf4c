"""Memory of closed pages is freed; objects of open pages are not scanned again and again."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator

import pytest

from rlpanel.app.server.server import EVERY, exclude_old_objects
from rlpanel.panels.session.event_loop import SessionLoop
from rlpanel.panels.session.session import Session
from rlpanel.panels.session.session_hub import SessionHub
from rlpanel.store.index.reader import Reader


class Knot:
    """Object in a reference cycle, which only a garbage collection frees."""

    def __init__(self) -> None:
        self.me = self


class Clock:
    """Clock that advances only when it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hub() -> SessionHub:
    return SessionHub(Reader())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def look(hub: SessionHub, clock: Clock) -> Iterator[Callable[[], None]]:
    with exclude_old_objects(hub, clock) as look:
        yield look
    assert gc.get_freeze_count() == 0
    gc.freeze()  # as tests/conftest.py does


def page() -> Session:
    loop = asyncio.new_event_loop()
    loop.close()
    return Session(SessionLoop(loop), lambda changed: None)


def outlived() -> weakref.ref[Knot]:
    """Return a reference to a cycle that was in use during a collection and is garbage now."""
    knot = Knot()
    gc.collect()
    return weakref.ref(knot)


@pytest.mark.usefixtures("look")
def test_objects_that_survive_a_collection_are_excluded_from_the_next() -> None:
    knot = outlived()
    assert gc.get_freeze_count() > 0
    gc.collect()
    assert knot() is not None


@pytest.mark.usefixtures("look")
def test_new_objects_are_collected() -> None:
    gc.collect()
    knot = weakref.ref(Knot())
    gc.collect()
    assert knot() is None


def test_a_page_that_was_closed_has_all_looked_at_once(hub: SessionHub, look: Callable[[], None]) -> None:
    knot, session = outlived(), page()
    hub.join(session)
    look()
    assert knot() is not None
    hub.leave(session)
    look()
    assert knot() is None
    knot = outlived()
    look()
    assert knot() is not None


def test_of_many_pages_it_takes_more_than_one(hub: SessionHub, look: Callable[[], None]) -> None:
    pages = [page() for _ in range(9)]
    for session in pages:
        hub.join(session)
    knot = outlived()
    hub.leave(pages[0])
    look()
    assert knot() is not None
    for session in pages[1:3]:
        hub.leave(session)
    look()
    assert knot() is None


def test_from_time_to_time_all_is_looked_at(clock: Clock, look: Callable[[], None]) -> None:
    knot = outlived()
    look()
    assert knot() is not None
    clock.now = EVERY + 1
    look()
    assert knot() is None
