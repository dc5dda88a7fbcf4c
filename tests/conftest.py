"""Shared fixtures: hypothesis profiles, the recorded runs, and a browser whose errors fail tests."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from hypothesis import settings

from tests.timings import keeper

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from rlpanel.api.run import Run

# CI derives its examples from the tests; every other run tries new ones. Hypothesis also draws constants of
# loaded modules, so CI's examples can still differ between workers.
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("many", max_examples=200, deadline=None, derandomize=True)
settings.register_profile("quick", max_examples=10, deadline=None, derandomize=bool(os.environ.get("CI")))
settings.register_profile("dev", max_examples=50, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# A shell starts what runs in its background with Ctrl-C ignored, which processes of tests would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Runs that no test opens are checked only where a test asks for it.
os.environ.setdefault("RLPANEL_CHECK", "0")

# jsonschema makes 38 grammars for IRIs when it is imported, if this package of Jupyter is installed.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

#: Debian's browser without a window opens a page in three quarters of Chromium's CPU time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP evil.example 127.0.0.1",  # that name is this machine, as after DNS rebinding
)
VIEWPORT = {"width": 1440, "height": 900}
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
INSIDE = {"data", "blob", "about"}


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep logged warnings, and measure the tests if they are a part of `make test`."""
    gc.disable()  # until all tests are imported; in a controller of xdist, which imports none, for good
    # Else every event of every page is made into text, with its data, and kept. The option `log_level` sets
    # the root logger's level twelve times for each test, which clears the cache of every logger.
    if (capture := config.pluginmanager.get_plugin("logging-plugin")) is not None:
        capture.caplog_handler.setLevel("WARNING")
        capture.report_handler.setLevel("WARNING")
    if (measures := keeper(config)) is not None:
        config.pluginmanager.register(measures)


def pytest_collection_finish() -> None:
    """Exclude all modules and tests from garbage collection, which took a tenth of the time of unit tests."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def grpo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded GRPO run with groups, entropies and reference logprobs; tests must not write to it."""
    from rlpanel.app.demo import write_recording

    return write_recording("grpo_couplets", tmp_path_factory.mktemp("recorded") / "couplets-grpo")


@pytest.fixture(scope="session")
def ppo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded PPO run with values and token rewards; tests must not write to it."""
    from rlpanel.app.demo import write_recording

    return write_recording("ppo_couplets", tmp_path_factory.mktemp("recorded") / "couplets-ppo")


@pytest.fixture(scope="session")
def grpo(grpo_run: Path) -> Run:
    """The recorded GRPO run, read once for all tests that only ask."""
    from rlpanel.api.open_run import open_run

    return open_run(grpo_run, follow=False)


@pytest.fixture(scope="session")
def ppo(ppo_run: Path) -> Run:
    """The recorded PPO run, read once for all tests that only ask."""
    from rlpanel.api.open_run import open_run

    return open_run(ppo_run, follow=False)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium, headless, started once for all tests."""
    from playwright.sync_api import sync_playwright

    names = (os.environ.get("CHROMIUM"), *BROWSERS)
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path is None:
        pytest.fail(f"no browser: none of {', '.join(BROWSERS)} on PATH, and CHROMIUM names none")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield launched
        launched.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh browser profile; `page` is one of its pages, and a test may open more."""
    made = browser.new_context(viewport=VIEWPORT, color_scheme="dark", locale="en-US")
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page of 1440 × 900; console errors and requests to other hosts fail the test."""
    trouble = watch_for_trouble(context)
    yield context.new_page()
    assert trouble == []


def watch_for_trouble(context: BrowserContext) -> list[str]:
    """Return a list that collects the errors and the outgoing requests of all pages of ``context``."""
    trouble: list[str] = []

    def note_request(url: str) -> None:
        parts = urlsplit(url)
        if parts.hostname not in LOOPBACK and parts.scheme not in INSIDE:
            trouble.append(f"left the host: {url[:200]}")

    context.on("request", lambda request: note_request(request.url))
    context.on("page", lambda page: page.on("websocket", lambda socket: note_request(socket.url)))
    context.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
    context.on("weberror", lambda error: trouble.append(str(error.error)))
    return trouble
