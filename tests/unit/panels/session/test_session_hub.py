"""Changes from the reader's thread reach each session once, on its own document."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from rlpanel.api.open_run import open_run
from rlpanel.panels.session.event_loop import TURN, SessionLoop
from rlpanel.panels.session.session import BrowserPace, Session
from rlpanel.panels.session.session_hub import SessionHub
from rlpanel.store.index.reader import Reader
from rlpanel.store.index.run_index import RunIndex
from tests.factories import write_run
from tests.waiting import let_loop_run_until, occupy_thread


def on_a_loop(scenario: Callable[[SessionLoop], Awaitable[None]]) -> None:
    """Run it on an event loop, with a place on it."""

    async def run() -> None:
        await scenario(SessionLoop(asyncio.get_running_loop()))

    asyncio.run(asyncio.wait_for(run(), 30))


async def rest(place: SessionLoop) -> None:
    """Let the loop draw what is due, and what another redraw of the session would add."""
    drawn = asyncio.Event()
    place.draw(drawn.set)
    await drawn.wait()


def test_many_changes_are_one_drawing() -> None:
    drawn: list[set[RunIndex | None]] = []
    index = RunIndex(Path("run"), "run")

    async def scenario(place: SessionLoop) -> None:
        session = Session(place, drawn.append)
        for changed in (index, None, index):
            session.notify(changed)
        await rest(place)

    on_a_loop(scenario)
    assert drawn == [{index, None}]


def test_a_change_after_a_drawing_is_drawn_too() -> None:
    drawn: list[set[RunIndex | None]] = []

    async def scenario(place: SessionLoop) -> None:
        session = Session(place, drawn.append)
        session.notify(None)
        await rest(place)
        session.notify(None)
        await let_loop_run_until(lambda: len(drawn) == 2)

    on_a_loop(scenario)
    assert drawn == [{None}, {None}]


def test_a_drawing_that_fails_is_not_the_last() -> None:
    calls: list[int] = []

    def draw(changed: set[RunIndex | None]) -> None:
        calls.append(1)
        raise RuntimeError("broken view")

    async def scenario(place: SessionLoop) -> None:
        session = Session(place, draw)
        session.notify(None)
        await rest(place)
        session.notify(None)
        await let_loop_run_until(lambda: len(calls) == 2)

    on_a_loop(scenario)


def test_quick_parts_share_a_turn_and_a_slow_one_ends_it() -> None:
    order: list[str] = []
    pace = BrowserPace()

    def first() -> None:
        order.append("first")
        asyncio.get_running_loop().call_soon(order.append, "next turn")

    def slow() -> None:
        order.append("slow")
        occupy_thread(TURN)

    def last() -> None:
        order.append("last")
        assert (pace.begun, pace.sent) == (1, 0)

    async def scenario(place: SessionLoop) -> None:
        parts = [first, partial(order.append, "second"), slow, last]
        Session(place, lambda _: parts, pace=pace).notify(None)
        await let_loop_run_until(lambda: pace.sent == 1)

    on_a_loop(scenario)
    assert order == ["first", "second", "slow", "next turn", "last"]


def test_a_session_that_always_has_news_is_settled_after_each_redraw() -> None:
    did: list[str] = []

    async def scenario(place: SessionLoop) -> None:
        def draw(_: object) -> None:
            did.append("redraw")
            session.notify(None)

        session = Session(place, draw)
        session.notify(None)
        place.when_settled(lambda: did.append("settled"))
        await let_loop_run_until(lambda: "settled" in did)
        session.closed = True

    on_a_loop(scenario)
    assert did == ["redraw", "settled"]


def test_a_session_that_left_hears_nothing() -> None:
    hub = SessionHub(Reader())
    drawn: list[set[RunIndex | None]] = []

    async def scenario(place: SessionLoop) -> None:
        session = Session(place, drawn.append)
        hub.join(session)
        assert hub.sessions == 1
        hub.leave(session)
        hub._notify_all(None)
        await rest(place)

    on_a_loop(scenario)
    assert hub.sessions == 0
    assert drawn == []


def test_a_session_redraws_only_for_runs_that_it_shows() -> None:
    mine, other = RunIndex(Path("mine"), "mine"), RunIndex(Path("other"), "other")
    drawn: list[set[RunIndex | None]] = []

    async def scenario(place: SessionLoop) -> None:
        session = Session(place, drawn.append, wants=lambda index: index is mine)
        session.notify(other)
        await rest(place)
        assert drawn == []
        session.notify(mine)
        await rest(place)

    on_a_loop(scenario)
    assert drawn == [{mine}]


def test_time_alone_draws_a_session_that_shows_it() -> None:
    drawn: list[set[RunIndex | None]] = []

    async def scenario(place: SessionLoop) -> None:
        session = Session(place, drawn.append, every=0.01)
        session.redraw()
        await let_loop_run_until(lambda: len(drawn) == 3)
        session.closed = True

    on_a_loop(scenario)
    assert drawn == [set(), set(), set()]


def test_sessions_that_wait_for_each_other_are_drawn_from_one_snapshot(tmp_path: Path) -> None:
    index = open_run(write_run(tmp_path / "run", steps=1, samples=1), follow=False).index
    hub, taken = SessionHub(Reader()), []

    async def scenario(place: SessionLoop) -> None:
        def draw() -> None:
            index.commit()
            taken.append((hub.view(index), index.view))

        loop = asyncio.get_running_loop()
        for page in [SessionLoop(loop) for _ in range(3)]:
            page.draw(draw)
        await let_loop_run_until(lambda: len(taken) == 3)

    on_a_loop(scenario)
    (first, newest), (second, _), (last, newest_of_last) = taken
    assert first is newest
    assert second is first, "another page waits"
    assert last is newest_of_last, "the last one in the queue draws what is newest"


def test_slow_callbacks_run_one_by_one_and_a_failing_one_does_not_stop_the_rest() -> None:
    drawn: list[str] = []

    def draw(what: str) -> None:
        drawn.append(what)
        occupy_thread(TURN)
        if what == "broken":
            raise RuntimeError("broken view")

    def news(_: object) -> list[Callable[[], None]]:
        draw("news")
        return [partial(draw, what) for what in ("first", "broken", "second")]

    async def scenario(place: SessionLoop) -> None:
        session = Session(place, news)
        session.notify(None)
        while "second" not in drawn:
            drawn.append("others")
            await asyncio.sleep(0)

    on_a_loop(scenario)
    at = [drawn.index(what) for what in ("news", "first", "broken", "second")]
    assert at == sorted(at)
    assert all("others" in drawn[begun:then] for begun, then in pairwise(at))
