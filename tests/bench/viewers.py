"""Fifty viewers of one process while a run grows: who is up to date, is the loop free, is memory given back?

Run it with ``python -m tests.bench.viewers [VIEWERS] [MB/s]``; it prints a table for ``RESULTS.md``. A viewer
is what a browser is to the server: a page, its websocket, the document, and word that it stands; it throws
away what it gets but for the number of the step. A browser that draws would need a machine of its own.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tornado.httpclient import AsyncHTTPClient

from tests.bench.latency import resident, served
from tests.viewer import Viewer

VIEWERS, MB_PER_S, FILES = 50, 50.0, 8
#: Seconds that the run grows, seconds a step, and how often the loop is asked for a sign of life.
SECONDS, STEP_SECONDS, ASK_EVERY = 40.0, 2.0, 0.05
OPENED = 200


async def signs_of_life(url: str, until: Callable[[], bool]) -> list[float]:
    """Seconds that the server's event loop took to answer, asked again and again."""
    took = []
    while not until():
        begin = time.monotonic()
        await AsyncHTTPClient().fetch(f"{url}/liveness", request_timeout=60)
        took.append(time.monotonic() - begin)
        await asyncio.sleep(ASK_EVERY)
    return took


@contextmanager
def growing(run: Path, rate: float) -> Iterator[subprocess.Popen[str]]:
    """A run that a process of its own appends to; it prints each step as its first line is written."""
    command = [sys.executable, "-m", "tests.bench.viewers", "--write", str(run), str(rate)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield writer
    finally:
        writer.kill()
        writer.wait()


def write(run: Path, rate: float) -> None:
    """Append samples of 1,024 tokens to all files at ``rate`` MB/s, a new step every two seconds."""
    numbers = [round(-0.01 * (i % 97), 4) for i in range(1024)]
    body = {"response_tokens": [" tok"] * 1024, "logprobs": numbers, "ref_logprobs": numbers}
    rest = json.dumps({"prompt": "a question " * 20, "response": " tok" * 1024, "reward": 0.5, **body})[1:]
    logs = [(run / f"rollout_data_rank_{rank}.jsonl").open("ab", buffering=0) for rank in range(FILES)]
    begin, written, step = time.monotonic(), 0, 0
    while (now := time.monotonic() - begin) < SECONDS:
        if int(now / STEP_SECONDS) + 1 != step:
            step = int(now / STEP_SECONDS) + 1
            print(step, time.monotonic(), flush=True)
        line = f'{{"step": {step}, "uid": "{written}", {rest}\n'.encode()
        for log in logs:
            written += log.write(line)
        time.sleep(max(0.0, written / (rate * 1e6) - now))


async def watched(root: Path, url: str, process: subprocess.Popen[bytes], count: int, rate: float) -> None:
    """Open the viewers, let the run grow, and print what became of them."""
    begin = time.monotonic()
    viewers = [Viewer(f"{url}/?run=run") for _ in range(count)]
    before = resident(process.pid)
    for viewer in viewers:
        await viewer.open()
    opening = (time.monotonic() - begin) / count
    tasks = [asyncio.create_task(viewer.follow()) for viewer in viewers]
    await asyncio.sleep(3)
    each = (resident(process.pid) - before) / count
    written: dict[int, float] = {}
    with growing(root / "run", rate) as writer:

        def note() -> None:
            for line in writer.stdout or ():
                step, at = line.split()
                written[int(step)] = float(at)

        done = asyncio.create_task(asyncio.to_thread(note))
        life = await signs_of_life(url, done.done)
    await asyncio.sleep(8)
    steps = sorted(written)[:-1]
    # A step is complete, and shown, when the next one begins.
    lags = [v.seen[s] - written[s + 1] for v in viewers for s in steps if s in v.seen]
    newest = [max(v.seen, default=0) for v in viewers]
    say("server seconds to open one viewer, the others there", f"{opening:.2f}")
    say("server memory a viewer", f"{each:.1f} MB")
    say("sign of life of the event loop, p50 / p99 / worst", ms(life))
    say("a step complete → every viewer told, p50 / p99 / worst", ms(lags))
    say("viewers that were told the last complete step", f"{sum(n >= steps[-1] for n in newest)} of {count}")
    say("bytes a viewer a second", f"{statistics.mean(v.received for v in viewers) / SECONDS:,.0f}")
    for viewer in viewers:
        viewer.close()
    await asyncio.gather(*tasks)


async def opened_and_closed(url: str, process: subprocess.Popen[bytes]) -> None:
    """Open and close pages; what stays in memory?"""
    marks = []
    for _ in range(4):
        for _ in range(OPENED // 4):
            viewer = Viewer(f"{url}/?run=run")
            await viewer.open()
            viewer.close()
        await asyncio.sleep(35)  # a session outlives its page by fifteen to thirty seconds
        marks.append(resident(process.pid))
    say(f"server memory after {', '.join(str(OPENED // 4 * k) for k in range(1, 5))} pages opened and closed",
        ", ".join(f"{mark:.0f}" for mark in marks) + " MB")  # fmt: skip


def ms(seconds: list[float]) -> str:
    """Median, 99th percentile and maximum in milliseconds."""
    ordered = sorted(seconds)
    if not ordered:
        return "none"
    picked = statistics.median(ordered), ordered[int(0.99 * (len(ordered) - 1))], ordered[-1]
    return " / ".join(f"{1000 * value:,.0f}" for value in picked) + " ms"


def say(name: str, value: str) -> None:
    """A row of the table."""
    print(f"| {name} | {value} |", flush=True)


def main(count: int = VIEWERS, rate: float = MB_PER_S) -> None:
    """Measure and print."""
    root = Path(tempfile.mkdtemp(prefix="rlpanel-bench-"))
    try:
        (root / "run").mkdir()
        first = {"step": 0, "prompt": "p", "response": "r", "reward": 0.0}
        (root / "run" / "rollout_data_rank_0.jsonl").write_text(json.dumps(first) + "\n")
        with served(root) as (url, process):
            print(f"| {count} viewers, {rate:g} MB/s | figure |\n|---|---|")
            asyncio.run(watched(root, url, process, count, rate))
            asyncio.run(opened_and_closed(url, process))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]), float(sys.argv[3]))
    else:
        main(*(kind(text) for kind, text in zip((int, float), sys.argv[1:], strict=False)))
