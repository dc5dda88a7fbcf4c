"""`/health` of a reader that does not work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest

from rlpanel.app.server.health_endpoint import Observed, health, registry_of
from rlpanel.runtime import Runtime
from rlpanel.settings import Limits
from tests.factories import append, write_run
from tests.fragile_adapter import FRAGILE, Fragile
from tests.waiting import wait_until


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime() as made:
        yield made


def test_a_reader_that_works_is_well(tmp_path: Path, runtime: Runtime) -> None:
    observed = Observed(runtime)
    index = runtime.reader.open(write_run(tmp_path / "run", steps=1, ranks=1, samples=1))
    try:
        wait_until(lambda: index.snapshot.samples == 1)
        assert health(observed).well
    finally:
        runtime.reader.close(index)


def test_a_reader_that_is_late_is_not_well(tmp_path: Path) -> None:
    with Runtime(limits=Limits(stuck_seconds=-1.0)) as runtime:
        index = runtime.reader.open(write_run(tmp_path / "run", steps=1, ranks=1, samples=1))
        wait_until(lambda: index.snapshot.samples == 1)
        state = health(Observed(runtime))
        assert not state.well
        assert "the reader has not finished a round" in state.failure


def test_counters_never_go_back(tmp_path: Path, runtime: Runtime) -> None:
    run, begun = write_run(tmp_path / "run", steps=2, ranks=1, samples=4), runtime.reader.lines
    index = runtime.reader.open(run)
    try:
        wait_until(lambda: runtime.reader.lines == begun + 8)  # lines are counted after they are published
        next(run.glob("*.jsonl")).write_bytes(b"")
        wait_until(lambda: index.snapshot.samples == 0)
        assert runtime.reader.lines == begun + 8
    finally:
        runtime.reader.close(index)


def test_a_run_that_cannot_be_read_is_named_and_all_is_well(
    tmp_path: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed = Observed(runtime)
    fragile = Fragile.register(monkeypatch)
    fragile.fails_at = "read"
    append(tmp_path / "x.jsonl", FRAGILE % 1)
    index = runtime.reader.open(tmp_path, "bad")
    try:
        wait_until(lambda: health(observed).runs_failing == 1)
        assert (health(observed).well, health(observed).failure) == (True, "")
        assert health(observed).failing == {"bad": "not enough memory"}
        assert b"rlpanel_runs_failing 1.0" in generate_latest(registry_of(observed))
    finally:
        runtime.reader.close(index)
    wait_until(lambda: health(observed).runs_failing == 0)
