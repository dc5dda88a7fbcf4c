"""Live runs are checked by the rules without an open page, so that the run list can mark them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.app.server.background_service import service
from rlpanel.runtime import Runtime
from rlpanel.settings import Limits, LiveRunLimits, Reading
from tests.factories import write_run
from tests.waiting import wait_until


def test_a_followed_run_gets_a_mark_and_a_newer_one_when_it_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLPANEL_WATCH", "1")
    run = write_run(tmp_path / "run", steps=range(1, 20), truncated=0, tokens=False)
    reading = Reading(polling=True, poll_interval=0.02, rescan_interval=0.1)
    with (
        Runtime(reading, Limits(live_runs=LiveRunLimits(interval=0.02))) as runtime,
        service(runtime, tmp_path, "http://127.0.0.1"),
    ):
        wait_until(lambda: runtime.summaries.of(run).severity == "")
        write_run(run, steps=range(20, 31), truncated=1, tokens=False)
        wait_until(lambda: runtime.summaries.of(run).severity == "alarm")
