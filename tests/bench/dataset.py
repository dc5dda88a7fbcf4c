"""Measures the export of a run as a dataset by four workers of dask, and queries of other engines over it.

python -m tests.bench.dataset [--against PATH] [--rounds N] [--size SIZE] [--record]
    ``full`` writes a log of 20 GB, and a dataset of a third of that, into the temporary folder; DATASET_STEPS
    writes another number of steps than 190. polars is measured if it is installed.
"""

from __future__ import annotations

import os
import shutil
import time
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

import rlpanel
from rlpanel.dataset.dataset_files import write_dataset
from rlpanel.dataset.dataset_parts import parts_of
from tests.bench.generate import write_large_log
from tests.bench.harness import Figures, Task, run

WORKERS = 4
#: Steps of the largest log, of 105 MB each.
STEPS = int(os.environ.get("DATASET_STEPS", 190))


def prepare(task: Task) -> None:
    """Write a log of lines of 105 KB: 1,024 tokens with the arrays of PPO."""
    write_large_log(task.data / "run", task.pick(1, 4, STEPS), tokens=1024, critic=True)


def _used() -> tuple[float, int]:
    """Return CPU seconds and peak memory in bytes of this process."""
    times = os.times()
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    return times.user + times.system, peak


def measure(task: Task) -> Figures:
    """Index the run, export it on a cluster, and ask all engines for a mean over all tokens."""
    import dask
    from distributed import Client, LocalCluster

    run_folder, out = task.data / "run", task.folder / "dataset"
    size = sum(file.stat().st_size for file in run_folder.iterdir() if file.is_file()) / 1e6
    began, cpu = time.monotonic(), _used()[0]
    opened = rlpanel.open_run(run_folder, follow=False)
    opened.wait()
    found: Figures = {"log, MB": size, "open, s": time.monotonic() - began, "open, CPU s": _used()[0] - cpu}
    dask.config.set({"distributed.admin.log-format": "%(message)s"})
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
        tenth: list[int] = []

        def note(done: int, total: int, _: object) -> None:
            if done * 10 >= total and not tenth:
                tenth.extend(peak for _, peak in client.run(_used).values())

        written = write_dataset(parts, out, run="run", scheduler=cluster.scheduler_address, progress=note)
        seconds = time.monotonic() - began
        after = client.run(_used)
        busy = sum(after[at][0] - before[at][0] for at in after)
        found |= {
            "samples": float(written.samples),
            "tokens": float(written.tokens),
            "parts": float(len(parts)),
            "export, s": seconds,
            "export, MB of log a second": size / seconds,
            "export, CPU s of the client": time.process_time() - cpu,
            "export, CPU s of the workers": busy,
            "export, MB of log a CPU second of a worker": size / busy,
            "export, peak MB of a worker after a tenth": max(tenth) / 1e6,
            "export, peak MB of a worker": max(peak for _, peak in after.values()) / 1e6,
            "export, peak MB of the client": _used()[1] / 1e6,
            "dataset, MB": written.bytes / 1e6,
        }
        before = client.run(_used)
        began = time.monotonic()
        means = {"dask": _by_dask(out)}
        found["kl_k3 by step, dask, s"] = time.monotonic() - began
        after = client.run(_used)
        found["kl_k3 by step, dask, CPU s"] = sum(after[at][0] - before[at][0] for at in after)
    for name, ask in (("duckdb", _by_duckdb), ("polars", _by_polars)):
        if name == "polars" and not find_spec("polars"):
            continue
        began, cpu = time.monotonic(), time.process_time()
        means[name] = ask(out)
        found[f"kl_k3 by step, {name}, s"] = time.monotonic() - began
        found[f"kl_k3 by step, {name}, CPU s"] = time.process_time() - cpu
    worst = max(float((mean - means["dask"]).abs().max()) for mean in means.values())
    if not worst < 1e-9 or len({len(mean) for mean in means.values()}) > 1:
        raise SystemExit(f"the engines differ by {worst}")
    shutil.rmtree(out)
    return found


def _by_dask(out: Path) -> pd.Series[float]:
    from dask import dataframe

    tokens = dataframe.read_parquet(out / "tokens", columns=["step", "kl_k3"])
    return tokens.groupby("step").kl_k3.mean().compute().sort_index().astype(float)


def _by_duckdb(out: Path) -> pd.Series[float]:
    import duckdb

    query = f"select step, avg(kl_k3) as kl from '{out}/tokens/*.parquet' group by step order by step"
    return duckdb.execute(query).df().set_index("step").kl


def _by_polars(out: Path) -> pd.Series[float]:
    import polars

    tokens = polars.scan_parquet(out / "tokens" / "*.parquet")
    mean = tokens.group_by("step").agg(polars.col("kl_k3").mean()).sort("step").collect(engine="streaming")
    return pd.Series(mean["kl_k3"].to_list(), mean["step"].to_list())


if __name__ == "__main__":
    run(measure, prepare)
