"""Calls from any thread run on the session's event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import panel as pn
import pytest
from bokeh.document import Document
from bokeh.document.events import TitleChangedEvent
from panel.io.document import schedule_write_events
from panel.io.state import set_curdoc

from rlpanel.panels.session.event_loop import TURN, SessionLoop, current_loop, drawing_loop, take_steps
from tests.served_document import served_document
from tests.waiting import let_loop_run_until, occupy_thread


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
            waits = [place.has_unsent_changes]
            document.hold()
            waits.append(place.has_unsent_changes)
            document.unhold()
            # An event on a page that no browser shows; Panel writes it in the loop's next turns.
            schedule_write_events(document, [], [TitleChangedEvent(document, "new")])
            waits.append(place.has_unsent_changes)
            await let_loop_run_until(lambda: not place.has_unsent_changes)
        return waits

    assert asyncio.run(asyncio.wait_for(run(), 30)) == [False, True, True]


def test_without_a_served_page_all_steps_are_taken_at_once_and_those_of_a_step_come_next() -> None:
    taken: list[str] = []

    def first() -> Iterator[Callable[[], None]]:
        taken.append("first")
        for name in ("its first", "its second"):
            yield partial(taken.append, name)

    take_steps(None, [first, partial(taken.append, "last")])
    assert taken == ["first", "its first", "its second", "last"]


def test_slow_steps_of_a_served_page_have_turns_of_their_own() -> None:
    async def run() -> list[str]:
        taken: list[str] = []

        def step(name: str) -> None:
            taken.append(name)
            asyncio.get_running_loop().call_soon(taken.append, f"turn after {name}")
            occupy_thread(TURN)

        async with served_document() as document:
            take_steps(
                SessionLoop(asyncio.get_running_loop(), document), [partial(step, "a"), partial(step, "b")]
            )
            assert taken == []
            await let_loop_run_until(lambda: len(taken) == 4)
        return taken

    taken = asyncio.run(run())
    assert taken.index("turn after a") < taken.index("b")


def test_a_page_is_settled_when_all_steps_are_taken_and_no_work_is_running() -> None:
    done: list[str] = []

    async def run() -> None:
        loop = SessionLoop(asyncio.get_running_loop())
        loop.busy.add("a job")
        loop.draw(lambda: [partial(done.append, "step"), partial(done.append, "its step")])
        loop.when_settled(partial(done.append, "settled"))
        await let_loop_run_until(lambda: len(done) == 2)

        def end() -> None:
            done.append("the job's result")
            loop.busy.discard("a job")

        loop.draw(end)
        await let_loop_run_until(lambda: len(done) == 4)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert done == ["step", "its step", "the job's result", "settled"]


def test_a_document_has_one_loop_on_which_all_its_parts_are_drawn_in_order() -> None:
    async def run() -> bool:
        async with served_document() as document:
            with set_curdoc(document):
                return current_loop() is drawing_loop()

    assert asyncio.run(asyncio.wait_for(run(), 30))


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
