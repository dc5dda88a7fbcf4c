"""Measures what it costs to follow a run: the server, and the main thread of the browser.

    python -m tests.bench.following [--rates 1 15] [--seconds 20] [--record]

A run grows by a number of steps a second, 16 samples each, while one page in a headless Chromium follows it.
Drawing is done in software, by the same two cores.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright

from rlpanel.app.demo import write_recording
from tests.bench.latency import chromium, served
from tests.bench.results import record
from tests.bench.tokens import drawn, worked
from tests.conftest import QUIET, VIEWPORT

#: Samples of a step, and seconds until the measurement begins.
SAMPLES, SETTLE = 16, 4.0

Row = tuple[str, str, str]


class Growth(threading.Thread):
    """Thread that appends steps to a run.

    Parameters
    ----------
    run : Path
    rate : float
        Steps per second.
    """

    def __init__(self, run: Path, rate: float) -> None:
        super().__init__(daemon=True)
        self._path, self._rate = run / "rollout_data_rank_0.jsonl", rate
        self._lines = [json.loads(line) for line in self._path.read_text("utf-8").splitlines()[-640:]]
        self._ended = threading.Event()

    def run(self) -> None:
        step = int(self._lines[-1]["step"])
        with self._path.open("a", encoding="utf-8") as log:
            while not self._ended.wait(1 / self._rate):
                step += 1
                at = step * SAMPLES % (len(self._lines) - SAMPLES)
                for line in self._lines[at : at + SAMPLES]:
                    log.write(json.dumps({**line, "step": step}) + "\n")
                log.flush()

    def stop(self) -> None:
        """Stop, and wait until the last line is written."""
        self._ended.set()
        self.join()


def main() -> None:
    """Measure, print, and record the results if requested."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rates", nargs="*", type=float, default=[1.0, 15.0], help="steps a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--profile", action="store_true", help="print the functions that take longest")
    parser.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    given = parser.parse_args()
    rows = [row for rate in given.rates for row in followed(rate, given.seconds, given.profile)]
    text = "\n".join(["| | figure | goal |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])
    print(text)
    if given.record:
        record("Following a run", "`python -m tests.bench.following`.", text)


def followed(rate: float, seconds: float, profile: bool) -> list[Row]:
    """Follow a run that grows at a rate, and return the shares of time."""
    root = Path(tempfile.mkdtemp(prefix="rlpanel-bench-"))
    try:
        write_recording("ppo_couplets", root / "ppo")
        with served(root) as (url, process), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
            page = browser.new_context(viewport=VIEWPORT).new_page()
            page.goto(f"{url}/?run=ppo")
            page.locator("[data-uid]").wait_for()
            growth = Growth(root / "ppo", rate)
            growth.start()
            page.wait_for_timeout(1000 * SETTLE)
            clock = page.context.new_cdp_session(page)
            clock.send("Performance.enable")
            if profile:
                clock.send("Profiler.enable")
                clock.send("Profiler.start")
            begin, server, tab = time.monotonic(), worked(process.pid), drawn(clock)
            first = shown_step(page)
            page.wait_for_timeout(1000 * seconds)
            took = time.monotonic() - begin
            server, tab = worked(process.pid) - server, drawn(clock) - tab
            steps = shown_step(page) - first
            if profile:
                print_profile(clock)
            growth.stop()
            browser.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    goals = ("5 %", "20 %") if rate <= 1 else ("", "25 %")
    return [
        (f"{rate:g} steps a second: server, of a core", f"{server / took / 10:.0f} %", goals[0]),
        (f"{rate:g} steps a second: browser's main thread", f"{tab / took / 10:.0f} %", goals[1]),
        (f"{rate:g} steps a second: steps that passed on screen, a second", f"{steps / took:.1f}", ""),
    ]


def shown_step(page: Page) -> int:
    """Return the step in the page's step bar."""
    return int(page.locator(".rl-step b").first.inner_text().split()[-1])


def print_profile(clock: CDPSession) -> None:
    """Print the functions of the page with the longest own time."""
    profile: dict[str, Any] = clock.send("Profiler.stop")["profile"]
    names = {
        node["id"]: f"{node['callFrame']['functionName']} {node['callFrame']['url'].rpartition('/')[2][:40]}"
        for node in profile["nodes"]
    }
    spent: dict[str, float] = {}
    for node, micros in zip(profile["samples"], profile["timeDeltas"], strict=True):
        spent[names[node]] = spent.get(names[node], 0.0) + micros / 1000
    for name, millis in sorted(spent.items(), key=lambda each: -each[1])[:40]:
        print(f"{millis:8.0f} ms  {name}")


if __name__ == "__main__":
    main()
