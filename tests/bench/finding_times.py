"""Measures the CPU time of all rules, and of the rules after one new step.

python -m tests.bench.finding_times [--against PATH] [--rounds N] [--size SIZE] [--record]
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from rlpanel.findings.check import check
from rlpanel.settings import FindingSettings
from rlpanel.store.snapshot.run_view import RunView
from tests.bench.broken_runs.advantages import add_advantages
from tests.bench.broken_runs.realistic_run import draw_rewards, draw_samples, draw_tokens
from tests.bench.broken_runs.run_files import RunFiles
from tests.bench.broken_runs.run_setup import draw_setup
from tests.bench.broken_runs.sample_table import SampleTable
from tests.bench.finding_scores import open_folder
from tests.bench.harness import Figures, Task, run

STEPS, SAMPLES, REPEATS = 200, 128, 25
#: Runs whose rules are timed: algorithm, steps, samples of a step.
TIMED = (("grpo", 200, 128), ("ppo", 200, 128), ("grpo", 2000, 32))


def rich_run(algorithm: str, steps: int = STEPS, samples: int = SAMPLES) -> SampleTable:
    """Return a run in which every field is logged."""
    draw = np.random.default_rng(0)
    setup = draw_setup(
        draw,
        algorithm=algorithm,
        steps=steps,
        samples=samples,
        ranks=4,
        group_size=8,
        reward="parts",
        text="words",
        languages=("en", "zh", "ru"),
        labels=("lang", "data_source", "difficulty"),
        engine=0.02,
        step_size=0.02,
        **dict.fromkeys(("ref", "tokens", "entropy", "finish", "valid", "run_json"), True),
    )
    table = draw_samples(setup, draw)
    draw_tokens(table)
    draw_rewards(table)
    add_advantages(table)
    return table


def check_times(algorithm: str, steps: int = STEPS, samples: int = SAMPLES) -> tuple[float, float]:
    """Return the median CPU milliseconds of a check of all steps, and of one after a new step."""
    thresholds, whole, new = FindingSettings(), [], []
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as root:
        files = RunFiles(rich_run(algorithm, steps, samples), Path(root) / "run")
        first = steps - REPEATS
        files.write(0, first)
        index = open_folder(files.folder)
        previous = check(index.view, thresholds, index.view.snapshot.newest_line + 1.5, index=index)
        for at in range(first, steps):
            files.write(at, at + 1)
            index.rescan()
            while index.read():
                pass
            view = index.view
            began = time.process_time()
            previous = check(view, thresholds, view.snapshot.newest_line + 1.5, previous, index)
            new.append(time.process_time() - began)
        for _ in range(REPEATS if steps == STEPS else 3):
            view = RunView(index.view.snapshot)  # nothing is cached
            began = time.process_time()
            check(view, thresholds, view.snapshot.newest_line + 1.5, index=index)
            whole.append(time.process_time() - began)
    return statistics.median(whole) * 1e3, statistics.median(new) * 1e3


def measure(task: Task) -> Figures:
    """Measure the rules' time on runs of both algorithms, and on a long one."""
    figures: Figures = {}
    for algorithm, steps, samples in task.pick((), TIMED[:1], TIMED):
        whole, new = check_times(algorithm, steps, samples)
        figures |= {
            f"rules, all of {steps:,} steps, {algorithm}, CPU ms": whole,
            f"one new step of {steps:,}, {algorithm}, CPU ms": new,
        }
    return figures


if __name__ == "__main__":
    run(measure)
