"""A forked process is what a process that starts Python would be."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.forked import environment, run_module, start_module
from tests.waiting import wait_until


@pytest.mark.parametrize(
    "command",
    [
        ("rlpanel", "--version"),
        ("rlpanel", "index", "nowhere"),
        ("site",),
        ("rlpanel", "schema", "--nothing"),
    ],
    ids=" ".join,
)
def test_its_output_exit_code_folder_and_path_are_those_of_a_fresh_one(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    plain: dict[str, str | None] = {"NO_COLOR": "1", "COLUMNS": "90", "TERM": "dumb", "HOME": str(tmp_path)}
    fresh = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, env=environment(plain), capture_output=True, text=True
    )
    forked = run_module(*command, cwd=tmp_path, env=plain)
    assert (forked.returncode, forked.stdout) == (fresh.returncode, fresh.stdout)
    assert forked.stderr == fresh.stderr


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 0)],
)
def test_signals_end_it_as_they_end_a_fresh_one(tmp_path: Path, number: int, code: int) -> None:
    served = tmp_path / "output"
    with (
        served.open("w") as output,
        start_module(
            "http.server",
            "0",
            "--bind",
            "127.0.0.1",
            cwd=tmp_path,
            env={"PYTHONUNBUFFERED": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        wait_until(lambda: "Serving" in served.read_text())
        process.send_signal(number)
        assert process.wait(60) == code


def test_where_python_reads_a_variable_at_its_start_it_starts(tmp_path: Path) -> None:
    done = run_module("site", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "elsewhere")})
    assert str(tmp_path / "elsewhere") in done.stdout
