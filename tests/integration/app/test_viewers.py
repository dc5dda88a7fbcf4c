"""Pages open, block and close: the server does not wait for them and frees the memory of closed ones."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from rlpanel.panels.session.context import Context
from rlpanel.panels.session.event_loop import SessionLoop
from rlpanel.runtime import default_runtime
from tests.factories import append, line, write_run
from tests.served_document import served_document
from tests.ui.board import Served
from tests.viewer import Viewer
from tests.waiting import let_loop_run_until, occupy_thread, run_alone, wait_until

RANK0 = "rollout_data_rank_0.jsonl"


def contexts() -> int:
    """Boards that are still in memory."""
    gc.collect()
    return sum(isinstance(thing, Context) for thing in gc.get_objects())


def test_of_pages_that_went_nothing_is_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "panel")  # what is kept of a log would keep what it speaks of
    write_run(tmp_path / "run", steps=2, samples=2)
    before, sessions = contexts(), default_runtime().hub.sessions

    async def look() -> None:
        viewers = [Viewer(f"{server.url}?run=run") for _ in range(2)]
        for viewer in viewers:
            await viewer.open()
        follows = [asyncio.create_task(viewer.follow()) for viewer in viewers]
        await asyncio.to_thread(wait_until, lambda: default_runtime().hub.sessions == sessions + 2)
        for viewer in viewers:
            viewer.close()
        await asyncio.gather(*follows)

    with Served(tmp_path, linger=0.2) as server:
        run_alone(look())
        wait_until(lambda: default_runtime().hub.sessions == sessions and contexts() <= before, timeout=30)


@pytest.mark.slow
def test_a_suspended_page_gets_the_newest_state_and_does_not_delay_other_pages(tmp_path: Path) -> None:
    """Responses are long, so that data for the suspended page fills the network buffers."""
    log, steps, size = tmp_path / "run" / RANK0, 10, 60_000
    tokens = {"response_tokens": ["词"] * size, "logprobs": [-0.5] * size, "ref_logprobs": [-0.25] * size}
    log.parent.mkdir()
    append(log, line(0, **tokens))

    async def look() -> None:
        awake, asleep = Viewer(f"{server.url}?run=run"), Viewer(f"{server.url}?run=run")
        for viewer in (awake, asleep):
            await viewer.open()
        tasks = [asyncio.create_task(awake.follow())]
        reading = asyncio.create_task(asleep.follow())
        append(log, line(1, **tokens))
        for viewer in (awake, asleep):  # the board follows the page, in messages of its own
            await asyncio.to_thread(wait_until, partial(viewer.has_seen, 1), 30)
        reading.cancel()
        # With less room, nothing is left to read later, and the kernel asks for room ever more rarely.
        asleep.set_room(1 << 17)
        for step in range(2, steps + 1):
            append(log, line(step, **tokens))
            await asyncio.to_thread(wait_until, partial(awake.has_seen, step), 30)
        asleep.set_room(1 << 22)
        tasks.append(asyncio.create_task(asleep.follow()))
        await asyncio.to_thread(wait_until, partial(asleep.has_seen, steps), 30)
        for viewer in (awake, asleep):
            viewer.close()
        await asyncio.gather(*tasks)

    with Served(tmp_path) as server:
        run_alone(look())


def drawn_in_turn(pages: Callable[[asyncio.AbstractEventLoop], list[SessionLoop]]) -> list[str]:
    """Return what the event loop did, in order, while it drew pages for five milliseconds each."""
    did: list[str] = []

    def draw(page: int) -> None:
        did.append(f"page {page}")
        occupy_thread(0.005)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for page, place in enumerate(pages(loop)):
            place.draw(partial(draw, page))
        SessionLoop(loop).draw(partial(did.append, "end"))
        while "end" not in did:
            did.append("others")
            await asyncio.sleep(0)

    run_alone(asyncio.wait_for(run(), 30))
    return did


def test_pages_are_drawn_one_by_one_and_other_requests_are_served_in_between() -> None:
    did = drawn_in_turn(lambda loop: [SessionLoop(loop) for _ in range(20)])
    begun = [at for at, what in enumerate(did) if what != "others"]
    assert [did[at] for at in begun] == [f"page {page}" for page in range(20)] + ["end"]
    assert all("others" in did[at:then] for at, then in pairwise(begun))


def test_redraws_of_one_page_keep_their_order() -> None:
    """A file is sent to the browser in parts, each as one redraw."""
    drawn: list[str] = []

    def draw_slowly(name: str) -> None:
        drawn.append(name)
        occupy_thread(0.02)

    async def run() -> None:
        loop = SessionLoop(asyncio.get_running_loop())
        loop.draw(partial(draw_slowly, "first"))
        loop.draw(partial(drawn.append, "second"))
        await let_loop_run_until(lambda: drawn == ["first"])
        loop.draw(partial(drawn.append, "third"))
        await let_loop_run_until(lambda: len(drawn) == 3)

    run_alone(asyncio.wait_for(run(), 30))
    assert drawn == ["first", "second", "third"]


def test_what_is_drawn_while_a_browser_draws_its_document_is_sent_afterwards(tmp_path: Path) -> None:
    """The browser would ignore it, as for a search that ends in that moment."""
    write_run(tmp_path / "run", steps=2, samples=2)
    drawn: list[str] = []

    async def look(served: Served) -> list[str]:
        viewer = Viewer(served.url + "?run=run")
        await viewer.load()
        [session] = (page for page in served.pages if page.id == viewer.session_id)
        page, other = SessionLoop(served.loop, session.document), SessionLoop(served.loop)
        turn = threading.Event()
        for name in ("first", "second", "third"):
            page.draw(partial(drawn.append, name))
        page.call_soon(lambda: other.draw(turn.set))  # its turn would come after theirs
        await asyncio.to_thread(turn.wait, 30)
        loading = list(drawn)
        await viewer.report_ready()
        following = asyncio.create_task(viewer.follow())
        await let_loop_run_until(lambda: len(drawn) == 3)
        viewer.close()
        await following
        return loading

    with Served(tmp_path) as served:
        assert run_alone(asyncio.wait_for(look(served), 60)) == []
    assert drawn == ["first", "second", "third"]


def test_a_page_that_does_not_draw_does_not_delay_the_next() -> None:
    drawn: list[str] = []

    async def run() -> None:
        loop, free = asyncio.get_running_loop(), asyncio.Event()
        async with served_document() as ended:
            gone = SessionLoop(loop, ended)
        async with served_document() as document:
            locked = asyncio.create_task(document.session_context.with_locked_document(lambda _: free.wait()))
            pages = {"gone": gone, "locked": SessionLoop(loop, document), "next": SessionLoop(loop)}
            await asyncio.sleep(0)  # the document is locked
            for name, page in pages.items():
                page.draw(partial(drawn.append, name))
            await let_loop_run_until(lambda: drawn)
            free.set()
            await let_loop_run_until(lambda: len(drawn) == 2)
            await locked

    run_alone(asyncio.wait_for(run(), 30))
    assert drawn == ["next", "locked"]
