"""Measures the board with very large runs.

    python -m tests.bench.scale [million] [ten] [ranks] [files] [--samples N] [--record]

``million`` opens a run of a million samples with 24 tokens each in a headless Chromium, before and after
its index is saved, next to a small run. ``ten`` does the same with ten million samples, which take 19 GB of
the disk for temporary files. ``ranks`` follows 1,024 files that grow slowly, and ``files`` reads runs of up
to 30,000 files. ``--samples`` sets another number of samples for ``million`` and ``ten``. Times are
wall-clock times, with the server's CPU time where it is given; ``--record`` writes them to RESULTS.md.
"""

from __future__ import annotations

import argparse
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
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import Page, sync_playwright

from tests.bench.generate import SAMPLES_PER_STEP, write_large_log
from tests.bench.latency import CLOCKS, chromium, served, worked
from tests.bench.results import record
from tests.bench.scale_files import files
from tests.bench.scale_memory import MemoryWatch, memory
from tests.bench.scale_ranks import ranks
from tests.conftest import QUIET, VIEWPORT

SAMPLES = {"million": 1_000_000, "ten": 10_000_000}
SMALL_STEPS, STEP_CHANGES, PAGES = 10, 25, 3
#: Bytes on the disk for each sample: its line, and its row in the index.
SAMPLE_BYTES = 1900
#: Milliseconds that the browser may take before the benchmark gives up.
PATIENCE = 600_000
#: Queries over all steps: title, and the page's query.
QUERIES = (
    ("filter", {"filter": "reward < 0 and kl_k3_mean > p99"}),
    ("sort", {"sort": "-reward"}),
    ("filter and sort", {"filter": "reward > p90", "sort": "-kl_k3_mean"}),
)
Row = tuple[str, str, str]


