"""``/health`` and ``/metrics`` of a server without open pages."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlpanel.settings import DEFAULT_LIMITS
from tests.factories import append, line, write_run
from tests.integration.forked import run_module
from tests.integration.server_process import ServerProcess
from tests.ui.board import PATIENCE
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

QUICK: dict[str, str | None] = {"RLPANEL_RESCAN_INTERVAL": "0.2", "RLPANEL_WATCH": None}
LOG = "rollout_data_rank_0.jsonl"


def health(server: ServerProcess) -> tuple[int, dict[str, Any]]:
    """Return the status and the values of ``/health``."""
    try:
        with urllib.request.urlopen(f"{server.url}health", timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def metrics(server: ServerProcess) -> dict[str, float]:
    """Return the values of ``/metrics``, without their prefix."""
    with urllib.request.urlopen(f"{server.url}metrics", timeout=PATIENCE) as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^rlpanel_(\w+) (\S+)$", text, re.MULTILINE)}


def says(server: ServerProcess, **wanted: Any) -> dict[str, Any]:
    """Wait until ``/health`` has these values; return all values."""

    def answer() -> dict[str, Any]:
        found = health(server)[1]
        assert {key: found[key] for key in wanted} == wanted, found.get("failure")
        return found

    return wait_until(answer, 2 * PATIENCE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One run that is being written and one that is not."""
    write_run(tmp_path / "root" / "live", steps=2, samples=3)
    rest(write_run(tmp_path / "root" / "over", steps=1, samples=3))
    return tmp_path / "root"


def rest(run: Path) -> None:
    """Backdate a run's files, so that the run looks idle."""
    os.utime(run / LOG, (time.time() - 2 * DEFAULT_LIMITS.live_runs.live_seconds,) * 2)


@pytest.fixture
def watched(root: Path) -> Iterator[ServerProcess]:
    with ServerProcess(root, "--watch", env=QUICK) as server:
        yield server


def test_a_run_that_grows_is_reported_with_no_page_open(watched: ServerProcess, root: Path) -> None:
    found = says(watched, well=True, watching=True, root_readable=True, runs_found=2, runs=1, samples=6)
    assert (found["sessions"], found["bad_lines"]) == (0, 0)
    append(root / "live" / LOG, line(3), b"{broken\n")
    found = says(watched, samples=7, bad_lines=1, behind_bytes=0)
    assert found["newest_line_age"] < DEFAULT_LIMITS.live_runs.live_seconds
    told = metrics(watched)
    assert (told["samples"], told["bad_lines"], told["runs"], told["runs_found"]) == (7, 1, 1, 2)
    assert (told["watching"], told["root_readable"], told["well"], told["sessions"]) == (1, 1, 1, 0)
    assert told["lines_read_total"] >= 8


def test_runs_come_and_go(watched: ServerProcess, root: Path) -> None:
    says(watched, runs=1, samples=6)
    write_run(root / "deep" / "new", steps=1, samples=4)
    says(watched, runs_found=3, runs=2, samples=10)
    rest(root / "live")
    says(watched, runs_found=3, runs=1, samples=4)
    rest(root / "deep" / "new")
    found = says(watched, well=True, runs_found=3, runs=0, samples=None, bad_lines=None, behind_bytes=None)
    assert found["newest_line_age"] > DEFAULT_LIMITS.live_runs.live_seconds
    assert not {"samples", "bad_lines", "behind_bytes"} & metrics(watched).keys()
    append(root / "over" / LOG, line(2))
    says(watched, runs=1, samples=4)


def test_a_root_that_is_away_is_not_well_until_it_is_back(watched: ServerProcess, root: Path) -> None:
    says(watched, runs=1, samples=6)
    away = root.rename(root.with_name("away"))
    found = says(watched, well=False, root_readable=False, runs_found=None, runs=0, samples=None)
    assert found["failure"] == f"the root {root} cannot be read: No such file or directory"
    assert health(watched)[0] == 503
    told = metrics(watched)
    assert (told["well"], told["root_readable"]) == (0, 0)
    assert not {"runs_found", "newest_line_age", "samples"} & told.keys()
    away.rename(root)
    says(watched, well=True, root_readable=True, runs_found=2, runs=1, samples=6)
    append(root / "live" / LOG, line(3))
    says(watched, samples=7)


def test_a_root_that_is_no_folder_is_not_well(tmp_path: Path) -> None:
    root = tmp_path / "later"
    with ServerProcess(root, env=QUICK | {"RLPANEL_WATCH": "1"}) as server:
        says(server, well=False, root_readable=False)
        root.write_text("a file")
        wait_until(lambda: "Not a directory" in health(server)[1]["failure"], PATIENCE)
        root.unlink()
        write_run(root / "run", steps=1, samples=3)
        says(server, well=True, runs=1, samples=3)


def test_the_default_root_may_come_later(tmp_path: Path) -> None:
    with ServerProcess("--watch", cwd=tmp_path, env=QUICK | {"RLPANEL_ROOT": None}) as server:
        says(server, well=False, root_readable=False)
        write_run(tmp_path / "rollout_samples" / "run", steps=1, samples=3)
        says(server, well=True, runs=1, samples=3)


UNKNOWN = {
    "root_readable", "runs_found", "samples", "bad_lines", "behind_bytes", "seconds_since_round",
    "newest_line_age", "alerts_waiting", "alerts_sent", "alerts_failing",
}  # fmt: skip


@pytest.mark.parametrize("options", [[], ["--no-watch"]], ids=["default", "--no-watch"])
def test_without_watching_what_is_unknown_is_null_and_absent(root: Path, options: list[str]) -> None:
    with ServerProcess(root, *options, env=QUICK) as server:
        status, found = health(server)
        told = metrics(server)
    assert (status, found["well"], found["watching"], found["runs"]) == (200, True, False, 0)
    assert {key for key, value in found.items() if value is None} == UNKNOWN
    assert not UNKNOWN & told.keys()
    assert (told["watching"], told["runs"]) == (0, 0)


@pytest.mark.parametrize("said", [None, ""], ids=["not set", "empty"])
def test_alerts_watch_unless_told_otherwise(root: Path, said: str | None) -> None:
    settings = QUICK | {"RLPANEL_WATCH": said}
    with ServerProcess(root, "--alert-command", "cat", env=settings) as server:
        says(server, watching=True, runs=1, samples=6, alerts_failing=0)


def test_alerts_cannot_go_without_watching(root: Path) -> None:
    done = run_module("rlpanel", "serve", root, "--alert-command", "cat", "--no-watch")
    assert done.returncode == 2
    assert done.stderr == (
        "rlpanel: alerts require that runs are followed: remove --no-watch, or the alert settings\n"
    )


def test_the_address_is_printed_at_once_into_a_pipe(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    with ServerProcess(tmp_path, env={"PYTHONUNBUFFERED": None}) as server:
        address = f"http://127.0.0.1:{server.port}"
        wait_until(lambda: any(address in line for line in server.output), PATIENCE, "the address")
