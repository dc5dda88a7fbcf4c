"""Measures the findings: runs broken in known ways, healthy runs, and the time of the rules.

``python -m tests.bench.findings [--seeds 20] [--healthy 200] [--kinds a,b] [--jobs 2] [--record]``

The runs come from `tests.bench.broken_runs`, which knows nothing of the rules. ``--show KIND SEED`` prints
the findings of one run and what is wrong with it; ``--show healthy N`` those of a healthy run. ``--keep
DIR`` keeps the folders of the runs, so that the board can open them. ``--record`` writes RESULTS.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

from tests.bench.broken_runs.healthy_runs import healthy_run
from tests.bench.broken_runs.kinds import KINDS, broken_run
from tests.bench.broken_runs.run_files import RunFiles
from tests.bench.finding_scores import (
    Alarm,
    Outcome,
    check_folder,
    false_alarms,
    healthy_table,
    kinds_table,
    score,
)
from tests.bench.finding_times import times_table
from tests.bench.results import record

HEALTHY = "healthy"


@contextmanager
def folder_of(name: str, keep: Path | None) -> Iterator[Path]:
    """Provide a folder for a run: below ``keep``, or one that is removed afterwards."""
    with nullcontext(str(keep)) if keep else tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as root:
        yield Path(root) / name


def try_broken(task: tuple[str, int], keep: Path | None) -> Outcome:
    """Write a broken run, check it and compare the findings with the truth."""
    kind, seed = task
    table, truth = broken_run(kind, seed)
    with folder_of(f"{kind}-{seed}", keep) as folder:
        RunFiles(table, folder).write()
        return score(seed, truth, table.setup.steps, check_folder(folder))


def try_healthy(number: int, keep: Path | None) -> list[Alarm]:
    """Write a healthy run, check it and return its alarms and warnings."""
    table, flavour = healthy_run(number)
    with folder_of(f"{HEALTHY}-{number}", keep) as folder:
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20, help="runs of each kind")
    parser.add_argument("--healthy", type=int, default=200, help="number of healthy runs")
    parser.add_argument("--kinds", default="", help="only these kinds, separated by commas")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--no-times", action="store_true", help="do not measure times")
    parser.add_argument("--show", nargs=2, metavar=("KIND", "SEED"), help="print the findings of one run")
    parser.add_argument("--keep", type=Path, help="folder in which the runs are kept")
    parser.add_argument("--record", action="store_true", help="write the figures into RESULTS.md")
    given = parser.parse_args()
    if given.show:
        sys.stdout.write(show(given.show[0], int(given.show[1]), given.keep) + "\n")
        return
    kinds = given.kinds.split(",") if given.kinds else list(KINDS)
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        parser.error(f"no kind {', '.join(unknown)}; kinds are {', '.join(KINDS)}")
    parts = []
    with ProcessPoolExecutor(given.jobs) as pool:
        tasks = [(kind, seed) for kind in kinds for seed in range(given.seeds)]
        if tasks:
            outcomes = list(pool.map(partial(try_broken, keep=given.keep), tasks, chunksize=4))
            parts.append(kinds_table(outcomes))
        if given.healthy:
            runs = pool.map(partial(try_healthy, keep=given.keep), range(given.healthy), chunksize=4)
            parts.append(healthy_table(list(runs)))
    if not given.no_times:
        parts.append(times_table())
    text = "\n\n".join(parts)
    sys.stdout.write(f"{text}\n")
    if given.record:
        command = f"`python -m tests.bench.findings --seeds {given.seeds} --healthy {given.healthy}`."
        record("Findings", command, text)


if __name__ == "__main__":
    main()
