"""Measures the export of a run as a dataset by four workers of dask, and queries of dask and duckdb over it.

python -m tests.bench.dataset [--against PATH] [--rounds N] [--size SIZE] [--record]
    ``full`` writes a log of 20 GB, and a dataset of a third of that, into the temporary folder.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import rlpanel
from rlpanel.dataset.dataset_files import write_dataset
from rlpanel.dataset.dataset_parts import parts_of
from tests.bench.generate import Shape, write_log
from tests.bench.harness import Figures, Task, run

WORKERS = 4


def prepare(task: Task) -> None:
    """Write a log of lines of 25 KB."""
    shape = task.pick(
        Shape(steps=4, samples=16, tokens=256),
        Shape(steps=100, samples=128, ranks=4, tokens=256),
        Shape(steps=2000, samples=400, ranks=8, tokens=256),
    )
    write_log(task.data / "run", shape)


def _used() -> tuple[float, int]:
    """Return CPU seconds and peak memory in bytes of this process."""
    times = os.times()
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    return times.user + times.system, peak


def measure(task: Task) -> Figures:
    """Index the run, export it on a cluster, and ask both engines for a mean over all tokens."""
    import dask
    import duckdb
    from dask import dataframe
    from distributed import Client, LocalCluster

    size = sum(file.stat().st_size for file in (task.data / "run").iterdir() if file.is_file()) / 1e6
    out = task.folder / "dataset"
    opened = rlpanel.open_run(task.data / "run", follow=False)
    dask.config.set({"distributed.admin.log-format": "%(message)s"})
    found: Figures = {"log, MB": size}
    with (
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(__import__, "rlpanel.dataset.dataset_files")
        before = client.run(_used)
        began, cpu = time.monotonic(), time.process_time()
        parts = parts_of(opened.index, opened.view)
        written = write_dataset(parts, out, run="run", scheduler=cluster.scheduler_address)
        seconds = time.monotonic() - began
        after = client.run(_used)
        found |= {
            "samples": float(written.samples),
            "tokens": float(written.tokens),
            "parts": float(len(parts)),
            "export, s": seconds,
            "export, MB of log a second": size / seconds,
            "export, CPU s of the client": time.process_time() - cpu,
            "export, CPU s of the workers": sum(after[at][0] - before[at][0] for at in after),
            "export, peak MB of a worker": max(peak for _, peak in after.values()) / 1e6,
            "dataset, MB": written.bytes / 1e6,
        }
        before = client.run(_used)
        began = time.monotonic()
        mean = dataframe.read_parquet(out / "tokens", columns=["step", "kl_k3"]).groupby("step").kl_k3.mean()
        by_dask = mean.compute().sort_index()
        found["kl_k3 by step, dask, s"] = time.monotonic() - began
        after = client.run(_used)
        found["kl_k3 by step, dask, CPU s"] = sum(after[at][0] - before[at][0] for at in after)
    began, cpu = time.monotonic(), time.process_time()
    query = f"select step, avg(kl_k3) as kl from '{out}/tokens/*.parquet' group by step order by step"
    by_duckdb = duckdb.sql(query).df().set_index("step").kl
    found["kl_k3 by step, duckdb, s"] = time.monotonic() - began
    found["kl_k3 by step, duckdb, CPU s"] = time.process_time() - cpu
    worst = float((by_dask.astype(float) - by_duckdb).abs().max())
    if not worst < 1e-9:
        raise SystemExit(f"the engines differ by {worst}")
    shutil.rmtree(out)
    return found


if __name__ == "__main__":
    run(measure, prepare)
