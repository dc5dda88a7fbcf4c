"""Measures the board with very large runs.

    python -m tests.bench.scale [million] [ten] [ranks] [--record]

``million`` opens a run of a million samples with 24 tokens each in a headless Chromium, before and after
its index is saved, next to a small run. ``ten`` filters and sorts ten million samples in one process.
``ranks`` follows 1,024 files that grow slowly. Times are wall-clock times; ``--record`` writes them to
RESULTS.md.
"""

from __future__ import annotations

import http.client
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import Page, sync_playwright

from tests.bench.latency import CLOCKS, chromium, served
from tests.bench.results import record
from tests.bench.scale_log import write_large_log
from tests.bench.scale_memory import MemoryWatch, memory
from tests.bench.scale_ranks import ranks
from tests.conftest import QUIET, VIEWPORT

MILLION_STEPS, SMALL_STEPS, STEP_CHANGES, PAGES = 1000, 10, 25, 3
#: Milliseconds that the browser may take before the benchmark gives up.
PATIENCE = 180_000
#: Queries over all steps: title, and the page's query.
QUERIES = (
    ("filter", {"filter": "reward < 0 and kl_k3_mean > p99"}),
    ("sort", {"sort": "-reward"}),
    ("filter and sort", {"filter": "reward > p90", "sort": "-kl_k3_mean"}),
)
Row = tuple[str, str, str]


