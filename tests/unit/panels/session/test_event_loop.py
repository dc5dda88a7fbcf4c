"""Calls from any thread run on the session's event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from functools import partial

import panel as pn
import pytest
from bokeh.document import Document
from bokeh.document.events import SessionCallbackAdded
from panel.io.state import set_curdoc

from rlpanel.panels.session.event_loop import SessionLoop, current_loop, drawing_loop


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


class Serving:
    """Runs what a document schedules, as a server's session does."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def _session_callback_added(self, event: SessionCallbackAdded) -> None:
        self._loop.call_soon_threadsafe(event.callback.callback)


@pytest.mark.usefixtures("hurried")
def test_callbacks_that_threads_schedule_during_a_hold_all_run() -> None:
    document, done, each, threads = Document(), set(), 2000, 4
    begun = threading.get_ident()

    def do(name: tuple[int, int]) -> None:
        assert threading.get_ident() == begun
        done.add(name)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        serving, place = Serving(loop), SessionLoop(loop, document)
        document.callbacks.on_change_dispatch_to(serving)  # which bokeh does not keep alive

        def ask(thread: int) -> None:
            for at in range(each):
                place.call_soon(partial(do, (thread, at)))

        asking = [threading.Thread(target=ask, args=(thread,)) for thread in range(threads)]
        for thread in asking:
            thread.start()
        while any(thread.is_alive() for thread in asking):
            for _ in range(20):
                with pn.io.hold(document):
                    pass
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert len(done) == each * threads


def test_a_closed_loop_takes_nothing() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    place = SessionLoop(loop)
    assert place.is_gone
    place.call_soon(lambda: None)


def test_in_a_script_nothing_comes_back() -> None:
    assert current_loop() is None
    assert drawing_loop() is None


def test_a_notebook_cell_has_no_drawing_loop_but_a_served_page_does() -> None:
    async def cell() -> tuple[bool, bool, bool]:
        made = current_loop() is not None, drawing_loop() is not None
        with set_curdoc(Document()):
            return (*made, drawing_loop() is not None)

    assert asyncio.run(cell()) == (True, False, True)
