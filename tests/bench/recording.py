"""Measures what recording adds to a training process, in CPU seconds.

    TRAIN_VENV=.venv-train python -m tests.bench.recording

Pairs of TRL runs on a tiny model, with and without recording, in turn. A real model makes steps slower, and
recording costs the same per sample, so the ratio here is an upper bound.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from tests.bench.results import record
from tests.train.conftest import train

PAIRS, STEPS, SAMPLES = 5, 20, 8
LENGTHS = (12, 120)


def cpu_seconds(tokens: int, *, recorded: bool) -> float:
    """Return the CPU seconds per step of one run."""
    with tempfile.TemporaryDirectory() as folder:
        run = train("grpo", Path(folder), record=recorded, max_steps=STEPS, max_completion_length=tokens)
    return float(run["cpu_seconds"])


def main() -> None:
    """Measure all lengths and record the table."""
    rows = [
        "| tokens | CPU ms per step, alone | recorded | ratio, median of pairs | added per sample |",
        "|---|---|---|---|---|",
    ]
    for tokens in LENGTHS:
        pairs = [
            (cpu_seconds(tokens, recorded=False), cpu_seconds(tokens, recorded=True)) for _ in range(PAIRS)
        ]
        alone, recorded = (statistics.median(side) * 1e3 for side in zip(*pairs, strict=True))
        ratio = statistics.median(after / before for before, after in pairs)
        added = statistics.median(after - before for before, after in pairs) * 1e3 / SAMPLES
        rows.append(f"| {tokens} | {alone:.1f} | {recorded:.1f} | {ratio:.3f} | {added:.2f} ms |")
    text = f"{STEPS} steps of {SAMPLES} samples, {PAIRS} pairs.\n\n" + "\n".join(rows)
    record("Recording a TRL run", "`python -m tests.bench.recording`", text)
    print(text)


if __name__ == "__main__":
    main()
