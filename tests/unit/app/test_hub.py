"""News from the reader's thread reach each session once, on its own document."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bokeh.document import Document

from rlpanel.app.hub import Hub
from rlpanel.store.index import RunIndex
from rlpanel.store.live import Reader
from rlpanel.store.run import open_run
from rlpanel.views.pace import turns
from rlpanel.views.session import Loop, Session
from tests.factories import write_run


def run_callbacks(document: Document) -> int:
    """Run what the document has scheduled, as its event loop would; how many there were."""
    scheduled = document.session_callbacks
    for callback in scheduled:
        document.remove_next_tick_callback(callback)
        callback.callback()
    return len(scheduled)


def test_many_changes_are_one_drawing() -> None:
    drawn: list[set[RunIndex | None]] = []
    document = Document()
    session = Session(document, drawn.append)
    index = RunIndex(Path("run"), "run")
    for changed in (index, None, index):
        session.tell(changed)
    assert run_callbacks(document) == 1
    assert drawn == [{index, None}]


def test_a_change_while_nothing_is_due_schedules_anew() -> None:
    drawn: list[set[RunIndex | None]] = []
    document = Document()
    session = Session(document, drawn.append)
    session.tell(None)
    run_callbacks(document)
    session.tell(None)
    assert len(document.session_callbacks) == 1


def test_a_drawing_that_fails_is_not_the_last() -> None:
    calls: list[int] = []

    def draw(changed: set[RunIndex | None]) -> None:
        calls.append(1)
        raise RuntimeError("broken view")

    document = Document()
    session = Session(document, draw)
    session.tell(None)
    run_callbacks(document)
    session.tell(None)
    assert calls == [1]
    assert len(document.session_callbacks) == 1


def test_a_session_that_left_hears_nothing(tmp_path: Path) -> None:
    reader = Reader()
    hub = Hub(reader)
    document = Document()
    session = Session(document, lambda changed: None)
    hub.join(session)
    assert hub.sessions == 1
    hub.leave(session)
    hub._news(None)
    assert hub.sessions == 0
    assert document.session_callbacks == []


def test_a_run_is_news_to_those_who_look_at_it() -> None:
    mine, other = RunIndex(Path("mine"), "mine"), RunIndex(Path("other"), "other")
    document = Document()
    session = Session(document, lambda changed: None, wants=lambda index: index is mine)
    session.tell(other)
    assert document.session_callbacks == []
    session.tell(mine)
    assert len(document.session_callbacks) == 1


def test_time_alone_draws_a_session_that_shows_it() -> None:
    drawn: list[set[RunIndex | None]] = []

    async def run() -> None:
        session = Session(Loop(asyncio.get_running_loop()), drawn.append, every=0.01)
        session.tick()
        while len(drawn) < 3:
            await asyncio.sleep(0)
        session.closed = True

    asyncio.run(asyncio.wait_for(run(), 30))
    assert drawn == [set(), set(), set()]


def test_sessions_that_wait_for_each_other_are_drawn_from_one_snapshot(tmp_path: Path) -> None:
    index = open_run(write_run(tmp_path / "run", steps=1, samples=1), follow=False).index
    hub, taken = Hub(Reader()), []

    async def run() -> None:
        loop, drawn = Loop(asyncio.get_running_loop()), asyncio.Event()

        def draw() -> None:
            index.commit()
            taken.append(hub.snapshot(index))

        for _ in range(3):
            turns().take(loop, draw)
        turns().take(loop, drawn.set)
        await drawn.wait()

    asyncio.run(asyncio.wait_for(run(), 30))
    assert taken[0] is taken[1] is taken[2] is not index.snapshot
    index.commit()
    assert hub.snapshot(index) is index.snapshot
