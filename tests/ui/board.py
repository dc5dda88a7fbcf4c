"""The board, served as `rlpanel serve` serves it, and its page as a person sees it."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
from playwright.sync_api import expect

from rlpanel.app.server import start
from tests.waiting import wait_until

if TYPE_CHECKING:
    from types import TracebackType

    from playwright.sync_api import Locator, Page

#: Seconds, and milliseconds, that anything may take on a busy machine.
PATIENCE = 30
expect.set_options(timeout=PATIENCE * 1000)

#: Said by bokeh whenever a page closes while it is being written to.
_EVERYDAY = ("Failed sending message as connection was closed",)


class Served:
    """The board over a root, on a free port, with an event loop and a thread of its own.

    Attributes
    ----------
    url : str
    """

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._thread = threading.Thread(target=self._run, name="served", daemon=True)
        self._ready = threading.Event()
        self._server: Any = None
        self._log = _Complaints()
        self.url = ""

    def __enter__(self) -> Served:
        logging.getLogger().addHandler(self._log)
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the server did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.io_loop.add_callback(self._stop)
        self._thread.join(PATIENCE)
        logging.getLogger().removeHandler(self._log)

    def heard(self) -> list[str]:
        """Warnings and errors that the process logged since this was last asked."""
        said, self._log.said = self._log.said, []
        return said

    def _run(self) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        port = free_port()
        self._server = start(self._root, host="127.0.0.1", port=port)
        self.url = f"http://127.0.0.1:{port}/"
        self._server.io_loop.add_callback(self._ready.set)
        self._server.io_loop.start()

    def _stop(self) -> None:
        # A stopped server forgets its sessions without ending them.
        for session in self._server.get_sessions():
            for ended in list(session.document.session_destroyed_callbacks):
                ended(session.document.session_context)
        self._server.stop(wait=False)
        self._server.io_loop.stop()


class _Complaints(logging.Handler):
    """Keeps what was logged as a warning or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if not text.startswith(_EVERYDAY):
            self.said.append(f"{record.name}: {text}")


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class BoardPage:
    """A board in a browser."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.badge = page.locator(".rl-badge")
        self.step_label = page.locator(".rl-step")
        self.sample_head = page.locator(".rl-sample-head")
        self.stage = page.locator(".rl-stage")
        self.grid = page.locator(".rl-grid")
        self.rows = self.grid.locator(".tabulator-row")
        self.count = page.locator(".rl-samples .head .unit")
        self.pill = page.locator(".rl-new")
        self.pair = page.locator(".rl-pair")
        self.notice = page.locator(".notyf__toast")
        self.search = page.get_by_placeholder("search prompts")

    def open(self, **query: object) -> BoardPage:
        """Load the page; returns when its board, or what stands in for it, is drawn."""
        self.page.goto(self.url + (f"?{urlencode(query)}" if query else ""))
        expect(self.page.locator(".rl-stage:visible, .rl-board:visible")).to_have_count(1)
        return self

    def settled(self, step: int | None = None) -> BoardPage:
        """Wait until curves, grid and sample are drawn, at ``step`` where given."""
        expect(self.page.locator(".rl-curve canvas").first).to_be_visible()
        expect(self.rows.first).to_be_visible()
        expect(self.sample_head.locator("[data-uid]")).to_be_visible()
        if step is not None:
            self.at_step(step)
        return self

    def at_step(self, step: int) -> None:
        """Wait until the step is the one shown, in the bar, the grid and the sample."""
        expect(self.step_label.locator("b")).to_have_text(f"Step {step}")
        expect(self.count).to_contain_text(f"step {step}")
        expect(self.sample_head).to_contain_text(f"step {step} ·")

    # -- curves ----------------------------------------------------------------------------------

    def curve(self, title: str) -> Locator:
        """The card with this title."""
        return self.page.locator(".rl-curve").filter(
            has=self.page.locator(".head b").get_by_text(title, exact=True)
        )

    def head(self, title: str) -> tuple[str, str]:
        """Number and change in a curve's head."""
        head = self.curve(title).locator(".head")
        delta = head.locator(".delta")
        return head.locator(".number").inner_text(), delta.inner_text() if delta.count() else ""

    def source(self, name: str) -> dict[str, np.ndarray]:
        """The columns that the browser holds under a source's name."""
        columns = self.page.evaluate(_READ_SOURCE, name)
        assert columns, f"the browser holds no source {name!r}"
        return {key: np.array(values, float) for key, values in columns.items()}

    def sources(self) -> set[str]:
        """Names of all sources the browser holds."""
        return set(self.page.evaluate(_SOURCE_NAMES))

    # -- grid and sample -------------------------------------------------------------------------

    def column(self, field: str) -> list[str]:
        """The texts of a grid column, as shown on this page of it."""
        return [
            text.strip() for text in self.rows.locator(f'[tabulator-field="{field}"]').all_inner_texts()
        ]

    def header(self, field: str) -> Locator:
        """A grid column's header."""
        return self.grid.locator(f'.tabulator-col[tabulator-field="{field}"]')

    def uid(self) -> str:
        """The uid of the sample shown; empty if none."""
        return self.sample_head.locator("[data-uid]").get_attribute("data-uid") or ""

    def shows(self, uid: str) -> None:
        """Wait until this sample is the one shown."""
        expect(self.sample_head.locator("[data-uid]")).to_have_attribute("data-uid", uid)

    def tab(self, name: str) -> None:
        """Turn to a tab of the sample."""
        self.page.get_by_role("tab", name=name, exact=True).click()

    def press(self, key: str) -> None:
        """Press a key on the page, away from fields."""
        self.page.keyboard.press(key)

    # -- waiting ---------------------------------------------------------------------------------

    def until(self, predicate: Any, message: str = "") -> Any:
        """Wait for something that no locator can tell."""
        return wait_until(predicate, PATIENCE, message, page=self.page)


_EACH_SOURCE = """
    const sources = Bokeh.documents.flatMap((doc) => [...doc.all_models])
        .filter((model) => model.type === "ColumnDataSource")
"""
_READ_SOURCE = f"""(name) => {{
    {_EACH_SOURCE}
    const found = sources.filter((model) => model.name === name)
    if (found.length === 0) {{ return null }}
    const source = found[found.length - 1]
    return Object.fromEntries(source.columns().map((key) => [key, Array.from(source.get_array(key))]))
}}"""
_SOURCE_NAMES = f"""() => {{
    {_EACH_SOURCE}
    return sources.map((model) => model.name).filter((name) => name)
}}"""
