"""Measures how soon an open run shows a step that is complete on the disk, in the ways of ten trainers.

    python -m tests.bench.live_formats [--steps 6] [--record]

A process writes step after step; where the trainer does so, it writes the second step again. The first two
steps after opening warm up.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import rlpanel
from tests.bench.results import record
from tests.live_process import LiveProcess, shown
from tests.live_writers import FORMATS, MEAN, REWRITTEN
from tests.waiting import wait_until

#: Rows of a step; documents are files of their own.
ROWS = {"rllm": 64, "ms_swift": 256, "areal": 128, "prime_rl": 64}


def main() -> None:
    """Measure, print, and record the results if requested."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6, help="steps of each run")
    parser.add_argument("--record", action="store_true", help="write the result to RESULTS.md")
    options = parser.parse_args()
    head = [
        "| format | rows of a step | shown after the step is complete | least rows seen of a rewritten step |"
    ]
    rows = [_measured(name, options.steps) for name in FORMATS]
    text = "\n".join([*head, "|---|---|---|---|", *rows])
    print(text)
    if options.record:
        record("Live formats", "`python -m tests.bench.live_formats --record`", text)


def _measured(name: str, steps: int) -> str:
    count = ROWS.get(name, 1024)
    delays, least = [], ""
    with tempfile.TemporaryDirectory() as root, LiveProcess(name, Path(root) / "run") as writer:
        writer.begin(1, count)
        writer.done()
        with rlpanel.open_run(Path(root) / "run") as run:
            for step in range(2, steps + 1):
                delays.append(_delay(run, writer, step, count)[0])
            if name in REWRITTEN:
                delay, fewest = _delay(run, writer, 2, count, attempt=1)
                delays.append(delay)
                least = str(fewest)
    warm = delays[2:]
    between = (
        f"{min(warm) * 1000:.0f} to {max(warm) * 1000:.0f} ms, median {statistics.median(warm) * 1000:.0f}"
    )
    return f"| {name} | {count} | {between} | {least} |"


def _delay(
    run: rlpanel.Run, writer: LiveProcess, step: int, count: int, attempt: int = 0
) -> tuple[float, int]:
    """Return the seconds from a complete step to its showing, and the fewest rows seen of it."""
    fewest = count if attempt else 0

    def complete() -> bool:
        nonlocal fewest
        found = shown(run).get(step)
        fewest = min(fewest, found.samples if found else 0)
        return found is not None and (found.samples, found.mean) == (count, MEAN + attempt)

    writer.begin(step, count, attempt)
    wait_until(complete, 60.0, f"step {step}", every=0.002)
    seen = time.time()
    return max(0.0, seen - writer.done()), fewest


if __name__ == "__main__":
    main()
