"""Measures the findings: runs broken in known ways, healthy runs, and the time of the rules.

python -m tests.bench.findings [--against PATH] [--rounds N] [--size SIZE] [--record]
python -m tests.bench.findings --show KIND SEED [FOLDER]

The runs come from `tests.bench.broken_runs`, which knows nothing of the rules. ``--show KIND SEED`` prints
the findings of one run and what is wrong with it; ``--show healthy N`` those of a healthy run. The run is
kept in FOLDER, so that the board can open it. Shares are equal in all rounds, so ``--rounds 1`` is enough.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tests.bench.broken_runs.healthy_runs import healthy_run
from tests.bench.broken_runs.kinds import KINDS, broken_run
from tests.bench.broken_runs.run_files import RunFiles
from tests.bench.finding_scores import (
    Alarm,
    Outcome,
    check_folder,
    false_alarms,
    figures_of_healthy,
    figures_of_kinds,
    score,
)
from tests.bench.finding_times import measure as measure_times
from tests.bench.harness import Figures, Task, run

HEALTHY = "healthy"


@contextmanager
def folder_of(name: str, keep: Path | None = None) -> Iterator[Path]:
    """Provide a folder for a run: below ``keep``, or one that is removed afterwards."""
    with nullcontext(str(keep)) if keep else tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as root:
        yield Path(root) / name


def try_broken(task: tuple[str, int]) -> Outcome:
    """Write a broken run, check it and compare the findings with the truth."""
    kind, seed = task
    table, truth = broken_run(kind, seed)
    with folder_of(f"{kind}-{seed}") as folder:
        RunFiles(table, folder).write()
        return score(seed, truth, table.setup.steps, check_folder(folder))


def try_healthy(number: int) -> list[Alarm]:
    """Write a healthy run, check it and return its alarms and warnings."""
    table, flavour = healthy_run(number)
    with folder_of(f"{HEALTHY}-{number}") as folder:
        RunFiles(table, folder).write()
        settled = flavour != "still being written"
        return false_alarms(number, flavour, check_folder(folder, settled=settled))


def show(kind: str, seed: int, keep: Path | None) -> str:
    """Return the findings of one run, and what is wrong with it."""
    truth: object = None
    if kind == HEALTHY:
        table, truth = healthy_run(seed)
    else:
        table, truth = broken_run(kind, seed)
    lines = [str(table.setup), "", str(truth), ""]
    with folder_of(f"{kind}-{seed}", keep) as folder:
        RunFiles(table, folder).write()
        found = check_folder(folder, settled=truth != "still being written")
    for finding in found:
        for depth, item in [(0, finding), *((1, symptom) for symptom in finding.symptoms)]:
            place = f" rank {item.rank}" * (item.rank is not None) + f" {item.category}" * bool(item.category)
            lines += [
                f"{'   ' * depth}{item.severity} {item.rule}:{item.subject}{place} [{item.onset}–{item.last}"
                f"{', ongoing' * item.ongoing}] {item.sentence}",
                *(f"{'   ' * depth}      {sentence}" for sentence in item.evidence),
            ]
    if kind != HEALTHY:
        lines += ["", str(score(seed, broken_run(kind, seed)[1], table.setup.steps, found))]
    return "\n".join(lines)


def measure(task: Task) -> Figures:
    """Check broken and healthy runs, then measure the rules' time."""
    kinds = list(KINDS)[:3] if task.size == "tiny" else list(KINDS)
    seeds, healthy = task.pick((1, 2), (2, 20), (20, 200))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        tasks = [(kind, seed) for kind in kinds for seed in range(seeds)]
        figures: Figures = figures_of_kinds(list(pool.map(try_broken, tasks)))
        figures |= figures_of_healthy(list(pool.map(try_healthy, range(healthy))))
    figures |= measure_times(task)
    return figures


if __name__ == "__main__":
    if sys.argv[1:2] == ["--show"]:
        kind, seed, *folder = sys.argv[2:]
        print(show(kind, int(seed), Path(folder[0]) if folder else None))
    else:
        run(measure)
