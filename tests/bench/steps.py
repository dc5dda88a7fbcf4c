"""Measures the cost of step metrics: all steps of a run from a snapshot, and one new step.

    python -m tests.bench.steps

Figures are medians of CPU times. The run has every field that a step metric needs.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rlpanel.metrics.engine.column_info import step_names
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.step_metric_cache import StepMetricCache

STEPS, SAMPLES, TOKENS, RANKS = 200, 128, 32, 8


def lines(step: int) -> Iterator[tuple[int, bytes]]:
    """Return the samples of a step with their rank."""
    draw = np.random.default_rng(step)
    for at in range(SAMPLES):
        tokens = int(draw.integers(TOKENS // 2, TOKENS + 1))
        streams = -draw.exponential(1.0, (4, tokens)).round(4)
        critic = draw.normal(0.0, 0.3, (2, tokens)).round(4)
        row = {
            "step": step,
            "prompt": f"prompt {step}-{at // 8}",
            "response": f"response {draw.integers(100)}",
            "group": f"{at // 8}",
            "reward": float(draw.choice([0.0, 0.5, 1.0])),
            "ref_reward": float(draw.choice([0.0, 1.0])),
            "advantage": round(float(draw.normal()), 4),
            "truncated": bool(draw.random() < 0.1),
            "micro_batch": at // 32,
            **{
                name: streams[i].tolist()
                for i, name in enumerate(("logprobs", "ref_logprobs", "old_logprobs", "rollout_logprobs"))
            },
            "entropy": (-streams[0]).tolist(),
            "values": critic[0].tolist(),
            "token_rewards": critic[1].tolist(),
        }
        yield at % RANKS, json.dumps(row).encode() + b"\n"


def write(run: Path, steps: range) -> None:
    """Append steps, distributed over the ranks."""
    for step in steps:
        for rank, line in lines(step):
            with (run / f"rollout_data_rank_{rank}.jsonl").open("ab") as file:
                file.write(line)


def caught_up(index: RunIndex) -> RunView:
    """Read everything and return the view of it."""
    index.rescan()
    while index.read():
        pass
    return index.view


def cpu(action: object, repeat: int = 7) -> float:
    """Return the median of CPU milliseconds."""
    taken = []
    for _ in range(repeat):
        started = time.process_time()
        action()  # type: ignore[operator]
        taken.append((time.process_time() - started) * 1e3)
    return statistics.median(taken)


def main() -> None:
    """Print the table for ``RESULTS.md``."""
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as folder:
        run = Path(folder)
        write(run, range(1, STEPS + 1))
        index = RunIndex(run, "run")
        view = caught_up(index)
        names = [name for name in step_names() if name in view.step_metrics]
        whole = cpu(lambda: StepMetricCache().get(view.snapshot, names, view.grouped))
        new = []
        for step in range(STEPS + 1, STEPS + 8):
            write(run, range(step, step + 1))
            grown = caught_up(index)
            started = time.process_time()
            found = grown.step_metrics_of(names)
            new.append((time.process_time() - started) * 1e3)
            assert len(found[names[0]]) == step
        rows = [
            ("all from a snapshot", whole, "< 300 ms"),
            ("one new step", statistics.median(new), "< 20 ms"),
            ("again, nothing new", cpu(lambda: grown.step_metrics_of(names)), ""),
            ("one sample column compared in its group", cpu(lambda: grown.number("grpo_advantage")), ""),
        ]
        sys.stdout.write(f"| {len(names)} step metrics, {STEPS} steps × {SAMPLES} samples | CPU | goal |\n")
        sys.stdout.write("|---|---|---|\n")
        for title, figure, goal in rows:
            sys.stdout.write(f"| {title} | {figure:.1f} ms | {goal} |\n")
        left = sorted(set(step_names()) - set(names))
        sys.stdout.write(f"\nWithout a value in it: {', '.join(left) or 'none'}.\n")


if __name__ == "__main__":
    main()
