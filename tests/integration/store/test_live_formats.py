"""An open run follows processes that write in the ways of ten trainers: exact in the end, never too much."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

import rlpanel
from tests.integration.server_process import ServerProcess
from tests.integration.test_watch import metrics
from tests.live_process import LiveProcess, Shown, shown
from tests.live_writers import FORMATS, MEAN, REWARDS, REWRITTEN
from tests.waiting import wait_until

#: One format for each way of writing: a file at once, a file that is moved to its place, parquet, an appended
#: line, folders of versions, documents, two sets of files of the same samples.
QUICK = ("verl", "renamed", "trl", "ms_swift", "areal", "rllm", "prime_rl")


def whole(rows: int, attempt: int = 0) -> Shown:
    """What a complete step of an attempt shows."""
    return Shown(rows, MEAN + attempt, REWARDS[0] + attempt, REWARDS[-1] + attempt)


def follow(name: str, folder: Path, steps: int, rows: int) -> None:
    """Follow a run from its first step; where the trainer does so, a step is written again at the end."""
    with LiveProcess(name, folder) as writer:
        writer.begin(1, rows)
        writer.done()
        with rlpanel.open_run(folder) as run:
            expected = {1: whole(rows)}
            again = [(2, 1)] if name in REWRITTEN else []
            for step, attempt in [*((step, 0) for step in range(2, steps + 1)), *again]:
                before, expected = expected, expected | {step: whole(rows, attempt)}
                writer.begin(step, rows, attempt)
                look = partial(looks, run, before, expected)
                assert wait_until(look, 60.0, f"step {step} is complete") == "complete"
                writer.done()
            wait_until(lambda: run.errors.empty, message="no error of a file that was not complete is left")
            assert run.unread.empty
            assert sum(run.splits.values()) == steps * rows


def looks(run: rlpanel.Run, before: dict[int, Shown], expected: dict[int, Shown]) -> str:
    """Return "complete", what is wrong, or nothing if the step is still being written."""
    found = shown(run)
    for step, each in found.items():
        states = [known[step] for known in (before, expected) if step in known]
        if not states or each.samples > states[-1].samples:
            return f"step {step} has too many rows: {each}"
        if each.least < min(one.least for one in states) or each.greatest > max(
            one.greatest for one in states
        ):
            return f"step {step} has a reward that no row has: {each}"
    return "complete" if found == expected else ""


@pytest.mark.parametrize("name", QUICK)
def test_an_open_run_follows_each_way_of_writing(name: str, tmp_path: Path) -> None:
    follow(name, tmp_path / "run", steps=3, rows=32)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_an_open_run_follows_large_steps_of_each_format(name: str, tmp_path: Path) -> None:
    follow(name, tmp_path / "run", steps=4, rows=64 if name == "rllm" else 512)


@pytest.mark.slow
def test_a_server_counts_two_growing_runs_exactly(tmp_path: Path) -> None:
    """verl writes two of its steps again; ms-swift appends."""
    rows = {"verl": 512, "ms_swift": 128}
    with ExitStack() as stack:
        writers = {name: stack.enter_context(LiveProcess(name, tmp_path / name)) for name in rows}
        for name, writer in writers.items():
            writer.begin(1, rows[name])
            writer.done()
        env: dict[str, str | None] = {"RLPANEL_RESCAN_INTERVAL": "0.2", "RLPANEL_WATCH": None}
        server = stack.enter_context(ServerProcess(tmp_path, "--watch", env=env))
        for step, attempt in ((2, 0), (3, 0), (4, 0), (3, 1), (4, 1)):
            for name, writer in writers.items():
                if attempt == 0 or name in REWRITTEN:
                    writer.begin(step, rows[name], attempt)
            for name, writer in writers.items():
                if attempt == 0 or name in REWRITTEN:
                    writer.done()
        expected = 4 * sum(rows.values())
        wait_until(lambda: metrics(server).get("samples") == expected, 60.0, "all samples once", every=0.1)
        assert metrics(server)["bad_lines"] == 0
