"""Serves the board like `rlpanel serve`, and drives its page like a user."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
from playwright.sync_api import expect

from rlpanel.app.server.access import Access
from rlpanel.app.server.server import start
from rlpanel.runtime import Runtime, default_runtime
from tests.waiting import wait_until

if TYPE_CHECKING:
    from types import TracebackType

    from playwright.sync_api import Locator, Page

#: Timeouts in seconds and milliseconds, long enough for a busy machine.
PATIENCE = 30
expect.set_options(timeout=PATIENCE * 1000)
#: Ticks two boxes before the server answers, and records what is then written into the second one.
TICK_BOTH = """boxes => {
  const [first, second] = boxes
  const checked = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "checked")
  window.written = []
  Object.defineProperty(second, "checked", {
    get() { return checked.get.call(this) },
    set(value) { window.written.push(value); checked.set.call(this, value) },
  })
  first.click()
  second.click()
}"""


class Served:
    """The board for a root, on a free port, with its own event loop and thread.

    Attributes
    ----------
    url : str
    runtime : Runtime
        What the sessions of the server share; the process's own by default.
    """

    def __init__(
        self, root: Path | None, token: str = "", runtime: Runtime | None = None, **access: Any
    ) -> None:
        self.runtime = runtime or default_runtime()
        self._root, self._access = root, {"token": token, **access}
        self._thread = threading.Thread(target=self._run, name="served", daemon=True)
        self._ready = threading.Event()
        self._server: Any = None
        self.url = ""

    @property
    def pages(self) -> list[Any]:
        """The sessions of the server's pages."""
        return list(self._server.get_sessions())

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The server's event loop."""
        return self._server.io_loop.asyncio_loop

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the server did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.io_loop.add_callback(self._stop)
        self._thread.join(PATIENCE)
        exclude_imports()

    def _run(self) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        port = free_port()
        self._server = start(self._root, Access(port=port, **self._access), self.runtime)
        self.url = f"http://127.0.0.1:{port}/"
        self._server.io_loop.add_callback(self._ready.set)
        self._server.io_loop.start()

    def _stop(self) -> None:
        # A stopped server drops its sessions without ending them, so they are ended here.
        for session in self._server.get_sessions():
            for ended in list(session.document.session_destroyed_callbacks):
                ended(session.document.session_context)
        self._server.stop(wait=False)
        self._server.io_loop.stop()


@cache
def exclude_imports() -> None:
    """Exclude what the first pages have imported from garbage collection.

    Every second page that opens begins a full collection, which took a tenth of the server's time for a page.
    """
    gc.collect()
    gc.freeze()


