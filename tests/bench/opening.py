"""Measures how a page opens: in a browser, on the server, and while the server reads a large run.

python -m tests.bench.opening [--against PATH] [--rounds N] [--size SIZE] [--record]

The full size is a run of a million samples.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from rlpanel.app.demo import write_recording
from tests.bench.generate import write_large_log
from tests.bench.harness import Figures, Task, run
from tests.bench.served import Served, bare_page, chromium, served
from tests.conftest import QUIET, VIEWPORT
from tests.viewer import Viewer

#: Pages that are opened one after another.
PAGES = 5
#: Notes when all plots and views are drawn.
CLOCK = """
(() => {
  const look = () => {
    const roots = [...(window.Bokeh?.index?.roots ?? [])]
    const finished = roots.length && roots.every((root) => root.has_finished())
    const board = performance.getEntriesByName("rlpanel-drawn").length || !document.getElementById("rl-first")
    if (finished && board) {
      window.drawn = performance.now()
    } else { requestAnimationFrame(look) }
  }
  requestAnimationFrame(look)
})()
"""


def prepare(task: Task) -> None:
    """Write a large run, of 1,000 samples a step."""
    write_large_log(task.data / "large", task.pick(20, 200, 1000))


def measure(task: Task) -> Figures:
    """Open pages of a small run, then while the large one is read for the first time."""
    root = task.folder / "runs"
    write_recording("ppo_couplets", root / "ppo")
    task.linked("large", root / "large")  # read when it is asked for
    with served(root) as server:
        first = asyncio.run(_open(server))
        alone = [asyncio.run(_open(server)) for _ in range(PAGES)]
        figures = {
            "first page whole, s": first[0],
            "further page whole, s": statistics.median(each[0] for each in alone),
            "server for a further page, CPU s": statistics.median(each[1] for each in alone),
            **_in_browser(server),
        }
        figures |= asyncio.run(_while_reading(server, task.pick(20, 200, 1000) * 1000))
        figures["memory after reading, private MB"] = server.private_memory
    with served(root) as server:
        asyncio.run(_open(server))
        known = asyncio.run(_open(server, "run=large"))
        return figures | {
            "first page of the large run, with an index, whole, s": known[0],
            "server for it, with an index, CPU s": known[1],
            "memory with an index, private MB": server.private_memory,
        }


async def _open(server: Served, query: str = "run=ppo") -> tuple[float, float]:
    """Open a page as a browser does; return the seconds until all views were sent, and the server's."""
    began, worked = time.monotonic(), server.seconds
    viewer: Any = Viewer(f"{server.url}/?{query}")
    await viewer.open()
    following = asyncio.create_task(viewer.follow())
    await viewer.wait_until_whole()
    found = time.monotonic() - began, server.seconds - worked
    viewer.close()
    await following
    return found


async def _while_reading(server: Served, samples: int) -> Figures:
    """Open pages of the small run, one after another, while a page of the large one makes it be read."""
    watching: Any = Viewer(f"{server.url}/?run=large")
    began = time.monotonic()
    await watching.open()
    following = asyncio.create_task(watching.follow())
    taken = [(await _open(server))[0] for _ in range(PAGES)]
    while not await asyncio.to_thread(_is_read, server, samples):
        await asyncio.sleep(0.1)
    read = time.monotonic() - began
    watching.close()
    await following
    return {"page whole while a large run is read, s": statistics.median(taken), "large run read, s": read}


def _is_read(server: Served, samples: int) -> bool:
    """Return True once all runs are read."""
    health = server.health()
    return health["samples"] > samples and not health["behind_bytes"]


def _in_browser(server: Served) -> Figures:
    """Open pages in Chromium, with an empty cache and with known scripts."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        empty = [_drawn(browser, server, pages=1)[0] for _ in range(PAGES)]
        known = _drawn(browser, server, pages=PAGES)[1:]
        with bare_page() as bare:
            least = _drawn(browser, bare, pages=PAGES)[1:]
        browser.close()
    return {
        "page of Panel alone, drawn, known scripts, ms": statistics.median(drawn for drawn, _ in least),
        "server for it, CPU s": statistics.median(worked for _, worked in least),
        "drawn, empty cache, ms": statistics.median(drawn for drawn, _ in empty),
        "server for a page in a browser, CPU s": statistics.median(worked for _, worked in empty),
        "drawn, known scripts, ms": statistics.median(drawn for drawn, _ in known),
    }


def _drawn(browser: Browser, server: Served, pages: int) -> list[tuple[float, float]]:
    """Open pages in one context; return the milliseconds until each is drawn, and the server's seconds."""
    context, found = browser.new_context(viewport=VIEWPORT, color_scheme="dark"), []
    for _ in range(pages):
        worked = server.seconds
        page = context.new_page()
        page.add_init_script(CLOCK)
        page.goto(f"{server.url}/?run=ppo", wait_until="commit")
        page.wait_for_function("window.drawn", timeout=120_000)
        found.append((page.evaluate("window.drawn"), server.seconds - worked))
        page.close()
    context.close()
    return found


if __name__ == "__main__":
    run(measure, prepare)
