"""A dask cluster indexes ranges; the run is read correctly whatever happens to the workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlpanel.cli import app
from rlpanel.errors import RLPanelError
from rlpanel.settings import Reading
from rlpanel.store.backlog import dask_workers
from rlpanel.store.backlog.dask_workers import DaskWorkers
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line, write_run
from tests.limits import store_limits
from tests.property.test_invariants import assert_same, follow

pytestmark = pytest.mark.slow

PATIENCE = 60.0

#: Many ranges of a small file.
SMALL_RANGES = store_limits(range_bytes=2000)


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    """A scheduler and two worker processes on loopback."""
    import dask
    from distributed import LocalCluster

    with (
        dask.config.set({"distributed.admin.log-format": "%(message)s"}),
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as made,
    ):
        yield made


@pytest.fixture
def news() -> threading.Event:
    return threading.Event()


@pytest.fixture
def workers(dask: Any, news: threading.Event) -> Iterator[DaskWorkers]:
    made = DaskWorkers(dask.scheduler_address, news.set)
    yield made
    made.close()


def run_of(folder: Path, **fields: str) -> Path:
    run = write_run(folder, steps=20, ranks=2, **fields)
    append(run / "rollout_data_rank_0.jsonl", b"bad\n", line(2), b"{half")
    return run


def read_on(index: RunIndex, news: threading.Event) -> bool:
    """Read once; wait for the workers if there is nothing else to do."""
    more = index.read()
    if more and not index.busy:
        assert news.wait(PATIENCE)
        news.clear()
    return more


def test_a_run_read_by_a_cluster_of_which_a_worker_is_killed_is_the_run(
    tmp_path: Path, dask: Any, workers: DaskWorkers, news: threading.Event
) -> None:
    index = RunIndex(run_of(tmp_path), "run", Reading(backlog_bytes=1), workers=workers, limits=SMALL_RANGES)
    index.rescan()
    with dask.get_client() as client:
        pid = next(iter(client.run(os.getpid).values()))
    os.kill(pid, signal.SIGSTOP)  # it never does the work that it gets from now on
    while not index.snapshot.samples:
        read_on(index, news)
    assert index.has_backlog
    os.kill(pid, signal.SIGKILL)
    while read_on(index, news):
        pass
    assert_same(index.snapshot, follow(RunIndex(tmp_path, "run", limits=SMALL_RANGES)))
    assert (workers.jobs, workers.refused) == (2, 0)


def test_ranges_that_no_worker_can_read_are_read_here(
    tmp_path: Path, workers: DaskWorkers, news: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example because the folder is only on this machine, or the workers have another version."""
    monkeypatch.setattr(dask_workers, "reading_fingerprint", lambda: "of tomorrow")
    index = RunIndex(run_of(tmp_path), "run", Reading(backlog_bytes=1), workers=workers, limits=SMALL_RANGES)
    index.rescan()
    while read_on(index, news):
        pass
    assert_same(index.snapshot, follow(RunIndex(tmp_path, "run", limits=SMALL_RANGES)))
    assert workers.refused > 50


def test_index_takes_a_schedulers_address(tmp_path: Path, dask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPANEL_BACKLOG_BYTES", "1")
    taken = []
    monkeypatch.setattr(DaskWorkers, "close", lambda self: taken.append(self.refused) or self._client.close())
    run = run_of(tmp_path, response="x" * 60_000)  # long enough for ranges of the usual size
    done = CliRunner().invoke(app, ["index", str(run), "--json", "--scheduler", dask.scheduler_address])
    assert (json.loads(done.stdout)["rows"], taken) == (20 * 8 * 2 + 1, [0])


def test_where_no_scheduler_answers_it_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_workers, "CONNECT_TIMEOUT", "0.1s")
    with pytest.raises(RLPanelError, match="dask scheduler"):
        DaskWorkers("tcp://127.0.0.1:9")


def test_without_the_package_the_extra_is_named(tmp_path: Path) -> None:
    code = "import sys; sys.modules['distributed'] = None; from rlpanel.cli import main; main()"
    command = [sys.executable, "-c", code, "index", str(write_run(tmp_path)), "--scheduler", "tcp://host:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert 'pip install "dask>=' in done.stderr
