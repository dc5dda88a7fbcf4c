"""Measures what recording adds to a training process, in CPU seconds.

TRAIN_VENV=.venv-train python -m tests.bench.recording [--against PATH] [--rounds N] [--size SIZE] [--record]

Pairs of TRL runs on a tiny model, with and without recording, in turn. A real model makes steps slower, and
recording costs the same per sample, so the ratio here is an upper bound.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from tests.bench.harness import Figures, Task, run
from tests.train.conftest import train

STEPS, SAMPLES = 20, 8


def measure(task: Task) -> Figures:
    """Train in pairs, and compare each with its other."""
    figures: Figures = {}
    for tokens in task.pick((12,), (12, 120), (12, 120)):
        pairs = [
            (
                _cpu(task.folder / f"{tokens}-{pair}", tokens, False),
                _cpu(task.folder / f"{tokens}-{pair}r", tokens, True),
            )
            for pair in range(task.pick(1, 3, 5))
        ]
        alone = statistics.median(before for before, _ in pairs)
        added = statistics.median(after - before for before, after in pairs)
        figures |= {
            f"{tokens} tokens, a step without recording, CPU ms": 1e3 * alone,
            f"{tokens} tokens, with / without recording": statistics.median(b / a for a, b in pairs),
            f"{tokens} tokens, recording a sample, CPU ms": 1e3 * added / SAMPLES,
        }
    return figures


def _cpu(folder: Path, tokens: int, recorded: bool) -> float:
    """Return the CPU seconds per step of one run."""
    run = train("grpo", folder, record=recorded, max_steps=STEPS, max_completion_length=tokens)
    return float(run["cpu_seconds"])


if __name__ == "__main__":
    run(measure)
