"""Order of the steps that build a page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from rlpanel.app.page.part_queue import PartQueue
from rlpanel.panels.session.event_loop import SessionLoop
from tests.served_document import served_document
from tests.waiting import let_loop_run_until


def test_without_a_served_page_all_steps_are_taken_at_once() -> None:
    taken: list[str] = []
    PartQueue(None, [partial(taken.append, "a"), partial(taken.append, "b")]).start()
    assert taken == ["a", "b"]


def test_steps_that_a_step_returns_come_before_the_next_one() -> None:
    taken: list[str] = []

    def first() -> Iterator[Callable[[], None]]:
        taken.append("first")
        for name in ("its first", "its second"):
            yield partial(taken.append, name)

    PartQueue(None, [first, partial(taken.append, "last")]).start()
    assert taken == ["first", "its first", "its second", "last"]


def test_each_step_of_a_served_page_has_a_turn_of_its_own() -> None:
    async def run() -> list[str]:
        taken: list[str] = []

        def step(name: str) -> None:
            taken.append(name)
            asyncio.get_running_loop().call_soon(taken.append, f"turn after {name}")

        async with served_document() as document:
            loop = SessionLoop(asyncio.get_running_loop(), document)
            PartQueue(loop, [partial(step, "a"), partial(step, "b")]).start()
            assert taken == []
            await let_loop_run_until(lambda: len(taken) == 4)
        return taken

    taken = asyncio.run(run())
    assert taken.index("turn after a") < taken.index("b")
