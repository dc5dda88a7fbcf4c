"""``rlpanel tail`` follows a run: one line per complete step, until Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.factories import append, line, write_run
from tests.integration.forked import Forked, start_module


@contextmanager
def tailing(run: Path, *options: str) -> Iterator[Forked | subprocess.Popen[str]]:
    """Run the command until the end of the block; its lines can be read as they are printed."""
    with start_module("rlpanel", "tail", run, *options, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(process: Forked | subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_a_step_is_printed_when_it_is_complete(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=3, samples=2)
    with tailing(run, "--columns", "reward_mean", "--last", "2") as process:
        assert read_line(process).split() == ["step", "samples", "reward_mean"]
        assert read_line(process).split()[:2] == ["2", "2"]
        assert read_line(process).split()[:2] == ["3", "2"]
        append(run / "rollout_data_rank_0.jsonl", line(4) + line(4, index=1))
        assert read_line(process).split()[:2] == ["4", "2"]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def test_a_program_gets_json_lines_as_of_the_steps(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2)
    with tailing(run, "--jsonl", "--last", "1") as process:
        assert json.loads(read_line(process))["step"] == 2
        append(run / "rollout_data_rank_0.jsonl", line(3) + line(4))
        steps = [json.loads(read_line(process)) for _ in range(2)]
        assert [step["step"] for step in steps] == [3, 4]
        assert all(step["complete"] for step in steps)
