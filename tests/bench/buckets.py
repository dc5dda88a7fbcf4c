"""Measures a run of many objects on S3: opening it, one more step in all objects, and rest.

The server is `tests.small_s3` in another process, with 20 ms of latency; only the client's CPU time counts.

python -m tests.bench.buckets [--against PATH] [--rounds N] [--size SIZE] [--record]
"""

from __future__ import annotations

import os
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
#: Seconds for which the run rests.
REST = 10.0


@contextmanager
def served() -> Iterator[int]:
    """Serve from another process; yields the port."""
    command = [sys.executable, "-m", "tests.small_s3", str(LATENCY)]
    code = Path(__file__).parents[2]  # the server is this checkout's, whichever client is measured
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=code
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.stdin.close()


def objects(ranks: int, steps: int) -> dict[str, bytes]:
    """Return the objects of a run by key."""
    return {
        f"run/rollout_data_rank_{rank}.jsonl": b"".join(
            line(step, rank=rank, index=at, prompt="x" * PROMPT)
            for step in range(1, steps + 1)
            for at in range(SAMPLES)
        )
        for rank in range(ranks)
    }


def _figures(ranks: int) -> Figures:
    with served() as port:
        os.environ |= small_s3.SETTINGS | {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "RLPANEL_CACHE": "off",
            "RLPANEL_CHECK": "0",
        }
        name, first = f"{ranks:,} objects", objects(ranks, STEPS)
        small_s3.upload(port, first)
        found: Figures = {f"{name}, MB": sum(map(len, first.values())) / 1e6}
        cpu, began = time.process_time(), time.monotonic()
        opened = open_run("s3://trainings/run")
        opened.wait()
        found[f"{name}, open, CPU s"] = time.process_time() - cpu
        found[f"{name}, open, s"] = time.monotonic() - began
        # The upload is another process, like the trainer, and takes a while.
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.buckets", "--write", str(port), str(ranks)]
        )
        cpu = time.process_time()
        writer.wait()
        uploaded = time.monotonic()
        while opened.stats().rows < ranks * SAMPLES * (STEPS + 1):
            time.sleep(0.05)
        found[f"{name}, a further step of all, CPU s"] = time.process_time() - cpu
        found[f"{name}, from the last upload to the rows, s"] = time.monotonic() - uploaded
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


def _write(port: int, ranks: int) -> None:
    """Write one more step into all objects, 64 at a time, as ranks do."""
    from concurrent.futures import ThreadPoolExecutor

    made = list(objects(ranks, STEPS + 1).items())
    with ThreadPoolExecutor(64) as pool:
        list(pool.map(lambda part: small_s3.upload(port, dict(part)), (made[at::64] for at in range(64))))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        _write(int(sys.argv[2]), int(sys.argv[3]))
    else:
        run(measure)
