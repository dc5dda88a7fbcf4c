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
from bokeh.document.events import TitleChangedEvent
from panel.io.document import schedule_write_events
from panel.io.state import set_curdoc

from rlpanel.panels.session.event_loop import SessionLoop, current_loop, drawing_loop
from tests.served_document import served_document
from tests.waiting import let_loop_run_until


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hurried")
def test_callbacks_that_threads_schedule_during_a_hold_all_run() -> None:
    done, each, threads = set(), 500, 4
    begun = threading.get_ident()

    def do(name: tuple[int, int]) -> None:
        assert threading.get_ident() == begun
        done.add(name)

    async def run() -> None:
        async with served_document() as document:
            place = SessionLoop(asyncio.get_running_loop(), document)

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
            await let_loop_run_until(lambda: len(done) == each * threads)

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_callback_runs_on_the_loop_with_the_document_locked() -> None:
    seen: list[object] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with served_document() as document:
            place = SessionLoop(loop, document)

            def draw() -> None:
                document.title = "a change of a document that is not locked is an error"
                seen.extend((pn.state.curdoc is document, asyncio.get_running_loop() is loop))

            await asyncio.to_thread(place.call_soon, draw)
            await asyncio.to_thread(place.call_later, 0.001, draw)
            await let_loop_run_until(lambda: len(seen) == 4)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert seen == [True] * 4


def test_what_a_page_schedules_while_it_is_built_runs_on_the_loop_afterwards() -> None:
    built: list[SessionLoop] = []
    seen: list[object] = []

    def build(document: Document) -> None:
        loop = current_loop()
        assert loop is not None
        built.append(loop)
        for _ in range(2):
            loop.call_soon(lambda: seen.append(loop.runs_here))

    async def run() -> None:
        async with served_document(build):
            await let_loop_run_until(lambda: len(seen) == 2)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert seen == [True, True]


def test_an_error_of_a_callback_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    done: list[bool] = []

    def fail() -> None:
        raise RuntimeError("a view is broken")

    async def run() -> None:
        async with served_document() as document:
            place = SessionLoop(asyncio.get_running_loop(), document)
            place.call_soon(fail)
            place.call_soon(lambda: done.append(True))
            await let_loop_run_until(lambda: done)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert "a view is broken" in caplog.text


def test_after_the_session_nothing_runs() -> None:
    done: list[bool] = []

    async def run() -> None:
        async with served_document() as document:
            place = SessionLoop(asyncio.get_running_loop(), document)
        place.call_soon(lambda: done.append(True))
        for _ in range(20):
            await asyncio.sleep(0)
        assert place.is_gone

    asyncio.run(asyncio.wait_for(run(), 30))
    assert done == []


def test_changes_that_panel_holds_or_queues_wait_to_be_sent() -> None:
    async def run() -> list[bool]:
        async with served_document() as document:
            place = SessionLoop(asyncio.get_running_loop(), document)
            waits = [place.is_sending]
            document.hold()
            waits.append(place.is_sending)
            document.unhold()
            # An event on a page that no browser shows; Panel writes it in the loop's next turns.
            schedule_write_events(document, [], [TitleChangedEvent(document, "new")])
            waits.append(place.is_sending)
            await let_loop_run_until(lambda: not place.is_sending)
        return waits

    assert asyncio.run(asyncio.wait_for(run(), 30)) == [False, True, True]


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
