"""`/health` of a reader that does not work."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest

from rlpanel.api.open_run import reader
from rlpanel.app.server import health_endpoint
from rlpanel.app.server.health_endpoint import health
from tests.factories import append, write_run
from tests.fragile_adapter import FRAGILE, Fragile
from tests.waiting import wait_until


def test_a_reader_that_does_not_come_back_is_not_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = reader().open(write_run(tmp_path / "run", steps=1, ranks=1, samples=1))
    try:
        wait_until(lambda: index.snapshot.samples == 1)
        assert health().well
        monkeypatch.setattr(health_endpoint, "STUCK", -1.0)
        assert not health().well
        assert "the reader has not finished a round" in health().failure
    finally:
        reader().close(index)


def test_counters_never_go_back(tmp_path: Path) -> None:
    run, begun = write_run(tmp_path / "run", steps=2, ranks=1, samples=4), reader().lines
    index = reader().open(run)
    try:
        wait_until(lambda: reader().lines == begun + 8)  # lines are counted after they are published
        next(run.glob("*.jsonl")).write_bytes(b"")
        wait_until(lambda: index.snapshot.samples == 0)
        assert reader().lines == begun + 8
    finally:
        reader().close(index)


def test_a_run_that_cannot_be_read_is_named_and_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fragile = Fragile.register(monkeypatch)
    fragile.fails_at = "read"
    append(tmp_path / "x.jsonl", FRAGILE % 1)
    index = reader().open(tmp_path, "bad")
    try:
        wait_until(lambda: health().runs_failing == 1)
        assert (health().well, health().failure) == (True, "")
        assert health().failing == {"bad": "not enough memory"}
        assert b"rlpanel_runs_failing 1.0" in generate_latest(health_endpoint.REGISTRY)
    finally:
        reader().close(index)
    wait_until(lambda: health().runs_failing == 0)
