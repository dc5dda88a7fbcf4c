"""Spare pages: the next visitor of an address gets a page built before, and sees the newest state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from bokeh.util.token import get_session_id
from tornado.httpclient import HTTPError

from rlpanel.runtime import Runtime
from rlpanel.settings import Limits, SparePageLimits
from rlpanel.store.query.sample_notes import Notes
from tests.factories import append, line, write_run
from tests.ui.board import Served
from tests.viewer import TOKEN as SESSION_TOKEN
from tests.viewer import Viewer
from tests.waiting import run_alone, wait_until

pytestmark = pytest.mark.slow

RANK0 = "rollout_data_rank_0.jsonl"
TOKEN = "a token of enough characters"


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """A runtime that builds a spare page as soon as it has nothing else to do."""
    with Runtime(limits=Limits(spare_pages=SparePageLimits(quiet_seconds=0.1))) as made:
        yield made


@pytest.fixture
def served(tmp_path: Path, runtime: Runtime) -> Iterator[Served]:
    """A server with a run."""
    write_run(tmp_path / "run", steps=3, samples=2)
    with Served(tmp_path, runtime=runtime, linger=0.5, spare_pages=1) as server:
        yield server


def visit(served: Served, query: str = "?run=run", step: int = 2, **headers: str) -> Viewer:
    """Open a page until it shows a step, close it, and return its viewer."""

    async def look() -> Viewer:
        viewer = Viewer(served.url + query, headers)
        await viewer.open()
        following = asyncio.create_task(viewer.follow())
        await asyncio.to_thread(wait_until, lambda: viewer.has_seen(step), 30)
        await asyncio.wait_for(viewer.wait_until_whole(), 30)
        viewer.close()
        await following
        return viewer

    return run_alone(look())


def test_the_next_visitor_gets_the_page_that_is_ready_and_the_one_after_another(served: Served) -> None:
    first = visit(served)
    session = served.wait_for_spare()
    assert session.id != first.session_id
    second = visit(served)
    assert second.session_id == session.id
    third = visit(served)
    assert third.session_id not in {first.session_id, second.session_id}
    assert served.wait_for_spare().id not in {first.session_id, second.session_id, third.session_id}


def test_a_visitor_with_another_address_gets_the_page_that_is_ready(served: Served, tmp_path: Path) -> None:
    write_run(tmp_path / "other", steps=8, samples=2)
    visit(served)
    session = served.wait_for_spare()
    assert visit(served, "?run=other", step=7).session_id == session.id
    session = served.wait_for_spare()
    assert visit(served, "?run=run&step=1", step=1).session_id == session.id


def test_nothing_of_the_former_address_is_in_a_page_for_another_one(tmp_path: Path, runtime: Runtime) -> None:
    write_run(tmp_path / "run", steps=3, samples=2)
    with Served(
        tmp_path, runtime=runtime, linger=60.0, spare_pages=1
    ) as server:  # a page that has ended is empty
        visit(server, "?run=run&search=formerly&filter=reward+>+-77.25&sort=-reward&curves=reward")
        session = server.wait_for_spare()
        assert "formerly" in str(session.document.to_json())
        assert visit(server, "?run=run&step=1", step=1).session_id == session.id
        document = str(session.document.to_json())
    assert "Step 1" in document
    assert "formerly" not in document
    assert "77.25" not in document


def test_a_visitor_with_another_language_gets_another_page(served: Served) -> None:
    visit(served)
    session = served.wait_for_spare()
    chinese = urlopen(Request(f"{served.url}?run=run", headers={"Accept-Language": "zh-CN"})).read().decode()
    assert '.lang = "zh-CN"' in chinese
    token = SESSION_TOKEN.search(chinese)
    assert token is not None
    assert get_session_id(token[1]) != session.id


def test_a_page_that_is_ready_shows_what_was_logged_since(served: Served, tmp_path: Path) -> None:
    visit(served)
    session = served.wait_for_spare()
    append(tmp_path / "run" / RANK0, line(7), line(8))
    visitor = visit(served, step=7)
    assert visitor.session_id == session.id


def test_a_page_with_old_notes_is_not_given_away(served: Served, tmp_path: Path) -> None:
    visit(served)
    session = served.wait_for_spare()
    Notes((tmp_path / "run").resolve()).write("0", "odd", "")
    assert visit(served, "?run=run&step=1", step=1).session_id != session.id
    session = served.wait_for_spare()
    Notes((tmp_path / "run").resolve()).write("0", "odder", "")
    assert visit(served, "?run=run&step=1", step=1).session_id != session.id


def test_a_page_that_could_not_open_what_was_asked_for_is_not_given_away(
    served: Served, tmp_path: Path
) -> None:
    visit(served, "?run=later")
    session = served.wait_for_spare()
    write_run(tmp_path / "later", steps=6, samples=2)
    assert visit(served, "?run=later", step=5).session_id != session.id


def test_a_page_of_another_run_than_a_new_page_would_show_is_not_given_away(
    served: Served, tmp_path: Path
) -> None:
    visit(served, "")
    session = served.wait_for_spare()
    write_run(tmp_path / "newer", steps=6, samples=2)
    root = served.runtime.reader.watch_root(tmp_path)
    wait_until(lambda: len(root.runs or []) == 2, timeout=30)
    assert visit(served, "", step=5).session_id != session.id


def test_a_viewer_with_a_token_gets_a_spare_page(tmp_path: Path, runtime: Runtime) -> None:
    write_run(tmp_path / "run", steps=3, samples=2)
    with Served(tmp_path, runtime=runtime, token=TOKEN, spare_pages=1) as server:
        visit(server, Authorization=f"Bearer {TOKEN}")
        session = server.wait_for_spare()
        with pytest.raises(HTTPError, match="401"):
            visit(server, Authorization="Bearer wrong")
        assert visit(server, Authorization=f"Bearer {TOKEN}").session_id == session.id


def test_spare_pages_end_some_time_after_the_last_visitor(
    tmp_path: Path,
) -> None:
    write_run(tmp_path / "run", steps=3, samples=2)
    limits = Limits(spare_pages=SparePageLimits(quiet_seconds=0.1, kept_seconds=2.0))
    with (
        Runtime(limits=limits) as runtime,
        Served(tmp_path, "", runtime, linger=0.5, spare_pages=1) as served,
    ):
        visit(served)
        session = served.wait_for_spare()
        wait_until(lambda: session.destroyed and not served.spares.ready, timeout=30)
        run = (tmp_path / "run").resolve()
        wait_until(lambda: run not in [index.path for index in runtime.reader.runs], timeout=30)


def test_a_spare_page_that_nobody_connects_to_ends(served: Served) -> None:
    visit(served)
    session = served.wait_for_spare()
    urlopen(f"{served.url}?run=run").read()
    assert not session.destroyed
    wait_until(lambda: session.destroyed, timeout=30)


def test_spare_pages_take_no_place_of_a_limited_server(tmp_path: Path, runtime: Runtime) -> None:
    write_run(tmp_path / "run", steps=3, samples=2)
    with Served(tmp_path, runtime=runtime, linger=60.0, spare_pages=2, max_pages=2) as server:
        visit(server)
        server.wait_for_spare()
        assert visit(server, "?run=run&step=1", step=1).received
