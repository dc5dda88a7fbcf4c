"""Measures how a page opens: first paint, drawn board, event loop; in turn with a bare Panel page.

    python -m tests.bench.opening [browser] [loop] [crowd] [--record]

``browser`` opens the board and a bare Panel page with as many Bokeh figures in turn, in a headless Chromium.
``loop`` opens pages with simulated browsers and measures how long the event loop is occupied at a time.
Both open pages that the server has built ahead for their address or for another one, and pages that it builds
when they are asked for.
``crowd`` opens fifty pages at once. All parts are measured by default. Times are wall-clock times on this
machine, so compare them only within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from rlpanel.app.demo import write_recording
from rlpanel.app.server.spare_pages import MAX_QUERY
from tests.bench.latency import chromium, served, wait_for
from tests.bench.results import record
from tests.bench.tokens import worked
from tests.bench.turns import Turns
from tests.conftest import QUIET, VIEWPORT
from tests.ui.board import free_port
from tests.viewer import Viewer

PARTS = ("browser", "loop", "crowd")
ROUNDS, CROWD = 7, 50
#: A page with figures and, if asked for, tables of the grid's size; nothing else.
BARE = """
import sys
import numpy as np
import pandas as pd
import panel as pn
from bokeh.plotting import figure

def plot():
    drawn = figure(height=140, sizing_mode="stretch_width", tools="", toolbar_location=None)
    drawn.line(list(range(60)), [at % 7 for at in range(60)])
    return drawn

def table():
    cells = np.arange(128.0 * 14).reshape(128, 14).round(2).astype(str)
    return pn.widgets.Tabulator(pd.DataFrame(cells), disabled=True, pagination="remote", page_size=20)

figures, tables, port = map(int, sys.argv[1:])
pn.extension(*(["tabulator"] if tables else []))
pn.serve(lambda: pn.FlexBox(*(pn.pane.Bokeh(plot(), min_width=220) for _ in range(figures)),
                            *(table() for _ in range(tables))),
         port=port, address="127.0.0.1", show=False)
