"""A board for strangers: it writes nothing, has a limit of pages, and is shown only in the named frames."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlpanel.app.board.board import Board
from rlpanel.panels.sample.sample_detail import SampleActions
from tests.integration.forked import run_module
from tests.integration.http_client import Answer, ask
from tests.integration.server_process import ServerProcess
from tests.viewer import Viewer
from tests.waiting import wait_until

MOST = 4
EMBEDDER = "https://huggingface.co"


@pytest.fixture
def public(root: Path) -> Iterator[ServerProcess]:
    with ServerProcess(root, "--read-only", "--max-pages", str(MOST), "--embed-in", EMBEDDER) as server:
        yield server


@pytest.mark.parametrize("read_only", [False, True])
def test_a_message_of_a_page_writes_a_note_only_if_the_board_is_not_read_only(
    root: Path, read_only: bool
) -> None:
    context = Board(root, read_only=read_only).context
    index = context.index
    assert index is not None
    wait_until(lambda: index.snapshot.rows)
    context.view = index.view
    context.choose_sample(context.snapshot.uid(0))
    actions = SampleActions(context)
    before = sorted(root.rglob("*"))
    actions._handle_msg({"do": "leave", "uid": context.snapshot.uid(0), "tag": "bad", "note": "seen"})
    assert (sorted(root.rglob("*")) == before) is read_only
    assert bool(actions.failure) is read_only


def test_a_read_only_board_makes_no_demo(tmp_path: Path) -> None:
    board = Board(tmp_path, read_only=True)
    board.open_demo()
    assert board._demo is None


def test_one_page_too_many_gets_503_also_in_a_burst(public: ServerProcess) -> None:
    with ThreadPoolExecutor(3 * MOST) as threads:
        answers = list(threads.map(lambda _: ask(public.url), range(3 * MOST)))
    assert 1 <= [answer.status for answer in answers].count(200) <= MOST
    refused = next(answer for answer in answers if answer.status == 503)
    assert refused.body.startswith(b"This board has 4 open pages")
    assert refused.headers["Retry-After"] == "30"
    assert ask(public.url, "/health").status == 200


def test_pages_opened_one_after_another_count_once(public: ServerProcess) -> None:
    assert [ask(public.url).status for _ in range(MOST + 1)] == [200] * MOST + [503]


@pytest.mark.slow
def test_a_closed_page_makes_room(root: Path) -> None:
    with ServerProcess(root, "--max-pages", "1") as server, ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _open_and_check(server.url)).result()


async def _open_and_check(url: str) -> None:
    viewer = Viewer(url)
    await viewer.open()
    assert (await asyncio.to_thread(ask, url)).status == 503
    viewer.close()

    def answered() -> int:
        status = ask(url).status
        return status if status != 503 else 0

    assert await asyncio.to_thread(wait_until, answered, 90, "a page has room", every=0.2) == 200


def in_a_frame(server: ServerProcess, path: str = "/") -> Answer:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    return ask(server.url, path, headers=headers)


@pytest.mark.slow
def test_the_named_origin_may_embed_the_board(public: ServerProcess, root: Path) -> None:
    framed = in_a_frame(public)
    assert framed.status == 200
    assert framed.headers["Content-Security-Policy"].endswith(f"frame-ancestors 'self' {EMBEDDER}")
    assert framed.headers["X-Frame-Options"] is None
    with ServerProcess(root) as closed:
        assert in_a_frame(closed).status == 403
        assert ask(closed.url).headers["X-Frame-Options"] == "SAMEORIGIN"


@pytest.mark.parametrize(
    "origin", ["*", "https://a.example; script-src *", "evil.example", "https://a.example/x"]
)
def test_what_is_no_origin_is_refused_at_the_start(root: Path, origin: str) -> None:
    done = run_module("rlpanel", "serve", root, "--embed-in", origin)
    assert (done.returncode, "is no origin" in done.stderr) == (2, True)
