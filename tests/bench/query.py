"""Measures questions to a known run: commands, start of the process included, and filters and text searches.

python -m tests.bench.query [--against PATH] [--rounds N] [--size SIZE] [--record]

The full size is a run of a million samples. A plain search of all bytes is measured next to those for a text.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time

from rlpanel import open_run
from tests.bench.generate import write_large_log
from tests.bench.harness import Figures, Task, run

STEP, RANGES = "500", ("400..499", "300..399")
RARE = "no such text"
COMMANDS = (
    ("steps",),
    ("steps", "--columns", "*"),
    ("samples", "--step", STEP, "--text"),
    ("samples", "--filter", "reward < 0", "--sort=-kl_k3_mean"),
    ("sample", "rollout_data_rank_0.jsonl:0", "--tokens"),
    ("groups", "--step", STEP),
    ("prompts", "--kind", "variable"),
    ("tokens", "--step", STEP),
    ("notes",),
    ("findings",),
    ("search", "w17 w4", "--step", STEP),
    ("search", "w17"),
    ("search", RARE),
    ("contrast", *RANGES),
    ("sql", "select step, avg(reward) from samples group by step"),
)
#: Commands that read no run; the goal is 0.3 CPU seconds.
PLAIN = (("link", "runs/exp1", "--step", STEP), ("schema",), ("skill",))
#: Filters over all samples.
FILTERS = (
    "reward < 0",
    "reward < 0 and response_tokens > 20 and kl_k3_mean > p99",
    "not (reward < p10 or kl_k3_mean > p99) and reward - kl_k3_mean > 0.5",
)


def prepare(task: Task) -> None:
    """Write a run of 1,000 samples a step."""
    write_large_log(task.data / "run", task.pick(10, 100, 1000))


def measure(task: Task) -> Figures:
    """Index the run once, then ask."""
    folder, figures = task.linked("run"), Figures()
    last = task.pick(10, 100, 1000) - 1
    _command(("index", str(folder), "--json"))
    for command in COMMANDS:
        words = tuple(_within(word, last) for word in command)
        wall, cpu = _command((words[0], str(folder), *words[1:], "--json"))
        figures[f"`{' '.join(command)}`, s"] = wall
        figures[f"`{' '.join(command)}`, CPU s"] = cpu
    for command in PLAIN:
        cpu = statistics.median(_command(command)[1] for _ in range(5))
        figures[f"`{' '.join(command)}`, CPU s"] = cpu
    began = time.perf_counter()
    subprocess.run(
        ["grep", "-F", "-c", RARE, *sorted(folder.glob("*.jsonl"))],
        capture_output=True, env={"LC_ALL": "C"}, check=False,
    )  # fmt: skip
    figures["for comparison, `grep -F` of the same bytes, s"] = time.perf_counter() - began
    with open_run(folder, follow=False, jobs=0) as opened:
        for text in FILTERS:
            began = time.process_time()
            opened.ask("samples", filter=text, limit=1)
            figures[f"filter `{text}`, CPU ms"] = 1e3 * (time.process_time() - began)
    return figures


def _within(word: str, last: int) -> str:
    """Return a word of a command for a run that ends at a step."""
    if word == STEP:
        return str(min(int(STEP), last))
    if word in RANGES and last < int(STEP):
        return f"{last // 2 + 1}..{last}" if word == RANGES[0] else f"0..{last // 2}"
    return word


def _command(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Return the wall-clock and CPU seconds of one command in a new process."""
    command = [sys.executable, "-P", "-m", "rlpanel", *arguments]
    # As after an installation, compiled modules are kept.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    wall = time.perf_counter() - wall
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    run(measure, prepare)
