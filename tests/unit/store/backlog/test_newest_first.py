"""The newest step of a large run is read before its backlog, and old lines are published now and then."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line, write_run
from tests.limits import store_limits

LAST_STEP, SAMPLES, RANKS = 400, 8, 2


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two files of some megabytes, the lines of each step in both."""
    return write_run(tmp_path, steps=LAST_STEP, samples=SAMPLES, ranks=RANKS, response="x" * 4000)


def opened(run: Path, **limits: float) -> RunIndex:
    index = RunIndex(
        run, "run", Reading(backlog_bytes=1, cache=False), limits=store_limits(range_bytes=1 << 20, **limits)
    )
    index.rescan()
    return index


def test_the_newest_step_is_complete_in_the_first_snapshot(run: Path) -> None:
    index = opened(run)
    index.read()
    assert index.version == 1
    assert index.snapshot.steps.values[-1] == LAST_STEP
    assert index.snapshot.steps.samples[-1] == SAMPLES * RANKS
    assert index.snapshot.progress.fraction < 0.5


def test_old_lines_wait_for_the_next_snapshot_but_new_ones_do_not(run: Path) -> None:
    index = opened(run, notice_seconds=1e9)
    index.read()
    index.read()
    assert (index.version, index.has_backlog) == (1, True)
    append(run / "rollout_data_rank_0.jsonl", line(LAST_STEP + 1))
    index.read()
    assert (index.version, index.has_backlog) == (2, True)
    assert index.snapshot.steps.values[-1] == LAST_STEP + 1
    while index.read():
        pass
    assert index.version == 3  # with the last range
    assert index.snapshot.samples == LAST_STEP * SAMPLES * RANKS + 1


def test_a_run_that_seemed_read_is_published_when_a_backlog_appears(run: Path) -> None:
    name = "rollout_data_rank_0.jsonl"
    index = opened(run, notice_seconds=1e9)
    index.read()
    content = (run / name).read_bytes()
    for path in run.glob("*.jsonl"):
        path.unlink()
    index.rescan()
    assert not index.read()
    (run / name).write_bytes(content + b"x" * (1 << 20))  # an unfinished line: no new line at the end
    index.rescan()
    while index.read():
        pass
    assert index.snapshot.samples == LAST_STEP * SAMPLES
