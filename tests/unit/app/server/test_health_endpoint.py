"""`/health` of a reader that does not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.api.open_run import reader
from rlpanel.app.server import health_endpoint
from rlpanel.app.server.health_endpoint import health
from tests.factories import write_run
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
