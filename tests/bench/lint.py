"""Times ``rlpanel lint`` on samples of 1,000 tokens, and the page's share of the reading of a live run.

python -m tests.bench.lint [--against PATH] [--rounds N] [--size SIZE] [--record]

The full size is 100,000 samples with tokens, ids, mask, and logprobs of trainer and engine, in 5 GB.
"""

from __future__ import annotations

import json
import resource
import shutil
import time
from pathlib import Path

import numpy as np

from rlpanel import open_run
from rlpanel.drift.gap_causes import verdict
from rlpanel.drift.gap_levels import gap_levels
from rlpanel.drift.gap_tokens import MAX_SAMPLES, GapTokens, chosen_rows, read_gap_tokens
from rlpanel.lint.linter import Linter
from rlpanel.panels.lint.lint_page import PER_STEP as PER_PAGE
from rlpanel.panels.lint.lint_page import SPREAD
from tests.bench.harness import Figures, Task, run

#: Tokens of a sample, and samples of a step.
TOKENS, PER_STEP = 1000, 512
#: Samples of a step of the runs that grow while the page is open.
LIVE = (512, 64, 16)
#: Samples when the page *Drift* is opened, and the factor of growth after which it reads again.
EARLY, GROWN = 16, 4
#: Processes of ``rlpanel lint`` by default.
JOBS = 2


def write_tokens(folder: Path, samples: int, per_step: int = PER_STEP) -> None:
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
                "step": number // per_step,
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
    """Write the runs."""
    write_tokens(task.data / "run", task.pick(1024, 10_240, 100_000))
    for per_step in LIVE:
        write_tokens(task.data / f"live_{per_step}", task.pick(8192, 8192, 16_384), per_step)


def measure(task: Task) -> Figures:
    """Index the run and lint all of it; then lint runs that grow as the page does."""
    began = cpu_seconds()
    with open_run(task.linked("run"), follow=False, jobs=0) as opened:
        figures = {"index in one process, CPU s": cpu_seconds() - began}
        wall, cpu = time.perf_counter(), cpu_seconds()
        *_, last = Linter(opened.index, jobs=JOBS).update(opened.view, 1e11)
        figures["lint, s"] = time.perf_counter() - wall
        figures["lint, CPU s"] = cpu_seconds() - cpu
        assert not last.failed
        figures["samples"] = float(last.samples)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures["peak of a process of lint, MB"] = usage.ru_maxrss / 1024
    for per_step in LIVE:
        figures |= grown(task.data / f"live_{per_step}", task.folder / f"grows_{per_step}", per_step)
    return figures | drifted(task.data / f"live_{LIVE[-1]}", task.folder / "drifts")


def grown(source: Path, folder: Path, per_step: int) -> Figures:
    """Let a run grow by `SPREAD` samples at a time, and lint it as its page does.

    The first half of the run is there when the page is opened.
    """
    lines = (source / "rollout_data_rank_0.jsonl").read_bytes().splitlines(keepends=True)
    half = len(lines) // 2
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file = folder / "rollout_data_rank_0.jsonl"
    file.write_bytes(b"".join(lines[:half]))
    reading = linting = 0.0
    with open_run(folder, follow=False, jobs=0) as opened:
        linter = Linter(opened.index, most=PER_PAGE, spread=SPREAD)
        began = cpu_seconds()
        *_, last = linter.update(opened.view, 1e11)
        first = cpu_seconds() - began
        for start in range(half, len(lines), SPREAD):
            part = lines[start : start + SPREAD]
            with file.open("ab") as growing:
                growing.writelines(part)
            began = cpu_seconds()
            while opened.snapshot.samples < start + len(part):
                opened.index.read()
            reading += cpu_seconds() - began
            began = cpu_seconds()
            *_, last = linter.update(opened.view, 1e11)
            linting += cpu_seconds() - began
        assert last.samples == len(lines)
        assert not last.failed
    name = f"page, steps of {per_step} samples"
    return {
        f"{name}: opened, CPU s": first,
        f"{name}: samples read": float(last.read),
        f"{name}: live, % of reading": 100 * linting / reading,
    }


def drifted(source: Path, folder: Path) -> Figures:
    """Read a run that grows as the page *Drift* does, until it reads again on demand only."""
    lines = (source / "rollout_data_rank_0.jsonl").read_bytes().splitlines(keepends=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file, count = folder / "rollout_data_rank_0.jsonl", EARLY
    spent: list[float] = []
    while True:
        file.write_bytes(b"".join(lines[:count]))
        with open_run(folder, follow=False, jobs=0) as opened:
            began = cpu_seconds()
            *_, tokens = read_gap_tokens(opened.index, opened.snapshot, chosen_rows(opened.snapshot))
            assert isinstance(tokens, GapTokens)
            verdict(tokens)
            gap_levels(tokens)
            spent.append(cpu_seconds() - began)
        if count >= MAX_SAMPLES:
            break
        count *= GROWN
    return {"Drift, last reading, CPU s": spent[-1], "Drift, all readings of a new run, CPU s": sum(spent)}


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those that it began and that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    run(measure, prepare)
