"""Measures the commands that ask a known run of a million samples, start of the process included.

``python -m tests.bench.query [--folder FOLDER] [--record]``; ``--folder`` keeps the run for the next time,
and ``--record`` writes RESULTS.md.
"""

from __future__ import annotations

import mmap
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from tests.bench.generate import write_large_log
from tests.bench.results import record

STEPS, GOAL, TIMES = 1000, "< 1 s", 3
HEAD = "| | figure | goal |\n|---|---|---|"
RARE = "no such text"
COMMANDS = (
    ("steps",),
    ("steps", "--columns", "*"),
    ("samples", "--step", "500", "--text"),
    ("samples", "--filter", "reward < 0", "--sort=-kl_k3_mean"),
    ("sample", "rollout_data_rank_0.jsonl:0", "--tokens"),
    ("groups", "--step", "500"),
    ("prompts", "--kind", "variable"),
    ("tokens", "--step", "500"),
    ("notes",),
    ("findings",),
    ("search", "w17 w4", "--step", "500"),
    ("search", "w17"),
    ("search", RARE),
    ("contrast", "400..499", "300..399"),
)
#: Commands that read much more than the index: their figures have no goal.
WITHOUT_GOAL = (("findings",),)


def run_command(arguments: tuple[str, ...], run: Path) -> tuple[float, float]:
    """Return the CPU and wall-clock seconds of one command in a new process."""
    command = [sys.executable, "-m", "rlpanel", arguments[0], str(run), *arguments[1:], "--json"]
    # As after an installation, compiled modules are kept.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    wall = time.perf_counter() - wall
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def measure(run: Path) -> Iterator[str]:
    """Index the run once, then yield one line per command: the fastest of several calls."""
    run_command(("index",), run)
    for arguments in COMMANDS:
        taken = [run_command(arguments, run) for _ in range(TIMES)]
        cpu, wall = min(taken)[0], min(second for _, second in taken)
        goal = "" if arguments in WITHOUT_GOAL else GOAL
        yield f"`{' '.join(arguments)}` | {wall:.2f} s, {cpu:.2f} CPU s | {goal}"


def plain_searches(run: Path) -> Iterator[str]:
    """Yield one line for each plain search of all bytes, which respects case and finds no sample."""
    logs = sorted(run.glob("*.jsonl"))

    def grep() -> None:
        subprocess.run(
            ["grep", "-F", "-c", RARE, *logs], capture_output=True, env={"LC_ALL": "C"}, check=False
        )

    def find() -> None:
        for log in logs:
            with log.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                content.find(RARE.encode())

    for name, search in (("grep -F", grep), ("mmap.find", find)):
        taken = []
        for _ in range(TIMES):
            began = time.perf_counter()
            search()
            taken.append(time.perf_counter() - began)
        yield f"for comparison, `{name}` of the same bytes | {min(taken):.2f} s | "


def main() -> None:
    """Measure on a run that is written first, unless its folder exists."""
    at = sys.argv.index("--folder") if "--folder" in sys.argv else None
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run" if at is None else Path(sys.argv[at + 1])
        if not run.is_dir():
            write_large_log(run, STEPS)
        lines = []
        for line in chain(measure(run), plain_searches(run)):
            print(line, flush=True)
            lines.append(f"| {line} |")
    if "--record" in sys.argv:
        text = f"A known run of {STEPS:,} steps of 1,000 samples; the fastest of {TIMES} calls each."
        table = "\n".join([HEAD, *lines])
        record("Asking a run", "`python -m tests.bench.query`.", f"{text}\n\n{table}\n")


if __name__ == "__main__":
    main()
