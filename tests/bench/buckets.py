"""Measures a run of many objects on S3: opening it, one more step in all objects, and rest.

The server is `tests.small_s3` in another process, with 20 ms of latency; only the client's CPU time counts.
The objects are made in the server's process, since writing them over HTTP takes longer than reading them.

python -m tests.bench.buckets [--against PATH] [--rounds N] [--size SIZE] [--record]
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlpanel import open_run
from tests import small_s3
from tests.bench.harness import Figures, Task, alone, run
from tests.factories import line

#: Steps of the run, samples of a rank at a step, and characters of their prompts: lines of 1.5 KB.
STEPS, SAMPLES, PROMPT = 8, 2, 900
LATENCY = 0.02
#: Seconds for which the run rests, and in which all ranks write a step.
REST, WRITING = 10.0, 2.0
#: Further steps, and seconds between them, in which the client rests.
FURTHER, BETWEEN = 3, 7.3


class Bucket:
    """A server in another process, whose objects have as many steps as it is asked for."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server
        self.port = int(self._said())

    def grow(self) -> None:
        """Write one more step into all objects; returns when the last one is written."""
        assert self._server.stdin is not None
        print("grow", file=self._server.stdin, flush=True)
        self._said()

    def _said(self) -> str:
        assert self._server.stdout is not None
        return self._server.stdout.readline()


@contextmanager
def served(ranks: int) -> Iterator[Bucket]:
    """Serve a run of so many objects from another process."""
    command = [sys.executable, "-m", "tests.bench.buckets", "--serve", str(ranks)]
    code = Path(__file__).parents[2]  # the server is this checkout's, whichever client is measured
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=code
    ) as server:
        try:
            yield Bucket(server)
        finally:
            assert server.stdin is not None
            server.stdin.close()


def lines(rank: int, step: int, made: dict[int, bytes]) -> bytes:
    """Return the lines of a rank at a step; ``made`` keeps those of a step, since only the rank differs."""
    if step not in made:
        made[step] = b"".join(
            line(step, rank=987654321, index=at, prompt="x" * PROMPT) for at in range(SAMPLES)
        )
    return made[step].replace(b"987654321", str(rank).encode())


def _figures(ranks: int) -> Figures:
    with served(ranks) as bucket:
        os.environ |= small_s3.SETTINGS | {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{bucket.port}",
            "RLPANEL_CACHE": "off",
            "RLPANEL_CHECK": "0",
        }
        name = f"{ranks:,} objects"
        cpu, began = time.process_time(), time.monotonic()
        opened = open_run("s3://trainings/run")
        opened.wait()
        found: Figures = {f"{name}, open, CPU s": time.process_time() - cpu}
        found[f"{name}, open, s"] = time.monotonic() - began
        seconds, cpu = [], time.process_time()
        for step in range(STEPS + 1, STEPS + 1 + FURTHER):
            bucket.grow()
            written = time.monotonic()
            while opened.stats().rows < ranks * SAMPLES * step:
                time.sleep(0.05)
            seconds.append(time.monotonic() - written)
            time.sleep(BETWEEN)
        found[f"{name}, a further step of all, CPU s"] = (time.process_time() - cpu) / FURTHER
        found[f"{name}, from the last line to the rows, s"] = statistics.median(seconds)
        found[f"{name}, from the last line to the rows, worst, s"] = max(seconds)
        cpu = time.process_time()
        time.sleep(REST)
        found[f"{name}, at rest, % of a core"] = (time.process_time() - cpu) / REST * 100
        opened.close()
    return found


def measure(task: Task) -> Figures:
    """Read runs of several sizes, each in a process of its own."""
    found: Figures = {}
    for ranks in task.pick((16,), (1024,), (1024, 10240)):
        found |= alone(_figures, ranks)
    return found


async def _serve(ranks: int) -> None:
    """Serve a run; each line of the input lets all ranks write one more step within two seconds."""
    server, steps = small_s3.SmallS3(latency=LATENCY), STEPS
    made: dict[int, bytes] = {}
    keys = [f"run/rollout_data_rank_{rank}.jsonl" for rank in range(ranks)]
    for rank, key in enumerate(keys):
        server.put(key, b"".join(lines(rank, step, made) for step in range(1, steps + 1)))
    await server.serve()
    print(server.port, flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        steps, began = steps + 1, loop.time()
        for rank, key in enumerate(keys):
            server.put(key, server.objects[key].data + lines(rank, steps, made))
            if rank % 64 == 0:  # requests are answered in between
                await asyncio.sleep(max(0.0, began + WRITING * rank / ranks - loop.time()))
        print("grown", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(_serve(int(sys.argv[2])))
    else:
        run(measure)
