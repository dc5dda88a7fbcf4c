"""`index` and `check` list files without read permission, and their exit code shows the incomplete run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories import write_run
from tests.integration.forked import CHECKOUT, run_module
from tests.unit.sources.readers.faults import public_folder

#: Permissions only apply to ordinary users.
NOBODY = 65534
RANK1 = "rollout_data_rank_1.jsonl"


@pytest.fixture
def run() -> Iterator[Path]:
    """Two ranks of three samples, in a folder that an ordinary user may enter."""
    with public_folder() as folder:
        yield write_run(folder / "run", ranks=2, steps=1, samples=3)


def index(*arguments: str | Path, command: str = "index") -> subprocess.CompletedProcess[str]:
    """Run ``rlpanel index`` or another command as an ordinary user."""
    env = {"NO_COLOR": "1", "COLUMNS": "200", "RLPANEL_CACHE": "0", "RLPANEL_JOBS": "0"}
    return run_module("rlpanel", command, *arguments, cwd=CHECKOUT, env=env, user=NOBODY)


def test_a_whole_run_ends_well(run: Path) -> None:
    done = index(run, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["unread"] == []


def test_a_rank_that_may_not_be_read_is_named_and_the_exit_code_is_3(run: Path) -> None:
    (run / RANK1).chmod(0)
    done = index(run, "--json")
    assert (done.returncode, done.stderr) == (3, f"not read: {RANK1}: Permission denied\n")
    found = json.loads(done.stdout)
    assert found["rows"] == 3
    assert found["unread"] == [{"file": RANK1, "reason": "Permission denied"}]


def test_a_check_without_findings_of_a_run_that_is_incomplete_exits_with_3(run: Path) -> None:
    assert index(run, command="check").returncode == 0
    (run / RANK1).chmod(0)
    done = index(run, command="check")
    assert (done.returncode, done.stderr) == (3, f"not read: {RANK1}: Permission denied\n")


def test_a_person_reads_how_many_files_were_not_read(run: Path) -> None:
    (run / RANK1).chmod(0)
    done = index(run)
    assert done.returncode == 3
    row = next(line for line in done.stdout.splitlines() if line.startswith("files not read"))
    assert row.split() == ["files", "not", "read", "1"]


def test_a_folder_of_steps_that_may_not_be_listed_is_named(run: Path) -> None:
    (run / "rollouts" / "step_1").mkdir(parents=True)
    (run / "rollouts").chmod(0)
    done = index(run)
    (run / "rollouts").chmod(0o755)
    assert (done.returncode, done.stderr) == (3, "not read: rollouts/: Permission denied\n")


def test_a_run_that_may_not_be_listed_is_an_error(run: Path) -> None:
    run.chmod(0)
    done = index(run)
    run.chmod(0o755)
    assert done.returncode == 2
    assert done.stderr == f"rlpanel: {run} cannot be read: Permission denied\n"


def test_the_help_tells_the_exit_codes() -> None:
    assert "3 if a file of it was not read" in " ".join(index("--help").stdout.split())