"""
#: Notes when the first view's curve was painted, and when all plots and views are drawn.
CLOCK = """
(() => {
  const seen = window.bench = {}
  const look = () => {
    const now = performance.now()
    if (!seen.curve && document.querySelector("#rl-first .curve polyline")) { seen.curve = now }
    const roots = [...(window.Bokeh?.index?.roots ?? Object.values(window.Bokeh?.index ?? {}))]
    const done = roots.length && roots.every((root) => root.has_finished())
    const figures = window.Bokeh?.documents.flatMap((doc) => [...doc.all_models])
      .filter((model) => model.type === "Figure").length
    const board = performance.getEntriesByName("rlpanel-drawn").length || !document.getElementById("rl-first")
    if (!seen.drawn && done && figures && board) { seen.drawn = now; seen.figures = figures }
    if (!seen.drawn) { requestAnimationFrame(look) }
  }
  requestAnimationFrame(look)
})()
"""

#: A dark system, for which a page is built ahead as for a first visitor: with another one, the second page of
#: a browser would be built when it is asked for.
BROWSER: dict[str, Any] = {"viewport": VIEWPORT, "color_scheme": "dark"}

#: How the server gets a page.
AHEAD, ADAPTED, ON_DEMAND = KINDS = ("built ahead", "built ahead for another address", "built when asked for")

#: Numbers of the pages whose address nobody has asked for before.
_visits = itertools.count()

Row = tuple[str, str, str]


def main() -> None:
    """Measure, print, and record the results if requested."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    given = parser.parse_args()
    root, rows = Path(tempfile.mkdtemp(prefix="rlpanel-bench-")), list[Row]()
    try:
        write_recording("grpo_couplets", root / "grpo")
        write_recording("ppo_couplets", root / "ppo")
        with served(root) as (url, process):
            asyncio.run(_opened(f"{url}/?run=ppo"))  # imports what later pages have
            if "browser" in given.parts:
                rows += in_browser(url)
            if "loop" in given.parts:
                for kind in KINDS:
                    rows += asyncio.run(on_loop(url, process.pid, kind))
            if "crowd" in given.parts:
                rows += asyncio.run(crowd(url))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    text = "\n".join(["| | figure | goal |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])
    print(text)
    if given.record:
        record("Opening a page", f"`python -m tests.bench.opening {' '.join(given.parts)}`.", text)


def in_browser(url: str) -> list[Row]:
    """Open the board and the bare page in turn: with an empty cache, and with a filled one."""
    rows = list[Row]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        figures = int(_load(browser.new_context(**BROWSER), f"{url}/?run=ppo")["figures"])
        with bare_page(figures) as bare, bare_page(figures, tables=1) as table:
            for kind, cached in itertools.product(KINDS, (False, True)):
                times = _in_turn(browser, url, (bare, table), kind, cached=cached)
                title = f"{kind}, {'known scripts' if cached else 'empty cache'}"
                rows += _browser_rows(title, figures, *times)
        browser.close()
    return rows


def _in_turn(
    browser: Browser, board: str, others: Sequence[str], kind: str, *, cached: bool
) -> list[list[dict[str, float]]]:
    """Load the board and the other pages in turn, and return their times."""
    contexts = [browser.new_context(**BROWSER) for _ in (board, *others)]
    if cached:
        for context, url in zip(contexts, (f"{board}/?run=ppo", *others), strict=True):
            _load(context, url)
    times: list[list[dict[str, float]]] = [[] for _ in contexts]
    for _ in range(ROUNDS):
        for at, url in enumerate((page_url(board, kind), *others)):
            context = contexts[at] if cached else browser.new_context(**BROWSER)
            times[at].append(_load(context, url))
            if not cached:
                context.close()
    for context in contexts:
        context.close()
    return times


def _browser_rows(
    kind: str, figures: int, board: list[dict[str, float]], *others: list[dict[str, float]]
) -> list[Row]:
    bare, table = ([each["drawn"] for each in other] for other in others)
    return [
        (f"{kind}: first paint", _ms([each["paint"] for each in board]), "< 600 ms"),
        (f"{kind}: first curve painted", _ms([each["curve"] for each in board]), "< 600 ms"),
        (f"{kind}: board drawn and interactive", _ms([each["drawn"] for each in board]), "< 2,500 ms"),
        (f"{kind}: bare page with {figures} figures", _ms(bare), ""),
        (f"{kind}: bare page with {figures} figures and a table", _ms(table), ""),
        (f"{kind}: board over bare page, median in turn", _ratio(board, bare), "≤ 1.1"),
        (f"{kind}: board over bare page with a table, median in turn", _ratio(board, table), ""),
        (f"{kind}: bytes received", f"{board[-1]['bytes']:,.0f}; bare {others[0][-1]['bytes']:,.0f}", ""),
    ]


def _ratio(board: list[dict[str, float]], other: list[float]) -> str:
    return (
        f"{statistics.median(ours['drawn'] / theirs for ours, theirs in zip(board, other, strict=True)):.2f}"
    )


def _load(context: BrowserContext, url: str) -> dict[str, float]:
    """Load a page until it is drawn, and return its times in ms and the bytes of its files."""
    page = context.new_page()
    page.add_init_script(CLOCK)
    page.goto(url, wait_until="commit")
    page.wait_for_function("window.bench.drawn", timeout=120_000)
    times: dict[str, float] = page.evaluate(
        """() => ({...window.bench,
            paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN,
            bytes: ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
                .reduce((sum, entry) => sum + entry.transferSize, 0)})"""
    )
    page.close()
    times.setdefault("curve", times["drawn"])  # nothing of the run had been read before
    return times


@contextmanager
def bare_page(figures: int, tables: int = 0) -> Iterator[str]:
    """Serve a page with figures and tables only, in its own process."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", BARE, *map(str, (figures, tables, port))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(f"http://127.0.0.1:{port}", "/")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=10)


def page_url(url: str, kind: str) -> str:
    """Return the address of a page that the server gets in a way of `KINDS`."""
    if kind == ON_DEMAND:  # a page with such a long address is never built ahead
        return f"{url}/?run=ppo&visit={next(_visits)}{'0' * MAX_QUERY}"
    deadline = time.monotonic() + 60
    wanted = 2 if kind == ADAPTED else 1  # until both are built, the server is busy
    while json.load(urlopen(f"{url}/health"))["spare_pages"] < wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    if kind == AHEAD:
        return f"{url}/?run=ppo"
    # Two pages of each run in turn: the one that waits longest is of the other run. GRPO has one figure less.
    visit = next(_visits)
    return f"{url}/?run={('grpo', 'ppo')[visit // 2 % 2]}&step={1 + visit}"


async def on_loop(url: str, pid: int, kind: str) -> list[Row]:
    """Open pages one by one, without a browser, and measure the turns of the server's event loop."""
    longest, total, busy = [], [], []
    keep = [Viewer(f"{url}/?run={run}") for run in ("grpo", "ppo")]  # a closed run would be read again
    for viewer in keep:
        await viewer.open()
    following = [asyncio.create_task(viewer.follow()) for viewer in keep]
    for _ in range(ROUNDS):
        address = await asyncio.to_thread(page_url, url, kind)
        begin = worked(pid)
        with Turns(url) as turns:
            await _opened(address)
        longest.append(turns.longest)
        total.append(turns.total)
        busy.append(worked(pid) - begin)
        await asyncio.sleep(1)
    for viewer in keep:
        viewer.close()
    await asyncio.gather(*following)
    return [
        (f"{kind}: event loop occupied at a time, while a page opens", _ms(longest), "≤ 50 ms"),
        (f"{kind}: event loop occupied in total", _ms(total), "≤ 250 ms"),
        (f"{kind}: processor time of the server for it", _ms(busy), ""),
    ]


async def crowd(url: str) -> list[Row]:
    """Open many pages at once."""
    begin = time.monotonic()
    took = await asyncio.gather(*(_opened(f"{url}/?run=ppo") for _ in range(CROWD)))
    return [
        (
            f"{CROWD} pages opened at once: median and last complete",
            f"{statistics.median(took) - begin:.1f} / {max(took) - begin:.1f} s",
            "20 s",
        )
    ]


async def _opened(url: str) -> float:
    """Open a page like a browser, wait until all its views were sent, and return the time."""
    viewer: Any = Viewer(url)
    await viewer.open()
    following = asyncio.create_task(viewer.follow())
    await viewer.wait_until_whole()
    at = time.monotonic()
    viewer.close()
    await following
    return at


def _ms(values: list[float]) -> str:
    """Median and maximum."""
    return f"{statistics.median(values):,.0f} (worst {max(values):,.0f}) ms"


if __name__ == "__main__":
    main()
