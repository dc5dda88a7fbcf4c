"""Measures the table of runs: 500 runs found, read and drawn, sorted, filtered, grouped, and as axes.

python -m tests.bench.runs_table [--against PATH] [--rounds N] [--size SIZE] [--record]

CPU seconds of the server, without the browser. `opened` is what a viewer waits for: the folders are listed,
and the table is made of what the checks found. The last lines of runs that were not checked yet are read in
the background, of at most 200 runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from rlpanel.board_url import RUNS_PAGE
from rlpanel.panels.runs.runs_table import RunsTable
from rlpanel.panels.session.context import Context
from rlpanel.sources.discovery.directory import Directory
from rlpanel.store.index.run_folder import Setting
from rlpanel.store.index.run_summary import RunSummary
from rlpanel.store.index.summary_store import SummaryStore
from tests.bench.harness import Figures, Task, run
from tests.many_runs import write_many

#: What the table sends to the browser.
_SENT = ("rows", "changes", "lines", "facts", "coordinates")


def seconds_of(action: Callable[[], Any]) -> float:
    """Return the CPU seconds of an action."""
    began = time.process_time()
    action()
    return time.process_time() - began


def prepare(task: Task) -> None:
    """Write the runs."""
    write_many(task.data / "runs", task.pick(20, 500, 500), steps=10)


def measure(task: Task) -> Figures:
    """Open the table of all runs, and use it."""
    directory, context = Directory(task.data / "runs"), Context()
    figures: Figures = {}
    found: list[Any] = []
    figures["listed, CPU s"] = seconds_of(lambda: found.extend(directory.runs()))
    runs, summaries = found, context.summaries

    def read_lines() -> None:
        for _ in SummaryStore().read_last_lines(runs):
            pass

    figures["last lines, CPU s"] = seconds_of(read_lines)
    for at, info in enumerate(runs):  # as a check leaves them
        rewards = (0.1, 0.2, 0.2 + 0.5 * at / len(runs))
        config: dict[str, Setting] = {
            "learning_rate": (1e-6, 2e-6, 3e-6)[at % 3],
            "seed": at % 7,
            "beta": 0.04,
        }
        severity, sentence = ("alarm", "The reward fell from 0.7 to 0.2.") if at % 2 else ("", "")
        known = RunSummary(
            samples=80, bytes=info.bytes, step=10, first=1, reward=rewards[-1], trend=rewards,
            config=config, severity=severity, finding=sentence, alarms=at % 2,
        )  # fmt: skip
        summaries.note_check(info.path, known, is_open=False)
    table = RunsTable(context)
    context.runs = runs

    def choose(**values: Any) -> Callable[[], Any]:
        return lambda: context.selection.param.update(**values)

    figures["drawn, CPU s"] = seconds_of(choose(page=RUNS_PAGE))
    figures["opened, CPU s"] = figures["listed, CPU s"] + figures["drawn, CPU s"]
    figures["sent, kB"] = len(json.dumps([getattr(table, name) for name in _SENT])) / 1e3
    chosen: dict[str, dict[str, Any]] = {
        "sorted": {"runs_sort": "-reward"},
        "filtered": {"runs_filter": "lr > 1e-6 and reward < 0.9"},
        "grouped": {"runs_filter": "", "runs_group": "lr"},
        "with axes": {"runs_group": "", "runs_axes": True},
    }
    for name, values in chosen.items():
        figures[f"{name}, CPU s"] = seconds_of(choose(**values))
    figures["runs"] = table.facts["total"]
    figures["checked"] = table.facts["checked"]
    return figures


if __name__ == "__main__":
    run(measure, prepare)
