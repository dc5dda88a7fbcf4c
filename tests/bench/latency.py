"""Measures the board's speed in a browser: first page, append → screen, step change, memory per session.

``python -m tests.bench.latency`` prints a table for ``RESULTS.md``. Times are wall-clock times of a real
server and a headless Chromium on this machine, so compare them only within one run.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from playwright.sync_api import Page, sync_playwright

from rlpanel.app.demo import write_recording
from tests.conftest import BROWSERS, QUIET, VIEWPORT
from tests.ui.board import free_port

APPENDS = 40
STEPS = 30
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


def main() -> None:
    """Measure and print."""
    root = Path(tempfile.mkdtemp(prefix="rlpanel-bench-"))
    try:
        write_recording("grpo_couplets", root / "grpo")
        write_recording("ppo_couplets", root / "ppo")
        with served(root) as (url, process):
            rows = measure(root, url, process)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print("| figure | value |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")


def measure(root: Path, url: str, process: subprocess.Popen[bytes]) -> list[tuple[str, str]]:
    """Return all figures, as name and text."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        rows = [ready(browser, url), *steps(browser, url), *appends(browser, url, root / "grpo")]
        rows.append(memory(browser, url, process))
        browser.close()
    return rows


def chromium() -> str:
    """Return the browser's path."""
    names = (os.environ.get("CHROMIUM"), *BROWSERS)
    return next(found for name in names if name and (found := shutil.which(name)))


@contextmanager
def opened(browser: Any, url: str) -> Iterator[tuple[Page, float, list[int]]]:
    """Open a page and wait until it is idle; also yields the time to its first curve and websocket sizes."""
    page = browser.new_context(viewport=VIEWPORT).new_page()
    traffic: list[int] = []
    page.on("websocket", lambda s: s.on("framereceived", lambda data: traffic.append(len(data))))
    begin = time.monotonic()
    page.goto(url)
    page.locator(".rl-curve canvas").first.wait_for()
    took = time.monotonic() - begin
    page.locator("[data-uid]").wait_for()
    page.wait_for_timeout(3000)
    yield page, took, traffic
    page.context.close()


def ready(browser: Any, url: str) -> tuple[str, str]:
    """Time from the address to the first curve: the server's first page, and later ones."""
    times = []
    for _ in range(4):
        with opened(browser, f"{url}/?run=ppo") as (_, took, _):
            times.append(took)
    return "page ready, first / next", f"{times[0]:.2f} / {statistics.median(times[1:]):.2f} s"


def steps(browser: Any, url: str) -> list[tuple[str, str]]:
    """Time from the key press to the frame with the new step's sample, and the bytes sent."""
    times, sizes = [], []
    with opened(browser, f"{url}/?run=ppo&step=9") as (page, _, traffic):
        page.evaluate(CLOCKS)
        for _ in range(STEPS):
            traffic.clear()
            times.append(page.evaluate("() => window.step()"))
            page.wait_for_timeout(400)
            sizes.append(sum(traffic))
    return [
        ("step change → its sample on screen, p50 / p95", spread(times, "ms")),
        ("bytes a step change, PPO run, p50 / p95", spread(sizes, "B")),
    ]


def appends(browser: Any, url: str, run: Path) -> list[tuple[str, str]]:
    """Time from the write of a line with a new step to the frame with its point."""
    path, lags = run / "rollout_data_rank_0.jsonl", []
    line = json.loads(path.read_bytes().split(b"\n", 1)[0])
    with opened(browser, f"{url}/?run=grpo") as (page, _, _), path.open("ab") as log:
        page.evaluate(CLOCKS)
        for step in range(61, 61 + APPENDS):
            data = json.dumps({**line, "step": step}).encode() + b"\n"
            page.evaluate("() => window.appended()")
            begin = time.time() * 1000
            log.write(data)
            log.flush()
            lags.append(page.evaluate("() => window.lag") - begin)
            page.wait_for_timeout(300)
    return [("append → point on screen, p50 / p95", spread(lags, "ms"))]


def memory(browser: Any, url: str, process: subprocess.Popen[bytes], sessions: int = 5) -> tuple[str, str]:
    """Server memory per additional open browser."""
    with ExitStack() as stack:
        stack.enter_context(opened(browser, f"{url}/?run=ppo"))
        before = resident(process.pid)
        for _ in range(sessions):
            stack.enter_context(opened(browser, f"{url}/?run=ppo"))
        added = (resident(process.pid) - before) / sessions
    return "server memory a further session", f"{added:.1f} MB"


def worked(pid: int) -> float:
    """Return the processor time of a process so far, in ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spread(values: list[float] | list[int], unit: str) -> str:
    """Median and 95th percentile."""
    ordered = sorted(values)
    return f"{statistics.median(ordered):,.0f} / {ordered[int(0.95 * (len(ordered) - 1))]:,.0f} {unit}"


def resident(pid: int) -> float:
    """Return the resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def served(root: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run ``rlpanel serve`` in its own process."""
    port = free_port()
    command = [sys.executable, "-m", "rlpanel", "serve", str(root), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url)
        yield url, process
    finally:
        process.terminate()
        process.wait(timeout=120)  # it saves the index of a large run


def wait_for(url: str, path: str = "/health") -> None:
    """Wait until the server answers."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            urlopen(f"{url}{path}", timeout=10).read()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(url)


if __name__ == "__main__":
    main()