def large(folder: Path, run: str, samples: int) -> Iterator[Row]:
    """Pages, step changes and queries with a large run, which is written for this."""
    free, needed = shutil.disk_usage(folder).free, samples * SAMPLE_BYTES
    if free < needed:
        raise SystemExit(f"{needed / 1e9:.0f} GB are needed in {folder}, {free / 1e9:.0f} GB are free")
    steps = samples // SAMPLES_PER_STEP
    size = write_large_log(folder / run, steps)
    yield f"{steps * SAMPLES_PER_STEP:,} samples, bytes of the log", f"{size / 1e9:.1f} GB", ""
    write_large_log(folder / "small", SMALL_STEPS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        with served(folder) as (url, process):
            yield from _first_open(browser, url, process, run, steps)
        with served(folder) as (url, process):
            yield from _known_run(browser, url, process, run, steps)
        browser.close()


def _first_open(
    browser: Any, url: str, process: subprocess.Popen[bytes], run: str, count: int
) -> Iterator[Row]:
    """Open the run of ``count`` steps before it has an index."""
    _page_time(browser, url, "small")  # the first page of a process loads modules
    small = _page_time(browser, url, "small")
    with MemoryWatch(process.pid) as watch, answers(url) as waits, _page(browser) as page:
        begin = time.monotonic()
        opened = _open(page, url, run, count - 1)
        steps = _step_changes(page, 8, "ArrowLeft")
        while (behind := _health(url)["behind_bytes"]) is None or behind > 0:
            time.sleep(0.2)
        all_read = time.monotonic() - begin
        _wait_until_idle(process.pid)  # the index is saved, and the findings are complete
        after = memory(process.pid)
    yield "small run: page / its newest sample on screen", _pair(small), ""
    yield f"{run}, never read: page / its newest sample on screen", _pair(opened), "≤ 1 s after the page"
    yield "all read", f"{all_read:.1f} s", ""
    yield "meanwhile: step change, p50 / worst", _spread(steps), ""
    yield "meanwhile: /health answers after, p50 / p99 / worst", _tail(waits), ""
    yield "server's memory meanwhile, peak: private / total", _both(watch.peak), ""
    yield "its worker processes together, peak, private", f"{watch.peak['workers']:.0f} MB", ""
    yield "server's memory after reading: private / total", _both(after), _at_rest(run)


def _known_run(
    browser: Any, url: str, process: subprocess.Popen[bytes], run: str, count: int
) -> Iterator[Row]:
    """Open the run of ``count`` steps with its index, in a new process."""
    with MemoryWatch(process.pid) as watch:
        yield from _known_pages(browser, url, process, run, count)
        _wait_until_idle(process.pid)
    yield "server's memory: private / total", _both(memory(process.pid)), _at_rest(run)
    yield "its peak: private / total", _both(watch.peak), "" if run == "million" else "≤ 1,500 MB"


def _known_pages(
    browser: Any, url: str, process: subprocess.Popen[bytes], run: str, count: int
) -> Iterator[Row]:
    """Open pages of a run with an index, change its step, filter and sort."""
    _page_time(browser, url, "small")
    before = worked(process.pid)
    first = _page_time(browser, url, run, count)
    spent = worked(process.pid) - before
    _wait_until_idle(process.pid)
    times: dict[str, list[tuple[float, float]]] = {"small": [], run: []}
    for _ in range(PAGES):
        for name, taken in times.items():
            taken.append(_page_time(browser, url, name, SMALL_STEPS if name == "small" else count))
    small, opened = (
        (statistics.median(page), statistics.median(sample))
        for page, sample in (zip(*taken, strict=True) for taken in times.values())
    )
    yield "small run, in turn with: page / sample on screen", _pair(small), ""
    yield f"{run}, with index: page / sample on screen", _pair(opened), "≤ 0.3 s more"
    yield "its first page, with loading the index", f"{_pair(first)}, {spent / 1e3:.1f} CPU s", ""
    with _page(browser) as page:
        _open(page, url, "small", 0, step=0)
        changes = _step_changes(page, SMALL_STEPS - 2)
    yield "step change → its sample on screen, small run, p50 / worst", _spread(changes), ""
    with _page(browser) as page:
        middle = count // 2
        _open(page, url, run, middle, step=middle)
        changes = _step_changes(page, min(STEP_CHANGES, count - middle - 1))
        shown = _queries(page, run, process.pid)
    yield f"the same with {run}, p50 / worst", _spread(changes), "< 200 ms"
    for title, (milliseconds, busy) in shown.items():
        yield f"{title} over all steps → count on screen", f"{milliseconds:.0f} ms, {busy:.0f} CPU ms", ""


def _at_rest(run: str) -> str:
    return "≤ 400 MB" if run == "million" else ""


def _wait_until_idle(pid: int) -> None:
    """Wait until a process has used less than a tenth of a core for ten seconds."""
    while True:
        before = worked(pid)
        time.sleep(10)
        if worked(pid) - before < 1000:
            return


def _page_time(browser: Any, url: str, run: str, count: int = SMALL_STEPS) -> tuple[float, float]:
    """Return the seconds from navigation to the usable board, and to the newest of ``count`` steps."""
    with _page(browser) as page:
        return _open(page, url, run, count - 1)


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


def _queries(page: Page, run: str, pid: int) -> dict[str, tuple[float, float]]:
    """Return the milliseconds from a change of the address to the new number of samples, by query.

    The second number is the server's CPU time for it.
    """
    head = page.locator(".rl-samples .head .unit")
    taken = {}
    for title, query in QUERIES:
        _go(page, {"run": run})
        page.wait_for_timeout(1500)
        before, busy, begin = head.text_content(), worked(pid), time.monotonic()
        _go(page, {"run": run, "scope": "run", **query})
        while head.text_content() == before:
            pass
        taken[title] = (time.monotonic() - begin) * 1e3, worked(pid) - busy
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


def main() -> None:
    """Run the named parts, print, and record the results if requested."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=[*SAMPLES, "ranks", "files"])
    parser.add_argument("--samples", type=int, help="number of samples instead of a million or ten")
    parser.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    given = parser.parse_args()
    parts: dict[str, Callable[[Path], Iterator[Row]]] = {"ranks": ranks, "files": files}
    for run, samples in SAMPLES.items():
        parts[run] = partial(large, run=run, samples=given.samples or samples)
    for name in given.parts:
        folder = Path(tempfile.mkdtemp(prefix="rlpanel-bench-"))
        lines = ["| | figure | goal |", "|---|---|---|"]
        try:
            for row in parts[name](folder):
                lines.append(f"| {' | '.join(row)} |")
                sys.stdout.write(f"{lines[-1]}\n")
                sys.stdout.flush()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if given.record:
            record(f"Scale, {name}", f"`python -m tests.bench.scale {name}`.", "\n".join(lines))


if __name__ == "__main__":
    main()