def million(folder: Path) -> Iterator[Row]:
    """Pages, step changes and queries with a million samples."""
    write_large_log(folder / "million", MILLION_STEPS)
    write_large_log(folder / "small", SMALL_STEPS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        with served(folder) as (url, process):
            yield from _first_open(browser, url, process)
        with served(folder) as (url, process):
            yield from _known_run(browser, url, process)
        browser.close()


def _first_open(browser: Any, url: str, process: subprocess.Popen[bytes]) -> Iterator[Row]:
    """Open the run before it has an index."""
    _page_time(browser, url, "small")  # the first page of a process loads modules
    small = _page_time(browser, url, "small")
    with MemoryWatch(process.pid) as watch, answers(url) as waits, _page(browser) as page:
        begin = time.monotonic()
        large = _open(page, url, "million", MILLION_STEPS - 1)
        steps = _step_changes(page, 8, "ArrowLeft")
        while (behind := _health(url)["behind_bytes"]) is None or behind > 0:
            time.sleep(0.2)
        all_read = time.monotonic() - begin
        time.sleep(15)  # the index is saved, and the findings are complete
        after = memory(process.pid)
    yield "small run: page / its newest sample on screen", _pair(small), ""
    yield "million, never read: page / its newest sample on screen", _pair(large), "≤ 1 s after the page"
    yield "all read", f"{all_read:.1f} s", ""
    yield "meanwhile: step change, p50 / worst", _spread(steps), ""
    yield "meanwhile: /health answers after, p50 / p99 / worst", _tail(waits), ""
    yield "server's memory meanwhile, peak: private / total", _both(watch.peak), ""
    yield "its worker processes together, peak, private", f"{watch.peak['workers']:.0f} MB", ""
    yield "server's memory after reading: private / total", _both(after), "≤ 400 MB"


def _known_run(browser: Any, url: str, process: subprocess.Popen[bytes]) -> Iterator[Row]:
    """Open the run with its index, in a new process."""
    _page_time(browser, url, "small")
    first = _page_time(browser, url, "million")
    times: dict[str, list[tuple[float, float]]] = {"small": [], "million": []}
    for _ in range(PAGES):
        for run, taken in times.items():
            taken.append(_page_time(browser, url, run))
    small, large = (
        (statistics.median(page), statistics.median(sample))
        for page, sample in (zip(*taken, strict=True) for taken in times.values())
    )
    yield "small run, in turn with: page / sample on screen", _pair(small), ""
    yield "million, with index: page / sample on screen", _pair(large), "≤ 0.3 s more"
    yield "its first page, with loading the index", _pair(first), ""
    with _page(browser) as page:
        _open(page, url, "small", 0, step=0)
        changes = _step_changes(page, SMALL_STEPS - 2)
    yield "step change → its sample on screen, small run, p50 / worst", _spread(changes), ""
    with _page(browser) as page:
        middle = MILLION_STEPS // 2
        _open(page, url, "million", middle, step=middle)
        changes = _step_changes(page, STEP_CHANGES)
        shown = _queries(page)
    yield "the same with a million, p50 / worst", _spread(changes), "< 200 ms"
    for title, milliseconds in shown.items():
        yield f"{title} over all steps → count on screen", f"{milliseconds:.0f} ms", ""
    time.sleep(10)
    yield "server's memory: private / total", _both(memory(process.pid)), "≤ 400 MB"


def _page_time(browser: Any, url: str, run: str) -> tuple[float, float]:
    """Return the seconds from navigation to the usable board, and to its newest sample."""
    with _page(browser) as page:
        return _open(page, url, run, SMALL_STEPS - 1 if run == "small" else MILLION_STEPS - 1)


@contextmanager
def _page(browser: Any) -> Iterator[Page]:
    context = browser.new_context(viewport=VIEWPORT)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    yield page
    context.close()


def _open(page: Page, url: str, run: str, expected: int, **query: object) -> tuple[float, float]:
    """Return the seconds from navigation to the usable board, and to a sample of the expected step."""
    begin = time.monotonic()
    page.goto(f"{url}/?{urlencode({'run': run, **query})}", wait_until="commit")
    page.locator(".rl-stage:visible, .rl-board:visible").first.wait_for()
    page.locator("#rl-first").wait_for(state="detached")
    ready = time.monotonic() - begin
    page.locator(".rl-sample-head", has_text=f"step {expected} ·").wait_for()
    page.locator(".rl-curve canvas").first.wait_for()
    return ready, time.monotonic() - begin


def _step_changes(page: Page, count: int, key: str = "ArrowRight") -> list[float]:
    """Return the milliseconds from the key press to the frame with the new step's sample."""
    page.wait_for_timeout(1500)
    page.evaluate(CLOCKS.replace("ArrowRight", key))
    times = []
    for _ in range(count):
        times.append(page.evaluate("() => window.step()"))
        page.wait_for_timeout(300)
    return times


def _queries(page: Page) -> dict[str, float]:
    """Return the milliseconds from a change of the address to the new number of samples, by query."""
    head = page.locator(".rl-samples .head .unit")
    taken = {}
    for title, query in QUERIES:
        _go(page, {"run": "million"})
        page.wait_for_timeout(1500)
        before, begin = head.text_content(), time.monotonic()
        _go(page, {"run": "million", "scope": "run", **query})
        while head.text_content() == before:
            pass
        taken[title] = (time.monotonic() - begin) * 1e3
    return taken


def _go(page: Page, query: dict[str, str]) -> None:
    """Change the selection like Back and Forward."""
    page.evaluate(
        """(query) => {
            history.pushState({}, "", location.pathname + query)
            window.dispatchEvent(new PopStateEvent("popstate"))
        }""",
        f"?{urlencode(query)}",
    )


@contextmanager
def answers(url: str) -> Iterator[list[float]]:
    """Ask for /health again and again; yields the list of seconds that the answers took."""
    waits: list[float] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.wait(0.05):
            begin = time.monotonic()
            _health(url)
            waits.append(time.monotonic() - begin)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    yield waits
    stop.set()
    thread.join()


def _health(url: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    connection.request("GET", "/health")
    return json.loads(connection.getresponse().read())


def _spread(milliseconds: list[float]) -> str:
    return f"{statistics.median(milliseconds):.0f} / {max(milliseconds):.0f} ms"


def _tail(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    picked = statistics.median(ordered), ordered[int(0.99 * (len(ordered) - 1))], ordered[-1]
    return " / ".join(f"{1e3 * value:.0f}" for value in picked) + " ms"


def _pair(seconds: tuple[float, float]) -> str:
    return f"{seconds[0]:.2f} / {seconds[1]:.2f} s"


def _both(found: dict[str, float]) -> str:
    return f"{found['private']:.0f} / {found['total']:.0f} MB"


def ten(folder: Path) -> Iterator[Row]:
    """Ten million samples in one process."""
    module = [sys.executable, "-m", "tests.bench.scale_index"]
    subprocess.run([*module, "write", str(folder)], check=True)
    with subprocess.Popen([*module, "open", str(folder)], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            name, figure, goal = line.rstrip("\n").split(" | ")
            yield name, figure, goal.strip()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)


PARTS: dict[str, Callable[[Path], Iterator[Row]]] = {"million": million, "ten": ten, "ranks": ranks}


def main() -> None:
    """Run the named parts, print, and record the results if requested."""
    names = [name for name in sys.argv[1:] if not name.startswith("-")] or list(PARTS)
    for name in names:
        folder = Path(tempfile.mkdtemp(prefix="rlpanel-bench-"))
        lines = ["| | figure | goal |", "|---|---|---|"]
        try:
            for row in PARTS[name](folder):
                lines.append(f"| {' | '.join(row)} |")
                sys.stdout.write(f"{lines[-1]}\n")
                sys.stdout.flush()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if "--record" in sys.argv:
            record(f"Scale, {name}", f"`python -m tests.bench.scale {name}`.", "\n".join(lines))


if __name__ == "__main__":
    main()
