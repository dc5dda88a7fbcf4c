"""Measures many viewers of one process while a run grows, and the memory that closed pages leave.

python -m tests.bench.viewers [--against PATH] [--rounds N] [--size SIZE] [--record]

Small and full are 50 viewers, full also opens and closes 200 pages. A viewer simulates a browser: a page, its
websocket, the document, and the message that the page is ready. It discards what it receives except for the
number of the step, because a real browser would need its own machine. All viewers are one process, the
writer is another, and a third repeatedly measures the server's response time. They do not wait for each
other, but they share the machine's cores with the server.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench.harness import Figures, Task, middle_and_worst, run
from tests.bench.served import Served, served
from tests.viewer import Viewer

FILES = 8
#: Bytes that the run grows by in a second, seconds per step, and seconds between measurements of the loop.
RATE, STEP_SECONDS, ASK_EVERY = 50e6, 2.0, 0.05
#: Samples that exist before the first page: a run's columns are known from its first step on.
FIRST = 256
#: Seconds after which the server has discarded the session of a closed page.
DISCARDED = 35.0


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


def write(folder: Path, seconds: float) -> None:
    """Append to all files, a new step every two seconds; print each step when it begins."""
    lines = Lines()
    logs = [(folder / f"rollout_data_rank_{rank}.jsonl").open("ab", buffering=0) for rank in range(FILES)]
    begin, written, step = time.monotonic(), 0, 0
    while (now := time.monotonic() - begin) < seconds:
        if int(now / STEP_SECONDS) + 1 != step:
            step = int(now / STEP_SECONDS) + 1
            print(step, time.monotonic(), flush=True)
        for log in logs:
            written += log.write(lines.line(step, written))
        time.sleep(max(0.0, written / RATE - now))


@contextmanager
def helper(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run this module in its own process, and read its output."""
    command = [sys.executable, "-P", "-m", "tests.bench.viewers", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def _watched(folder: Path, server: Served, count: int, seconds: float) -> Figures:
    """Open the viewers, let the run grow, and return the measurements."""
    before, worked, began = server.private_memory, server.seconds, time.monotonic()
    viewers = [Viewer(f"{server.url}/?run=run") for _ in range(count)]
    for viewer in viewers:
        await viewer.open()
    opening, all_open = (server.seconds - worked) / count, time.monotonic() - began
    tasks = [asyncio.create_task(viewer.follow()) for viewer in viewers]
    await asyncio.gather(*(viewer.wait_until_whole() for viewer in viewers))
    each = (server.private_memory - before) / count
    received, worked = sum(viewer.received for viewer in viewers), server.seconds
    with helper("--ask", server.url) as asking, helper("--write", str(folder), str(seconds)) as writer:
        steps = await asyncio.to_thread(lambda: [line.split() for line in writer.stdout or ()])
        asking.kill()
        life = [1e3 * float(line) for line in asking.stdout or ()]
    busy = (server.seconds - worked) / seconds
    sent = sum(viewer.received for viewer in viewers) - received
    written = {int(step): float(at) for step, at in steps}
    # A step is complete, and shown, when the next one begins; none follows the last one.
    complete = sorted(written)[:-1]
    until = time.monotonic() + 60
    while not all(viewer.has_seen(complete[-1]) for viewer in viewers) and time.monotonic() < until:
        await asyncio.sleep(0.1)
    lags = [1e3 * (at - written[s + 1]) for v in viewers for s in complete if (at := _first_seen(v, s))]
    seen = statistics.mean(len(viewer.seen.keys() & set(complete)) for viewer in viewers)
    up_to_date = sum(viewer.has_seen(complete[-1]) for viewer in viewers)
    for viewer in viewers:
        viewer.close()
    await asyncio.gather(*tasks)
    return {
        f"{count} pages opened one after another, s": all_open,
        "server for a page, CPU s": opening,
        "memory a viewer, MB": each,
        **middle_and_worst("event loop answers after", "ms", life),
        "event loop answers after, worst, ms": max(life),
        **middle_and_worst("step complete → a viewer has it or a later one", "ms", lags),
        "steps that a viewer received, % of those complete": 100 * seen / len(complete),
        "viewers with the last complete step, %": 100 * up_to_date / count,
        "server, CPU s a second": busy,
        "received, KB a viewer a second": sent / count / seconds / 1e3,
    }


async def _opened_and_closed(server: Served, pages: int) -> Figures:
    """Open and close pages, twice; return the memory that remains after each half."""
    marks = []
    for _ in range(2):
        for _ in range(pages // 2):
            viewer = Viewer(f"{server.url}/?run=run")
            await viewer.open()
            viewer.close()
        await asyncio.sleep(DISCARDED)
        marks.append(server.private_memory)
    return {
        f"memory after {pages // 2} pages opened and closed, MB": marks[0],
        f"memory after {pages}, MB": marks[1],
    }


def _first_seen(viewer: Viewer, step: int) -> float:
    """Return when a viewer first saw this step or a later one; 0 if never."""
    return min((at for seen, at in viewer.seen.items() if seen >= step), default=0.0)


def measure(task: Task) -> Figures:
    """Let a run grow in front of viewers, then open and close pages."""
    folder = task.folder / "runs" / "run"
    folder.mkdir(parents=True)
    lines = Lines()
    first = b"".join(lines.line(0, place) for place in range(FIRST))
    (folder / "rollout_data_rank_0.jsonl").write_bytes(first)
    with served(folder.parent, RLPANEL_CACHE="off") as server:
        count, seconds = task.pick(3, 50, 50), task.pick(6.0, 20.0, 40.0)
        figures = asyncio.run(_watched(folder, server, count, seconds))
        if pages := task.pick(0, 0, 200):
            figures |= asyncio.run(_opened_and_closed(server, pages))
    return figures


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]), float(sys.argv[3]))
    elif sys.argv[1:2] == ["--ask"]:
        ask(sys.argv[2])
    else:
        run(measure)
