"""If a limit of the machine is used up, the reader polls and keeps reading."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories import write_run
from tests.integration.forked import CHECKOUT
from tests.integration.security.limits_child import NO_NAMESPACE
from tests.unit.sources.readers.faults import public_folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits are those of inotify")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A run of four samples that every user may read and write."""
    with public_folder() as root:
        run = write_run(root / "root" / "run", steps=1, samples=4)
        for path in (root, root / "root", run):
            path.chmod(0o777)
        next(run.glob("*.jsonl")).chmod(0o666)
        yield run


def logged(what: str, folder: Path) -> list[str]:
    """Return the log of a reader in a child process that used up a limit and kept reading."""
    command = [sys.executable, "-m", "tests.integration.security.limits_child", what, str(folder)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=400, check=False)
    if done.returncode == NO_NAMESPACE:
        pytest.skip("no user namespace here, and not root: other tests of this user would be limited, too")
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def test_a_run_is_polled_while_inotify_instances_are_used_up(folder: Path) -> None:
    said, again = logged("instances", folder)
    assert f"no file events of {folder}: this user's inotify instances are used up" in said
    assert "sysctl fs.inotify.max_user_instances=" in said
    assert "polled" in said
    assert again == "file events are used again"


def test_a_run_is_polled_when_new_folders_use_up_the_inotify_watches(folder: Path) -> None:
    said, again = logged("watches", folder)
    assert "this user's inotify watches are used up; sysctl fs.inotify.max_user_watches=" in said
    assert again == "file events are used again"


def test_a_process_that_may_open_no_more_files_reads_on_afterwards(folder: Path) -> None:
    logged("files", folder)
