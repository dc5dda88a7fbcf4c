"""Measures fifty viewers of one process while a run grows: freshness, event loop, memory.

    python -m tests.bench.viewers [growing] [opening] [--viewers 50] [--rate 50] [--record]

``growing`` lets a run grow while all viewers watch, ``opening`` opens and closes 200 pages; both run by
default. A viewer simulates a browser: a page, its websocket, the document, and the message that the page is
ready. It discards what it receives except for the number of the step, because a real browser would need its
own machine. All viewers are one process, the writer is another, and a third repeatedly measures the
server's response time. They do not wait for each other, but they share the machine's cores with the server.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench.latency import resident, served, worked
from tests.bench.results import record
from tests.viewer import Viewer

FILES = 8
#: Seconds that the run grows, seconds per step, and requests per second that measure the loop.
SECONDS, STEP_SECONDS, ASK_EVERY = 40.0, 2.0, 0.05
#: Samples that exist before the first page: a run's columns are known from its first step on.
FIRST = 256
OPENED = 200

Row = tuple[str, str, str]


def ask(url: str) -> None:
    """Print the seconds that the server's event loop took to answer, again and again."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    while True:
        begin = time.monotonic()
        connection.request("GET", "/health")
        connection.getresponse().read()
        print(time.monotonic() - begin, flush=True)
        time.sleep(ASK_EVERY)


class Lines:
    """The lines of the run: samples of 1,024 tokens, 25 KB each."""

    def __init__(self) -> None:
        numbers = [round(-0.01 * (i % 97), 4) for i in range(1024)]
        tokens = {"response_tokens": [" tok"] * 1024, "logprobs": numbers, "ref_logprobs": numbers}
        sample = {"prompt": "a question " * 20, "response": " tok" * 1024, "reward": 0.5, **tokens}
        self._rest = json.dumps(sample)[1:]

    def line(self, step: int, place: int) -> bytes:
        """Return a sample as a line."""
        return f'{{"step": {step}, "uid": "{place}", {self._rest}\n'.encode()


def write(run: Path, rate: float) -> None:
    """Append to all files at ``rate`` MB/s, a new step every two seconds; print each step when it begins."""
    lines = Lines()
    logs = [(run / f"rollout_data_rank_{rank}.jsonl").open("ab", buffering=0) for rank in range(FILES)]
    begin, written, step = time.monotonic(), 0, 0
    while (now := time.monotonic() - begin) < SECONDS:
        if int(now / STEP_SECONDS) + 1 != step:
            step = int(now / STEP_SECONDS) + 1
            print(step, time.monotonic(), flush=True)
        for log in logs:
            written += log.write(lines.line(step, written))
        time.sleep(max(0.0, written / (rate * 1e6) - now))


