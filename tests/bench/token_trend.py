"""Times ``rlpanel token-trend`` and ``changed-tokens`` on samples of 1,000 tokens.

python -m tests.bench.token_trend [--against PATH] [--rounds N] [--size SIZE] [--record]

The full size is 52,000 samples with tokens, ids, mask, and logprobs of trainer and engine, in 2.6 GB.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rlpanel import open_run
from tests.bench.harness import Figures, Task, run
from tests.bench.lint import cpu_seconds, write_tokens


def prepare(task: Task) -> None:
    """Write the run."""
    write_tokens(task.data / "run", task.pick(1024, 5_200, 52_000))


def measure(task: Task) -> Figures:
    """Index the run, then count tokens with and without their arrays."""
    size = sum(path.stat().st_size for path in Path(task.data / "run").glob("*.jsonl")) / 1e6
    figures: dict[str, float] = {"size, MB": size}
    with open_run(task.linked("run"), follow=False) as opened:
        steps = opened.snapshot.steps.values
        ranges: dict[str, Any] = {
            "steps": (int(steps[-1]), int(steps[-1])),
            "since": (int(steps[0]), int(steps[0])),
        }
        if len(steps) > 2:
            ranges = {}
        asked: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
            "frequencies": ("token_trend", (["tok7", "/12$/"],), {"counts": True}),
            "frequencies, probability and KL": ("token_trend", (["tok7", "/12$/"],), {}),
            "changed tokens of two thirds": ("changed_tokens", (), ranges),
        }
        for name, (question, arguments, options) in asked.items():
            began, cpu = time.perf_counter(), cpu_seconds()
            found = opened.ask(question, *arguments, **options)
            seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
            assert found.total
            figures[f"{name}, s"] = seconds
            figures[f"{name}, CPU s"] = cpu
            figures[f"{name}, MB per CPU s"] = size * (2 / 3 if "thirds" in name else 1) / cpu
    return figures


if __name__ == "__main__":
    run(measure, prepare)
