"""Fixtures for the board's servers and pages; read-only tests share a page within their module."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from rlpanel.runtime import default_runtime
from tests.conftest import VIEWPORT, watch_for_trouble
from tests.ui.board import BoardPage, Served, ServerLog
from tests.ui.token_page import TokenPage, TokenTab

#: Closes the hint of the first visit.
NO_HINT = 'try { localStorage.setItem("rlpanel-visited", "1") } catch {}'
OpenBoard = Callable[..., BoardPage]
OpenTokens = Callable[..., TokenPage]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the reader's state to the report of a failed test."""
    report = yield
    if report.failed:
        report.sections.append(("the reader", told_of_reader()))
    return report


def told_of_reader() -> str:
    """Describe the process's reader: its state of each run, and the stack of its thread."""
    reader = default_runtime().reader
    told = [
        f"{reader.rounds} rounds, {reader.idle_seconds:.1f} s since the last; failure: {reader.failure!r}"
    ]
    for index in reader.runs:
        now = index.snapshot
        told.append(f"{index.path}: version {now.version}, {now.progress}, problems {now.problems}")
    thread = next((one for one in threading.enumerate() if one.name == "rlpanel-reader"), None)
    frame = sys._current_frames().get(thread.ident or 0) if thread is not None else None
    return "\n".join([*told, *(traceback.format_stack(frame, 8) if frame is not None else ["no thread"])])


@dataclass
class Profile:
    """A browser profile, and the errors of its pages."""

    context: BrowserContext
    trouble: list[str]


@pytest.fixture(scope="session")
def server_log() -> Iterator[ServerLog]:
    """The log of all servers; the process's reader stops with the last of them."""
    log = ServerLog()
    logging.getLogger().addHandler(log)
    yield log
    default_runtime().close()
    logging.getLogger().removeHandler(log)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root folder of the module's server; modules put their runs into it."""
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
def served(root: Path, server_log: ServerLog) -> Iterator[Served]:
    """The module's server."""
    with Served(root) as server:
        yield server


@pytest.fixture(scope="module")
def profile(browser: Browser) -> Iterator[Profile]:
    """The module's browser profile: later pages find scripts and styles in its cache."""
    context = browser.new_context(viewport=VIEWPORT, color_scheme="dark", locale="en-US")
    context.add_init_script(NO_HINT)
    yield Profile(context, watch_for_trouble(context))
    context.close()


@pytest.fixture
def clean(profile: Profile, server_log: ServerLog) -> Iterator[None]:
    """Check for console errors, requests to other hosts, and warnings in the server's log."""
    server_log.take()
    yield
    trouble, profile.trouble[:] = list(profile.trouble), []
    assert trouble == []
    assert server_log.take() == []


@pytest.fixture
def open_board(request: pytest.FixtureRequest, profile: Profile, clean: None) -> Iterator[OpenBoard]:
    """Open a new page of the module's server or of another one."""
    with ExitStack() as stack:

        def open_page(*, server: Served | None = None, **query: object) -> BoardPage:
            chosen = server or request.getfixturevalue("served")
            page = stack.enter_context(profile.context.new_page())
            return BoardPage(page, chosen.url).open(**query)

        yield open_page


@pytest.fixture(scope="module")
def shared_board(profile: Profile, served: Served) -> BoardPage:
    """The page of `board`; the first test loads it at the address that it needs."""
    return BoardPage(profile.context.new_page(), served.url)


@pytest.fixture
def board(shared_board: BoardPage, clean: None) -> BoardPage:
    """A page shared by the module's tests: each navigates to its start, and leaves no settings behind."""
    return shared_board


@pytest.fixture(scope="module")
def shared_token_tab(profile: Profile) -> Iterator[TokenTab]:
    """The page of `token_tab`."""
    with TokenTab(profile.context.new_page()) as tab:
        yield tab


@pytest.fixture
def token_tab(shared_token_tab: TokenTab, clean: None) -> TokenTab:
    """A shared page that draws token views, reset to the state of a new page."""
    shared_token_tab.forget()
    return shared_token_tab


@pytest.fixture
def open_tokens(token_tab: TokenTab) -> OpenTokens:
    """Draw a token view with these parameters."""
    return token_tab.open
