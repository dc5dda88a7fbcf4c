"""Measures the time to overlay eight runs of 5,000 steps on a ninth: choice → drawn, in four curves each.

    python -m tests.bench.overlay --record

Times are taken inside a headless Chromium that draws in software: from the choice (a change of the address)
to the last stroke on a canvas. The first choice opens the runs. For later choices they are open already,
because another page shows them.
"""

from __future__ import annotations

import re
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

from tests.bench.latency import chromium, served
from tests.bench.results import record
from tests.bench.tokens import drawn, middles, worked
from tests.conftest import QUIET, VIEWPORT

RUNS, STEPS, SAMPLES, ROUNDS = 8, 5000, 2, 7
NAMES = [f"run-{at}" for at in range(RUNS)]

CLOCK = """
() => {
  let last = 0
  const stroke = CanvasRenderingContext2D.prototype.stroke
  CanvasRenderingContext2D.prototype.stroke = function (...all) {
    stroke.apply(this, all)
    last = performance.now()
  }
  const lines = () => Bokeh.documents.flatMap((doc) => [...doc.all_models])
    .filter((model) => model.type === "ColumnDataSource" && model.name?.startsWith("over-"))
    .flatMap((source) => [...source.get("xs")])
  window.choose = (query, wanted) => new Promise((done) => {
    const begin = performance.now()
    history.pushState({}, "", location.pathname + query)
    window.dispatchEvent(new PopStateEvent("popstate"))
    const look = () => {
      const there = lines().filter((line) => line.length > 1000).length === wanted
      const quiet = last > begin && performance.now() - last > 400
      if (there && quiet) { done(last - begin) } else { setTimeout(look, 20) }
    }
    look()
  })
}
"""


def write(run: Path, seed: int) -> None:
    """Write a run with the four usual curves."""
    run.mkdir()
    draw = np.random.default_rng(seed)
    with (run / "rollout_data_rank_0.jsonl").open("w") as log:
        for step in range(STEPS):
            for at in range(SAMPLES):
                lp = (-draw.exponential(1.0, 2)).round(3).tolist()
                log.write(
                    f'{{"step": {step}, "prompt": "p{at}", "response": "r", "reward": {draw.normal():.3f}, '
                    f'"logprobs": {lp}, "ref_logprobs": {lp[::-1]}}}\n'
                )


def choose(page: Page, over: list[str], *, smooth: float = 0.0) -> float:
    """Return the milliseconds from the choice to the last stroke."""
    query = f"?run=base&step={STEPS - 1}&over={','.join(over)}" + (f"&smooth={smooth}" if smooth else "")
    return page.evaluate("([query, wanted]) => window.choose(query, wanted)", [query, 4 * len(over)])


def open_page(page: Page, url: str, query: str) -> Page:
    """Open a page and wait until its board is idle."""
    page.goto(f"{url}/{query}")
    page.locator(".rl-curve canvas").nth(3).wait_for()
    page.locator(".rl-badge", has_text=re.compile("live|quiet|finished")).wait_for()
    page.wait_for_timeout(3000)
    page.evaluate(CLOCK)
    return page


def measure(url: str, server: int) -> list[tuple[str, str, str]]:
    """Return the rows of the table."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        context = browser.new_context(viewport=VIEWPORT)
        page = open_page(context.new_page(), url, f"?run=base&step={STEPS - 1}")
        first = choose(page, NAMES)
        choose(page, NAMES[:1])
        open_page(
            context.new_page(), url, f"?run={NAMES[0]}&over=base,{','.join(NAMES[1:])}"
        ).bring_to_front()
        page.bring_to_front()
        again, smoothed, work = [], [], []
        clock = context.new_cdp_session(page)
        clock.send("Performance.enable", {"timeDomain": "threadTicks"})
        for _ in range(ROUNDS):
            before = worked(server), drawn(clock)
            again.append(choose(page, NAMES))
            work.append((worked(server) - before[0], drawn(clock) - before[1]))
            smoothed.append(choose(page, NAMES, smooth=0.9))
            choose(page, [])
        browser.close()
    middle, worst = statistics.median(again), max(again)
    return [
        ("chosen, runs open, median / worst", f"{middle:.0f} / {worst:.0f} ms", "< 500 ms"),
        ("processor time of it, server + page", " + ".join(middles(work)), ""),
        ("smoothing turned on", f"{statistics.median(smoothed):.0f} / {max(smoothed):.0f} ms", ""),
        ("chosen for the first time: read from disk, drawn as they come", f"{first:.0f} ms", ""),
    ]


def main() -> None:
    """Measure and print."""
    root = Path(tempfile.mkdtemp(prefix="rlpanel-bench-"))
    try:
        for seed, name in enumerate(["base", *NAMES]):
            write(root / name, seed)
        with served(root) as (url, server):
            rows = measure(url, server.pid)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    title = f"| {RUNS} runs × {STEPS:,} steps over another, four curves | figure | goal |"
    text = "\n".join([title, "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])
    sys.stdout.write(f"{text}\n")
    if "--record" in sys.argv:
        record("Runs side by side", "`python -m tests.bench.overlay`.", text)


if __name__ == "__main__":
    main()
