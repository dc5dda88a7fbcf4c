"""`rlpanel.settled()`: a page says when all that came of earlier clicks is on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from rlpanel.runtime import default_runtime
from tests.factories import write_run
from tests.ui.board import BoardPage


@pytest.fixture(scope="module", autouse=True)
def run(root: Path) -> None:
    write_run(root / "run", steps=3, samples=16, response="one response to all prompts")


@contextmanager
def busy_threads() -> Iterator[threading.Event]:
    """Occupy all threads on which views compute, until the event that is given."""
    free, begun, threads = threading.Event(), threading.Semaphore(0), default_runtime().threads.views

    def wait() -> None:
        begun.release()
        free.wait(60)

    waits: list[Future[None]] = [threads.submit(wait) for _ in range(2)]
    for _ in waits:
        assert begun.acquire(timeout=60)
    try:
        yield free
    finally:
        free.set()
        for each in waits:
            each.result()


def test_a_page_is_settled_when_the_result_of_a_click_is_on_it(board: BoardPage) -> None:
    board.go(run="run").settled(3).tab("Explain")
    board.settled()
    with busy_threads() as free:
        board.pick(".rl-explain-what", "Responses that repeat")
        board.page.evaluate("() => { rlpanel.settled().then(() => { window.settled = true }) }")
        expect(board.page.get_by_label("Clusters: first")).to_be_visible()
        assert not board.page.evaluate("window.settled")
        free.set()
        board.settled()
    assert board.page.evaluate("window.settled"), "the first promise is kept as well"
    assert board.page.locator(".rl-cluster-plot canvas").count()


def test_every_promise_of_a_page_at_rest_is_kept(board: BoardPage) -> None:
    board.go(run="run")
    board.page.evaluate("Promise.all([1, 2, 3].map(rlpanel.settled))")
    board.at_step(3)


def test_a_key_press_that_changes_the_step_brings_all_views_in_one_message(board: BoardPage) -> None:
    parts: list[str | bytes] = []
    board.page.on("websocket", lambda socket: socket.on("framereceived", lambda part: parts.append(part)))
    board.open(run="run", step=2).settled(2)
    parts.clear()
    board.press("ArrowRight")
    board.settled(3)
    views = ("location", "distribution", "rows", "data-uid")  # of the curves, the step, the grid, the sample
    sent = [[view for view in views if view in part] for part in parts if isinstance(part, str)]
    assert [named for named in sent if named] == [[*views]]