class ServerLog(logging.Handler):
    """Log handler that collects this process's warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(f"{record.name}: {self.format(record)}")

    def take(self) -> list[str]:
        """Return the messages since the last call."""
        said, self._said = self._said, []
        return said


def free_port() -> int:
    """Return a port that is free now."""
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
        self.notice = page.locator(".notyf__message")
        self.selected = self.grid.locator(".tabulator-row.tabulator-selected")
        self.search = page.get_by_placeholder("search prompts")

    def open(self, **query: object) -> BoardPage:
        """Load the page; returns when the board, or the page in its place, is settled."""
        # The first page of a server that has just started imports most of what it needs.
        address = self.url + (f"?{urlencode(query)}" if query else "")
        self.page.goto(address, timeout=2 * PATIENCE * 1000)
        return self.settled()

    def settled(self, step: int | None = None) -> BoardPage:
        """Wait until all that came of earlier clicks is drawn; also for ``step`` if it is given."""
        if self._is_blank:
            return self.open().settled(step)
        self.page.wait_for_function(
            "() => window.rlpanel?.settled().then(() => true)", polling=50, timeout=2 * PATIENCE * 1000
        )
        if step is not None:
            self.at_step(step)
        return self

    def at_step(self, step: int) -> None:
        """Wait until bar, grid and sample show the step."""
        expect(self.step_label.locator("b")).to_have_text(f"Step {step}")
        expect(self.count).to_contain_text(f"step {step}")
        expect(self.sample_head).to_contain_text(f"step {step} ·")

    def go(self, **query: object) -> BoardPage:
        """Change the selection without loading the page, like Back and Forward; load a blank page."""
        if self._is_blank:
            return self.open(**query)
        self.page.evaluate(
            """(query) => {
                history.pushState({}, "", location.pathname + query)
                window.dispatchEvent(new PopStateEvent("popstate"))
            }""",
            f"?{urlencode(query)}",
        )
        return self

    @property
    def _is_blank(self) -> bool:
        return self.page.url == "about:blank"

    # -- curves ----------------------------------------------------------------------------------

    def curve(self, title: str) -> Locator:
        """Return the card with this title."""
        return self.page.locator(".rl-curve").filter(
            has=self.page.locator(".head b").get_by_text(title, exact=True)
        )

    def head_says(self, title: str, value: str, change: str = "") -> None:
        """Wait until a curve's head shows this number and this change."""
        head = self.curve(title).locator(".head")
        expect(head.locator(".number")).to_have_text(value)
        if change:
            expect(head.locator(".delta")).to_have_text(change)

    def source(self, name: str) -> dict[str, np.ndarray]:
        """Return the numeric columns that the browser has in the named source."""
        columns = self.page.evaluate(_READ_SOURCE, name)
        assert columns, f"the browser holds no source {name!r}"
        texts = {key for key, values in columns.items() if values and isinstance(values[0], str)}
        return {key: np.array(values, float) for key, values in columns.items() if key not in texts}

    def bars(self, card: str) -> dict[str, dict[str, np.ndarray]]:
        """Return the bars of a card: edges of the layers with this colour, by colour."""
        return {
            layer["color"]: {key: np.array(layer[key], float) for key in ("left", "right", "bottom", "top")}
            for layer in self.bar_plot(card)["layers"]
        }

    def bar_plot(self, card: str) -> dict[str, Any]:
        """Return the plot of a card with bars, as the browser holds it."""
        plot = self.page.evaluate(_READ_BARS, card)
        assert plot, f"the browser holds no bars of {card!r}"
        return dict(plot)

    def sources(self) -> set[str]:
        """Return the names of all sources in the browser."""
        return set(self.page.evaluate(_SOURCE_NAMES))

    # -- grid and sample -------------------------------------------------------------------------

    def column(self, name: str) -> list[str]:
        """Return the texts of a grid column on its current page."""
        return self.rows.locator(cells_of(name)).all_text_contents()

    def header(self, name: str) -> Locator:
        """Return a grid column's header."""
        return self.grid.locator(f".tabulator-col{cells_of(name)}")

    def uid(self) -> str:
        """The uid of the shown sample; empty if there is none."""
        return self.sample_head.locator("[data-uid]").get_attribute("data-uid") or ""

    def shows(self, uid: str) -> None:
        """Wait until this sample is shown."""
        expect(self.sample_head.locator("[data-uid]")).to_have_attribute("data-uid", uid)

    def tab(self, name: str) -> None:
        """Open a tab of the sample, or a page of the run."""
        tab = self.page.get_by_role("tab", name=name, exact=True)
        hidden = self.page.locator(".more", has=self.page.get_by_text(name, exact=True))
        expect(tab.or_(hidden).first).to_be_attached()
        if hidden.count():
            hidden.locator("summary").click()
        tab.click()

    def actions(self) -> Locator:
        """Return the menu of the sample with its tag, note, copies and files; open it."""
        menu = self.page.locator(".rl-actions .menu")
        if menu.get_attribute("open") is None:
            menu.locator("summary").click()
        return menu

    def press(self, key: str) -> None:
        """Press a key on the page, outside of fields."""
        self.page.keyboard.press(key)

    def choose(self, setting: str, option: str) -> None:
        """Choose an option of a setting in the side panel."""
        self.settings().get_by_label(setting, exact=True).select_option(label=option)

    def choose_band(self, label: str) -> None:
        """Choose what the curves show around the mean."""
        self.page.locator(".rl-curve-bar select:not(.events)").select_option(label=label)

    def settings(self) -> Locator:
        """Return the settings, with all groups open."""
        form = self.page.locator(".rl-settings")
        for closed in form.locator("details:not([open]) > summary").all()[::-1]:
            closed.click()
        return form

    def pick(self, select: str, option: str) -> None:
        """Choose an option of a select by its label."""
        self.page.locator(select).locator("select").select_option(label=option)

    # -- waiting ---------------------------------------------------------------------------------

    def until(self, predicate: Any, message: str = "") -> Any:
        """Wait for a condition that no locator can express."""
        return wait_until(predicate, PATIENCE, message, page=self.page, every=0.1)


def cells_of(column: str) -> str:
    """Return the selectors of a table's cells in a column, and of its header."""
    from rlpanel.panels.tables.data_table import field_of  # benches run this module with other checkouts

    return f'[tabulator-field="{field_of(column)}"]'


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
_READ_BARS = """(card) => {
    const models = Bokeh.documents.flatMap((document) => [...document.all_models])
    const alone = models.map((model) => ({ ...model.data?.attributes, ...model.attributes }))
    const parts = models.flatMap((model) => Object.values(model.data?.attributes ?? {}))
        .filter((text) => typeof text === "string" && text.startsWith('{"answered"'))
        .map((text) => JSON.parse(text).values)
    const shown = [...alone, ...parts].filter((each) => each.css_classes?.includes(card) && each.visible)
    return shown.at(-1)?.plot
}"""
_SOURCE_NAMES = f"""() => {{
    {_EACH_SOURCE}
    return sources.map((model) => model.name).filter((name) => name)
}}"""
