"""Measures the board's speed in a browser: append → drawn, step change → drawn, bytes, memory of a page.

python -m tests.bench.latency [--against PATH] [--rounds N] [--size SIZE] [--record]

Times are those of a real server and a headless Chromium on one machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, sync_playwright

from rlpanel.app.demo import write_recording
from tests.bench.generate import write_large_log
from tests.bench.harness import Figures, Task, middle_and_worst, run
from tests.bench.served import Served, chromium, served
from tests.conftest import QUIET, VIEWPORT

#: Further pages whose memory is measured.
PAGES = 5
#: Queries over all steps of the large run.
QUERIES: dict[str, dict[str, str]] = {
    "filter": {"filter": "reward < 0 and kl_k3_mean > p99"},
    "sort": {"sort": "-reward"},
}
#: Timers inside the page, because a timer outside would also measure the way to the browser. Each frame
#: checks a single value, since checking more would slow down what is measured.
CLOCKS = """
() => {
  const inside = (root) => {
    for (const el of root.querySelectorAll("*")) {
      if (el.dataset?.uid) { return el.getRootNode() }
      const found = el.shadowRoot && inside(el.shadowRoot)
      if (found) { return found }
    }
  }
  const models = Bokeh.documents.flatMap((doc) => [...doc._all_models.values()])
  const curve = models.find((model) => model.type === "ColumnDataSource" && model.data.lo?.length)
  const head = inside(document)
  const uid = () => head.querySelector("[data-uid]")?.dataset.uid
  const points = () => curve.data.x.length
  const until = (value, begin) => new Promise((done) => {
    const before = value()
    const look = () => value() === before ? requestAnimationFrame(look) : done(Date.now() - begin())
    look()
  })
  window.step = () => {
    const begin = Date.now()
    const changed = until(uid, () => begin)
    document.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}))
    return changed
  }
  window.appended = () => { window.lag = until(points, () => 0) }
}
"""


def prepare(task: Task) -> None:
    """Write a large run, of 1,000 samples a step."""
    write_large_log(task.data / "large", task.pick(10, 100, 1000))


def measure(task: Task) -> Figures:
    """Change steps, append lines, filter, and open more pages."""
    root = task.folder / "runs"
    write_recording("grpo_couplets", root / "grpo")
    write_recording("ppo_couplets", root / "ppo")
    task.linked("large", root / "large")
    with served(root) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        figures = {
            **_steps(browser, server, task.pick(5, 30, 30)),
            **_appends(browser, server, root / "grpo", task.pick(5, 40, 40)),
            **_queries(browser, server),
            **_memory(browser, server),
        }
        browser.close()
    return figures


@contextmanager
def opened(browser: Browser, server: Served, **query: object) -> Iterator[tuple[Page, list[int]]]:
    """Open a page and wait until it is idle; also yields the sizes of the messages that it receives."""
    page = browser.new_context(viewport=VIEWPORT).new_page()
    page.set_default_timeout(300_000)
    traffic: list[int] = []
    page.on("websocket", lambda s: s.on("framereceived", lambda data: traffic.append(len(data))))
    page.goto(f"{server.url}/?{urlencode(query)}")
    page.locator(".rl-curve canvas").first.wait_for()
    page.locator("[data-uid]").wait_for()
    page.wait_for_timeout(3000)
    yield page, traffic
    page.context.close()


def _steps(browser: Browser, server: Served, count: int) -> Figures:
    """Time from the key press to the frame with the new step's sample, and the bytes sent."""
    times, sizes = [], []
    with opened(browser, server, run="ppo", step=9) as (page, traffic):
        page.evaluate(CLOCKS)
        worked = server.seconds
        for _ in range(count):
            traffic.clear()
            times.append(page.evaluate("() => window.step()"))
            page.wait_for_timeout(400)
            sizes.append(sum(traffic))
        worked = server.seconds - worked
    return {
        **middle_and_worst("step change → its sample drawn", "ms", times),
        **middle_and_worst("bytes a step change", "KB", [size / 1e3 for size in sizes]),
        "server for a step change, CPU ms": 1e3 * worked / count,
    }


def _appends(browser: Browser, server: Served, log: Path, count: int) -> Figures:
    """Time from the write of a line with a new step to the frame with its point.

    After a short pause the browser still rests from its last drawing (`BrowserPace`).
    """
    path = log / "rollout_data_rank_0.jsonl"
    lags: dict[int, list[float]] = {300: [], 1000: []}
    line = json.loads(path.read_bytes().split(b"\n", 1)[0])
    with opened(browser, server, run="grpo") as (page, _), path.open("ab") as file:
        page.evaluate(CLOCKS)
        worked = server.seconds
        for step, pause in enumerate((pause for pause in lags for _ in range(count)), start=61):
            data = json.dumps({**line, "step": step}).encode() + b"\n"
            page.evaluate("() => window.appended()")
            begin = time.time() * 1000
            file.write(data)
            file.flush()
            lags[pause].append(page.evaluate("() => window.lag") - begin)
            page.wait_for_timeout(pause)
        worked = server.seconds - worked
    return {
        **middle_and_worst("append → point drawn", "ms", lags[300]),
        **middle_and_worst("append after a second of rest → point drawn", "ms", lags[1000][1:]),
        "server for an append, CPU ms": 1e3 * worked / (2 * count),
    }


def _queries(browser: Browser, server: Served) -> Figures:
    """Time from a change of the address to the number of samples that a query over all steps has."""
    figures: Figures = {}
    with opened(browser, server, run="large") as (page, _):
        while server.health()["behind_bytes"]:
            page.wait_for_timeout(200)
        head = page.locator(".rl-samples .head .unit")
        for name, query in QUERIES.items():
            _go(page, {"run": "large"})
            page.wait_for_timeout(1500)
            before, worked, begin = head.text_content(), server.seconds, time.monotonic()
            _go(page, {"run": "large", "scope": "run", **query})
            while head.text_content() == before:
                pass
            figures[f"{name} over all steps → count drawn, ms"] = 1e3 * (time.monotonic() - begin)
            figures[f"server for the {name}, CPU ms"] = 1e3 * (server.seconds - worked)
    return figures


def _go(page: Page, query: dict[str, Any]) -> None:
    """Change the selection like Back and Forward."""
    page.evaluate(
        """(query) => {
            history.pushState({}, "", location.pathname + query)
            window.dispatchEvent(new PopStateEvent("popstate"))
        }""",
        f"?{urlencode(query)}",
    )


def _memory(browser: Browser, server: Served) -> Figures:
    """Memory that each further open page adds to the server."""
    with ExitStack() as stack:
        stack.enter_context(opened(browser, server, run="ppo"))
        before = server.private_memory
        for _ in range(PAGES):
            stack.enter_context(opened(browser, server, run="ppo"))
        added = (server.private_memory - before) / PAGES
    return {"memory a further page, MB": added}


if __name__ == "__main__":
    run(measure, prepare)