@contextmanager
def helper(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run this module in its own process, and read its output."""
    command = [sys.executable, "-m", "tests.bench.viewers", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def watched(
    root: Path, url: str, process: subprocess.Popen[bytes], count: int, rate: float
) -> list[Row]:
    """Open the viewers, let the run grow, and return the measurements."""
    before, begin = resident(process.pid), worked(process.pid)
    viewers = [Viewer(f"{url}/?run=run") for _ in range(count)]
    for viewer in viewers:
        await viewer.open()
    opening = (worked(process.pid) - begin) / 1000 / count
    tasks = [asyncio.create_task(viewer.follow()) for viewer in viewers]
    await asyncio.sleep(3)
    each = (resident(process.pid) - before) / count
    received, begin = sum(viewer.received for viewer in viewers), worked(process.pid)
    with helper("--ask", url) as asking, helper("--write", str(root / "run"), str(rate)) as writer:
        steps = await asyncio.to_thread(lambda: [line.split() for line in writer.stdout or ()])
        asking.kill()
        life = [float(line) for line in asking.stdout or ()]
    busy = (worked(process.pid) - begin) / 1000 / SECONDS
    sent = sum(viewer.received for viewer in viewers) - received
    await asyncio.sleep(8)
    written = {int(step): float(at) for step, at in steps}
    # A step is complete, and shown, when the next one begins; none follows the last one.
    complete = sorted(written)[:-1]
    lags = [at - written[s + 1] for v in viewers for s in complete if (at := first_told(v, s))]
    each_told = statistics.mean(len(viewer.seen.keys() & set(complete)) for viewer in viewers)
    told = sum(max(viewer.seen, default=0) >= complete[-1] for viewer in viewers)
    for viewer in viewers:
        viewer.close()
    await asyncio.gather(*tasks)
    return [
        ("sign of life of the event loop, p50 / p99 / worst", ms(life), "p99 < 100 ms"),
        ("a step complete → a viewer told it or a later one, p50 / p99 / worst", ms(lags), ""),
        (
            "steps that a viewer was told, of those complete",
            f"{each_told:.1f} of {len(complete)}",
            "",
        ),
        ("viewers that were told the last complete step", f"{told} of {count}", "all"),
        ("processor time of the server", f"{busy:.2f} s a second", ""),
        ("bytes a viewer a second", f"{sent / count / SECONDS:,.0f}", ""),
        ("server memory a viewer", f"{each:.1f} MB", ""),
        ("processor time to open one, the others there", f"{opening:.2f} s", ""),
    ]


async def opened_and_closed(url: str, process: subprocess.Popen[bytes]) -> list[Row]:
    """Open and close pages, and return the memory that remains."""
    marks = []
    for _ in range(4):
        for _ in range(OPENED // 4):
            viewer = Viewer(f"{url}/?run=run")
            await viewer.open()
            viewer.close()
        await asyncio.sleep(35)  # a session outlives its page by fifteen to thirty seconds
        marks.append(resident(process.pid))
    counts = ", ".join(str(OPENED // 4 * k) for k in range(1, 5))
    shown = ", ".join(f"{mark:.0f}" for mark in marks)
    return [(f"server memory after {counts} pages opened and closed", f"{shown} MB", "no growth")]


def first_told(viewer: Viewer, step: int) -> float:
    """Return when a viewer first saw this step or a later one; 0 if never."""
    return min((at for seen, at in viewer.seen.items() if seen >= step), default=0.0)


def ms(seconds: list[float]) -> str:
    """Median, 99th percentile and maximum in milliseconds."""
    ordered = sorted(seconds)
    if not ordered:
        return "none"
    picked = statistics.median(ordered), ordered[int(0.99 * (len(ordered) - 1))], ordered[-1]
    return " / ".join(f"{1000 * value:,.0f}" for value in picked) + " ms"


def measure(given: argparse.Namespace) -> list[Row]:
    """Return the figures of the requested parts."""
    root, rows = Path(tempfile.mkdtemp(prefix="rlpanel-bench-")), list[Row]()
    try:
        (root / "run").mkdir()
        lines = Lines()
        first = b"".join(lines.line(0, place) for place in range(FIRST))
        (root / "run" / "rollout_data_rank_0.jsonl").write_bytes(first)
        with served(root) as (url, process):
            if "growing" in given.parts:
                rows += asyncio.run(watched(root, url, process, given.viewers, given.rate))
            if "opening" in given.parts:
                rows += asyncio.run(opened_and_closed(url, process))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return rows


def main() -> None:
    """Measure, print, and record the results if requested."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["growing", "opening"])
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--rate", type=float, default=50.0, help="MB/s")
    parser.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    given = parser.parse_args()
    samples = f"{given.rate * STEP_SECONDS * 40:,.0f}"
    title = f"| {given.viewers} viewers, {given.rate:g} MB/s, some {samples} samples a step | figure | goal |"
    text = "\n".join([title, "|---|---|---|", *(f"| {' | '.join(row)} |" for row in measure(given))])
    print(text)
    if given.record:
        command = f"python -m tests.bench.viewers {' '.join(given.parts)} --viewers {given.viewers}"
        name = " and ".join(given.parts)
        record(
            f"Viewers, {name}, {given.rate:g} MB/s",
            f"`{command} --rate {given.rate:g}`, lines of 25 KB in {FILES} files, a step every two seconds; "
            "writer, viewers and server on the same cores.",
            text,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]), float(sys.argv[3]))
    elif sys.argv[1:2] == ["--ask"]:
        ask(sys.argv[2])
    else:
        main()
