"""Servers and pages for the board's tests: a module shares them where its tests only look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from rlpanel.app.hub import hub
from tests.conftest import VIEWPORT, watch_for_trouble
from tests.ui.board import BoardPage, Served

OpenBoard = Callable[..., BoardPage]


@pytest.fixture(scope="session", autouse=True)
def reader_ends() -> Iterator[None]:
    """The process's reader stops with the tests."""
    yield
    hub().reader.stop()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the module's server shows; modules put their runs into it."""
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def served(root: Path) -> Iterator[Served]:
    """The module's server."""
    with Served(root) as server:
        yield server


@pytest.fixture(scope="module")
def profile(browser: Browser) -> Iterator[BrowserContext]:
    """The module's browser profile: pages after the first find scripts and styles in its cache."""
    made = browser.new_context(viewport=VIEWPORT, color_scheme="dark", locale="en-US")
    yield made
    made.close()


@pytest.fixture
def open_board(request: pytest.FixtureRequest, profile: BrowserContext) -> Iterator[OpenBoard]:
    """Open the module's board (or another server's); pages, console and server's log are clean after it."""
    trouble = watch_for_trouble(profile)
    with ExitStack() as stack:
        servers: set[Served] = set()

        def open_page(*, server: Served | None = None, **query: object) -> BoardPage:
            chosen = server or request.getfixturevalue("served")
            servers.add(chosen)
            page = stack.enter_context(profile.new_page())
            return BoardPage(page, chosen.url).open(**query)

        yield open_page
    assert trouble == []
    assert [said for server in servers for said in server.heard()] == []
