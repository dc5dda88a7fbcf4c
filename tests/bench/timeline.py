"""Measures how long the timeline of 5,000 rollouts with 40 spans each takes to appear in the board.

    python -m tests.bench.timeline [--record]

CPU time of the server: for an image with and without datashader, and for a new plot, which holds the event
loop. Then the time from a click on the tab to the picture in a headless Chromium, and the longest task of the
page's main thread meanwhile. ``--record`` writes the results to RESULTS.md.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import panel as pn
from bokeh.document import Document
from playwright.sync_api import sync_playwright

from rlpanel import open_run
from rlpanel.panels.timeline.rollout_spans import RolloutTimes, read_spans, times_of
from rlpanel.panels.timeline.span_raster import has_datashader, span_image
from rlpanel.panels.timeline.timeline_figure import TimelineFigure
from rlpanel.panels.timeline.timeline_plot import load_bokeh, picture_of, timeline_of
from tests.bench.latency import chromium, served
from tests.bench.results import record
from tests.conftest import QUIET, VIEWPORT
from tests.factories import sample
from tests.ui.board import BoardPage

ROLLOUTS, SPANS, TIMES = 5_000, 40, 3
Row = tuple[str, str, str]


def rollout(index: int) -> dict[str, Any]:
    """Return a sample with spans of random lengths."""
    chance, at, spans = random.Random(index), 0.0, []
    for turn in range(SPANS):
        end = at + chance.expovariate(1.0)
        spans.append([("generation", "tool")[turn % 2], round(at, 3), round(end, 3)])
        at = end
    return sample(1, index=index, rank=index % 4, timing={"start": 1.7e9, "spans": spans})


def measure(folder: Path) -> Iterator[Row]:
    """Yield one row per figure."""
    run = folder / "many"
    run.mkdir()
    (run / "rank_0.jsonl").write_text("".join(f"{json.dumps(rollout(index))}\n" for index in range(ROLLOUTS)))
    yield from _of_server(run)
    with served(folder) as (url, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        for when in ("first", "next"):
            page = browser.new_context(viewport=VIEWPORT).new_page()
            board = BoardPage(page, url).open(run="many", step=1).settled()
            page.evaluate(_WATCH)
            begin = time.perf_counter()
            board.tab("Timeline")
            page.wait_for_function(_HAS_IMAGE)
            yield f"click on the tab → picture, {when} page", f"{time.perf_counter() - begin:.1f} s", ""
            longest = page.evaluate("window.longest")
            yield f"longest task of the main thread, {when} page", f"{longest:.0f} ms", "≤ 200 ms"
            page.context.close()
        browser.close()


def _of_server(run: Path) -> Iterator[Row]:
    with open_run(run, follow=False) as opened:
        plotted = opened.plot._run
        begin = time.process_time()
        sums = times_of(plotted.view, 1)
        yield "times from the columns, CPU", f"{_since(begin):.0f} ms", ""
        begin = time.process_time()
        *_, times = read_spans(plotted.index, plotted.view.snapshot, sums)
        yield f"{len(times.owner):,} spans read from the lines, CPU", f"{_since(begin):.0f} ms", ""
    table = timeline_of(times, dark=True).table
    yield "table of the spans, CPU", f"{_cpu(lambda: timeline_of(times, dark=True)):.0f} ms", ""
    for name, use in (("datashader", True), ("sums of seconds", False)):
        if use and not has_datashader():
            continue
        yield f"image by {name}, CPU", f"{_cpu(_image, table, use):.0f} ms", ""
    yield "new plot on the event loop, CPU", f"{_held(times):.0f} ms", "≤ 50 ms"


def _image(table: Any, datashader: bool) -> Any:
    return span_image(table, table.window, 1_000, 400, datashader=datashader)


def _held(times: RolloutTimes) -> float:
    """Return the milliseconds in which a figure of a document is replaced."""
    load_bokeh()
    figure = TimelineFigure(lambda x, y: None, lambda x, y: None)
    pn.Column(figure).server_doc(Document())
    timeline = timeline_of(times, dark=True)
    picture, keys = picture_of(timeline), iter(range(TIMES + 1))
    return _cpu(lambda: figure.show_timeline(timeline, picture, next(keys), None))


def _cpu(work: Callable[..., Any], *arguments: Any) -> float:
    """Return the milliseconds of CPU time of the fastest call after the first."""
    taken = []
    for _ in range(TIMES + 1):
        begin = time.process_time()
        work(*arguments)
        taken.append(_since(begin))
    return min(taken[1:])


def _since(begin: float) -> float:
    return 1000 * (time.process_time() - begin)


_WATCH = """() => {
  window.longest = 0
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) { window.longest = Math.max(window.longest, task.duration) }
  }).observe({type: "longtask"})
}"""
#: Whether a plot with an image is drawn.
_HAS_IMAGE = """() => {
  const cells = (renderer) => renderer.data_source?.data.image?.[0]?.length ?? 0
  const drawn = (view) => view.model.renderers?.some((each) => cells(each) > 10_000) && view.frame?.x_scale
    || (view.child_views ?? []).some(drawn)
  return Object.values(Bokeh.index).some(drawn)
}"""


def main() -> None:
    """Print the figures; with ``--record``, write them to RESULTS.md."""
    with tempfile.TemporaryDirectory() as folder:
        rows = list(measure(Path(folder)))
    lines = ["| 5,000 rollouts of 40 spans | measured | goal |", "|---|---|---|"]
    table = "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
    print(table)
    if "--record" in sys.argv:
        shared = "Other programs used the same cores, so the CPU time is the figure to compare."
        record("Timeline", "`python -m tests.bench.timeline`,", f"{shared}\n\n{table}")


if __name__ == "__main__":
    main()
