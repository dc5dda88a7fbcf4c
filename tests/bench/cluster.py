"""Measures the gain of a dask cluster over local processes when a large run is read.

    python -m tests.bench.cluster [--record]

The workers run on this machine, so with as many workers as cores they cannot be faster than as many
processes: the figure shows the cost of the cluster's communication. Each figure is the best of three.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.backlog import fill
from tests.bench.results import record

SIZE = 512 << 20
TRIES = 3


def index(run: Path, *how: str) -> dict[str, Any]:
    """Return the fastest of several readings, as reported by ``rlpanel index``."""
    environment = {**os.environ, "RLPANEL_CACHE": "0"}
    command = [sys.executable, "-m", "rlpanel", "index", str(run), "--json", *how]
    found = [
        json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
        for _ in range(TRIES)
    ]
    return min(found, key=lambda one: float(one["seconds"]))


def rows(run: Path) -> list[str]:
    """Return one line of the table per method."""
    from distributed import LocalCluster

    alone = index(run, "--jobs", "0")
    made = [_row("this process alone", alone, alone)]
    for jobs in (1, 2):
        made.append(_row(f"process pool, {jobs}", index(run, "--jobs", str(jobs)), alone))
    for workers in (1, 2):
        with LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster:
            found = index(run, "--scheduler", cluster.scheduler_address)
        made.append(_row(f"dask workers, {workers}", found, alone))
    return made


def _row(way: str, found: dict[str, Any], alone: dict[str, Any]) -> str:
    assert found["rows"] == alone["rows"]
    rate = found["bytes"] / 1e6 / found["seconds"]
    own = found["peak_memory_bytes"] / 1e6
    gain = alone["seconds"] / found["seconds"]
    return f"| {way} | {found['seconds']:.1f} | {rate:,.0f} | {gain:.2f} | {own:,.0f} |"


def main() -> None:
    """Measure, and record the results if requested."""
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as folder:
        fill(Path(folder) / "run", SIZE, 2)
        lines = rows(Path(folder) / "run")
    head = "| way | s | MB/s | × alone | peak MB of the reader |\n|---|---|---|---|---|\n"
    text = head + "\n".join(lines)
    sys.stdout.write(text + "\n")
    if "--record" in sys.argv:
        told = (
            f"{SIZE >> 20} MB in 2 files of 25 KB lines, a dask scheduler and its workers on the same "
            "machine as the reader.\n\n"
        )
        record("A run read by a dask cluster", "`python -m tests.bench.cluster --record`,", told + text)


if __name__ == "__main__":
    main()
