"""Measures explanations: a step's change, a contrast of 100,000 samples, and clusters of responses.

``python -m tests.bench.explain [--record]``; ``--record`` writes RESULTS.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from rlpanel.analysis.contrast_side import ContrastSide
from rlpanel.analysis.response_clusters import response_clusters
from rlpanel.analysis.selection_contrast import Contrast, contrast
from rlpanel.analysis.step_change import explain_step
from rlpanel.analysis.token_change import explain_tokens
from rlpanel.store.index.run_index import RunIndex
from tests.bench.generate import Shape, write_log
from tests.bench.results import record

STEPS, SAMPLES, GROUP = 200, 500, 10
WORDS = [f"word{number}" for number in range(20_000)]
HEAD = "| | figure | goal |\n|---|---|---|"


def write_texts(folder: Path, length: int) -> Path:
    """Write 100,000 samples of ``length`` words; in the second half 3 % of them begin with a refusal."""
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    weights = 1 / np.arange(2, len(WORDS) + 2)
    words = np.array(WORDS, object)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for step in range(1, STEPS + 1):
            codes = draw.choice(len(WORDS), size=(SAMPLES, length), p=weights / weights.sum())
            scores = draw.normal(step > STEPS // 2, 2.0, size=(SAMPLES, 20)).round(4)
            for index in range(SAMPLES):
                refusal = "I am sorry but " if step > STEPS // 2 and draw.random() < 0.03 else ""
                made = {
                    "step": step,
                    "prompt": f"prompt {step} {index // GROUP}",
                    "group": f"{step}-{index // GROUP}",
                    "response": refusal + " ".join(words[codes[index]]),
                    "reward": float(scores[index, 0]),
                    "lang": ("en", "zh", "de", "fr")[index // GROUP % 4],
                    "rewards": {
                        f"part_{number}": score for number, score in enumerate(scores[index].tolist())
                    },
                }
                file.write(json.dumps(made) + "\n")
    return folder


def read(folder: Path) -> RunIndex:
    """Return the run's index after reading everything."""
    index = RunIndex(folder, "run")
    index.rescan()
    while index.read():
        pass
    return index


def seconds(work: Callable[[], object], times: int = 3) -> tuple[float, float]:
    """Return the smallest CPU and wall-clock seconds of several calls."""
    taken = []
    for _ in range(times):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        taken.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(first for first, _ in taken), min(second for _, second in taken)


def last(results: Iterator[Contrast]) -> Contrast:
    """Return the last result."""
    *_, found = results
    return found


def contrasts(folder: Path, length: int = 100) -> Iterator[str]:
    """The halves of 100,000 samples."""
    index = read(write_texts(folder, length))
    view, step = index.view, index.snapshot.metadata("step")
    late, early = (
        ContrastSide(name, index, view, np.flatnonzero(mask))
        for name, mask in (("late", step > STEPS // 2), ("early", step <= STEPS // 2))
    )
    cpu, wall = seconds(lambda: last(contrast(late, early)))
    found = last(contrast(late, early))
    tried = found.columns_tried + found.features_tried
    names = sum(difference.kind in ("word", "words", "opening") for difference in found.differences)
    yield (
        f"contrast of 100,000 samples, {found.texts_total:,} texts of {length} words, {tried:,} things "
        f"tried, {names} texts named | {cpu:.2f} CPU s, {wall:.2f} s | < 5 s"
    )
    if length > 100:
        return
    cpu, wall = seconds(lambda: last(contrast(late, early, texts=0)))
    yield f"the same without texts | {cpu:.2f} CPU s, {wall:.2f} s | "
    cpu, wall = seconds(lambda: list(response_clusters(index, index.snapshot, 1, STEPS)), 1)
    yield f"clusters of 20,000 of 100,000 different responses | {cpu:.2f} CPU s, {wall:.2f} s | "


def long_texts(folder: Path) -> Iterator[str]:
    """The same with longer responses."""
    yield from contrasts(folder, 400)


def steps(folder: Path) -> Iterator[str]:
    """One step of a run of 200 steps of 128 samples."""
    write_log(folder, Shape(steps=200, samples=128, ranks=8, tokens=64))
    index = read(folder)
    view, snapshot = index.view, index.snapshot
    assert view.grouped in (True, False)  # computed once per snapshot
    for column in ("kl_k3_mean", "kl_k3_pooled"):
        cpu, _ = seconds(lambda column=column: explain_step(view, column, 150), 20)
        yield f"explain {column} of a step of 128 samples | {cpu * 1e3:.2f} ms CPU | < 10 ms"
    cpu, _ = seconds(lambda: list(explain_tokens(index, snapshot, "kl_k3_mean", 150)), 5)
    yield f"the same by tokens, which are read | {cpu * 1e3:.0f} ms CPU | "


def main() -> None:
    """Run the benchmarks."""
    rows = []
    for bench in (steps, contrasts, long_texts):
        with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as folder:
            for row in bench(Path(folder) / "run"):
                sys.stdout.write(f"{row}\n")
                sys.stdout.flush()
                rows.append(f"| {row} |")
    if "--record" in sys.argv:
        record("Explanations", "`python -m tests.bench.explain`.", "\n".join([HEAD, *rows]))


if __name__ == "__main__":
    main()
