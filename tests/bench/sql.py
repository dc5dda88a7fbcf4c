"""Measures SQL over a run of a million samples, from the text of the query to the data frame.

    python -m tests.bench.sql [--record]

Each figure is the median of several calls. A query has its own database in the process that runs queries;
the CPU time is that of both processes. ``--record`` writes RESULTS.md.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import rlpanel
from tests.bench.generate import write_log
from tests.bench.results import record
from tests.bench.store import MILLION

#: Why the CPU time is what counts.
NOTE = "Other programs use the same cores, so the CPU time is the figure to compare.\n\n"
HEAD = "| 1M samples | wall | CPU | goal |\n|---|---|---|---|\n"
CALLS = 9
#: Title, query and goal.
QUERIES = (
    ("`select 1`: connection alone", "select 1", ""),
    ("mean reward by step", "select step, avg(reward) from samples group by step", "< 100 ms"),
    ("the same in pandas, over the store's arrays", "", ""),
    (
        "NaN to NULL by `nullif` in a view, for comparison",
        "select step, avg(nullif(reward, 'nan'::double)) from samples group by step",
        "",
    ),
    ("mean and p99 of two columns where a third is large", "select avg(reward), quantile_cont(reward, 0.99), "
     "avg(response_chars) from samples where reward > 0.5", ""),
    ("100 samples of one step, all columns", "select * from samples where step = 500 limit 100", ""),
    ("a label", "select \"group\", count(*) as n from samples group by all order by n desc limit 10", ""),
    ("the steps", "select step, reward_mean from steps", ""),
    ("the groups", "select avg(pass_rate) from groups", ""),
)  # fmt: skip


def figures(folder: Path) -> Iterator[str]:
    """Yield a row of the table for each query."""
    write_log(folder, MILLION)
    run = rlpanel.open_run(folder, follow=False)
    view = run.view

    def pandas() -> object:
        frame = view.frame(view.snapshot.alive_rows, ["reward"])
        return frame.groupby("step").reward.mean()

    for title, query, goal in QUERIES:
        call = (lambda query=query: run.sql(query)) if query else pandas
        yield _row(title, call, goal)
    yield _row("`run.arrow()` of five numbers", lambda: run.arrow(list(view.snapshot.numbers[:5])), "")


def _row(title: str, call: Callable[[], object], goal: str) -> str:
    """Return the median seconds of a call; the first is not counted."""
    call()
    taken = []
    for _ in range(CALLS):
        clock, cpu = time.perf_counter(), _processor_time()
        call()
        taken.append((time.perf_counter() - clock, _processor_time() - cpu))
    wall, cpu = (statistics.median(column) * 1e3 for column in zip(*taken, strict=True))
    return f"| {title} | {wall:,.0f} ms | {cpu:,.0f} ms | {goal} |"


def _processor_time() -> float:
    """Return the processor time of this process and of those that it has started, in seconds."""
    total = time.process_time()
    for children in Path("/proc/self/task").glob("*/children"):
        for child in children.read_text().split():
            used = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13]
            total += sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
    return total


def main() -> None:
    """Print the figures, and record them if asked to."""
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for row in figures(Path(folder) / "run"):
            print(row, flush=True)
            rows.append(row)
    if "--record" in sys.argv:
        record("SQL", "`python -m tests.bench.sql --record`", NOTE + HEAD + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
