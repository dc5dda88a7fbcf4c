"""Times ``rlpanel lint`` on samples of 1,000 tokens, and the page's share of the reading of a live run.

python -m tests.bench.lint [--against PATH] [--rounds N] [--size SIZE] [--record]

The full size is 100,000 samples with tokens, ids, mask, and logprobs of trainer and engine, in 5 GB.
"""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path

import numpy as np

from rlpanel import open_run
from rlpanel.lint.linter import Linter
from tests.bench.harness import Figures, Task, run

#: Tokens of a sample, and samples of a step.
TOKENS, PER_STEP = 1000, 512
#: Samples of a step that the page reads.
SHOWN = 8
#: Processes of ``rlpanel lint`` by default.
JOBS = 2


def write_tokens(folder: Path, samples: int) -> None:
    """Write groups of eight samples whose numbers follow GRPO."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, words = np.random.default_rng(0), np.array([f" tok{number}" for number in range(5000)])
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for number in range(samples):
            ids = rng.integers(0, len(words), TOKENS)
            tokens, reward = words[ids].tolist(), float(number % 2)
            logprobs = -rng.exponential(0.5, TOKENS)
            engine = np.minimum(logprobs + rng.normal(0, 0.01, TOKENS), 0.0)
            line = {
                "step": number // PER_STEP,
                "prompt": f"question {number // 8}",
                "response": "".join(tokens),
                "response_tokens": tokens,
                "response_token_ids": ids.tolist(),
                "logprobs": logprobs.round(6).tolist(),
                "rollout_logprobs": engine.round(6).tolist(),
                "loss_mask": [1] * TOKENS,
                "reward": reward,
                "group": str(number // 8),
                "advantage": (reward - 0.5) / 0.5345,
            }
            file.write(json.dumps(line) + "\n")


def prepare(task: Task) -> None:
    """Write the run."""
    write_tokens(task.data / "run", task.pick(1024, 10_240, 100_000))


def measure(task: Task) -> Figures:
    """Index the run, then lint all of it, and as the page does."""
    os.environ["RLPANEL_CACHE"] = str(task.folder / "cache")
    began = cpu_seconds()
    with open_run(task.data / "run", follow=False, jobs=0) as opened:
        figures = {"index in one process, CPU s": cpu_seconds() - began}
        for name, most, jobs in (
            ("lint", None, JOBS),
            (f"lint of {SHOWN} samples a step, as on the page", SHOWN, 0),
        ):
            wall, cpu = time.perf_counter(), cpu_seconds()
            *_, last = Linter(opened.index, most=most, jobs=jobs).update(opened.view, 1e11)
            figures[f"{name}, s"] = time.perf_counter() - wall
            figures[f"{name}, CPU s"] = cpu_seconds() - cpu
            assert not last.failed
        figures["samples"] = float(last.samples)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures["peak of a process of lint, MB"] = usage.ru_maxrss / 1024
    return figures


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those that it began and that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    run(measure, prepare)
