"""Measures what the columns of agents' rollouts cost when lines are read: turns, tool calls, errors, media.

    python -m tests.bench.agent_lines [--record]

Each line holds a conversation of eight turns with tools, of some 6 KB. The same log is read with and without
counting its messages, three times in turn; the result is the median of CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.bench.results import record
from tests.bench.short_lines import Row, english_text

REPEATS = 3
STEPS, SAMPLES, TURNS = 20, 512, 8
TOOLS = ("search", "python", "open_page")


def write_agents(folder: Path) -> None:
    """Write the log."""
    draw = np.random.default_rng(0)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for step in range(1, STEPS + 1):
            for sample in range(SAMPLES):
                row = {"step": step, "group": f"{step}-{sample // 8}", "reward": float(draw.random() < 0.4)}
                file.write(json.dumps(row | {"messages": conversation(draw)}, ensure_ascii=False) + "\n")


def conversation(draw: np.random.Generator) -> list[Row]:
    """Return the messages of one sample."""
    messages: list[Row] = [{"role": "user", "content": english_text(draw, 4)}]
    for turn in range(TURNS - 1):
        call = {"name": TOOLS[draw.integers(3)], "arguments": json.dumps({"query": english_text(draw, 1)})}
        calls = [{"id": f"call_{turn}", "type": "function", "function": call}]
        messages.append({"role": "assistant", "content": english_text(draw, 3), "tool_calls": calls})
        failed = draw.random() < 0.1
        found = "Error: no such page" if failed else english_text(draw, 3)
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": found})
    return [*messages, {"role": "assistant", "content": english_text(draw, 3)}]


def measure(folder: Path, *, counted: bool) -> float:
    """Return the CPU seconds of reading the log, with or without the columns of its messages."""
    from rlpanel.sources.records import conversation as module
    from rlpanel.store.index.run_index import RunIndex

    if not counted:
        module._count_messages = lambda record, response, prompt: None
    started = time.process_time()
    index = RunIndex(folder, "run")
    index.rescan()
    while index.read():
        pass
    return time.process_time() - started


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="write RESULTS.md")
    parser.add_argument("--measure", nargs=2, metavar=("COUNTED", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        sys.stdout.write(str(measure(Path(given.measure[1]), counted=given.measure[0] == "with")))
        return
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as temporary:
        write_agents(Path(temporary))
        size = sum(path.stat().st_size for path in Path(temporary).iterdir())
        seconds: dict[str, list[float]] = {"with": [], "without": []}
        for _ in range(REPEATS):
            for name, found in seconds.items():
                command = [sys.executable, "-m", "tests.bench.agent_lines", "--measure", name, temporary]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                found.append(float(done.stdout))
    counted, bare = (statistics.median(found) for found in seconds.values())
    rows = STEPS * SAMPLES
    lines = ["| | MB per CPU-second | µs per sample |", "|---|---|---|"]
    for name, took in (("with the columns", counted), ("without", bare)):
        lines.append(f"| {name} | {size / 1e6 / took:,.0f} | {took / rows * 1e6:,.1f} |")
    lines += ["", f"The columns take {1 - bare / counted:.1%} of the time; the goal is at most 10 %."]
    text = "\n".join([f"{size / 1e6:,.0f} MB, {rows:,} conversations of {TURNS} turns:", "", *lines])
    sys.stdout.write(f"{text}\n")
    if given.record:
        record("Ingest, agents' columns", f"`python -m tests.bench.agent_lines`, medians of {REPEATS}.", text)


if __name__ == "__main__":
    main()
