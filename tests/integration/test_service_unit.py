"""docs/deploy/rlpanel.service: its security score, and the board under its restrictions."""

from __future__ import annotations

import ctypes.util
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Page, expect

from tests.factories import append, line, write_run
from tests.integration.confined import UNIT, Directives
from tests.integration.forked import CHECKOUT
from tests.integration.server_process import ServerProcess
from tests.ui.board import PATIENCE, BoardPage
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

CONFINED = (sys.executable, "-m", "tests.integration.confined", sys.executable)

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
needs_seccomp = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None or ctypes.util.find_library("seccomp") is None,
    reason="systemd-analyze or libseccomp is not installed",
)

#: Required directives; the score alone could be reached in other ways.
HARDENED = {
    "CapabilityBoundingSet": [""],
    "LockPersonality": ["yes"],
    "MemoryDenyWriteExecute": ["yes"],
    "NoNewPrivileges": ["yes"],
    "PrivateDevices": ["yes"],
    "PrivateTmp": ["yes"],
    "ProcSubset": ["pid"],
    "ProtectClock": ["yes"],
    "ProtectControlGroups": ["yes"],
    "ProtectHome": ["yes"],
    "ProtectHostname": ["yes"],
    "ProtectKernelLogs": ["yes"],
    "ProtectKernelModules": ["yes"],
    "ProtectKernelTunables": ["yes"],
    "ProtectProc": ["invisible"],
    "ProtectSystem": ["strict"],
    "RestrictAddressFamilies": ["AF_INET AF_INET6 AF_UNIX"],
    "RestrictNamespaces": ["yes"],
    "RestrictRealtime": ["yes"],
    "RestrictSUIDSGID": ["yes"],
    "SystemCallArchitectures": ["native"],
    "SystemCallFilter": ["@system-service", "~@privileged"],
    "UMask": ["0077"],
}


def test_the_unit_is_hardened() -> None:
    said = Directives()
    assert {name: said.get(name) for name in HARDENED} == HARDENED
    assert "root" not in said["User"]


def test_systemd_waits_until_the_board_is_ready_and_restarts_it_if_it_hangs() -> None:
    said = Directives()
    assert [said.get(name) for name in ("Type", "Restart", "NotifyAccess")] == [
        ["notify"],
        ["on-failure"],
        None,
    ]
    assert said["WatchdogSec"] == ["2min"]


def test_the_cache_lies_where_the_unit_lets_the_board_write() -> None:
    said = Directives()
    assert [f"XDG_CACHE_HOME=%S/{said['StateDirectory'][0]}"] == said["Environment"]


@needs_systemd
def test_systemd_says_ok_to_the_unit() -> None:
    command = ["systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=30", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK" in done.stdout.splitlines()[-1]


PROBES = {
    "write and execute memory": ("mmap.mmap(-1, 4096, prot=7)", "PermissionError"),
    "chroot": ("os.chroot('/')", "PermissionError"),
    "another user": ("os.setuid(os.getuid())", "PermissionError"),
    "netlink": ("socket.socket(socket.AF_NETLINK)", "PermissionError"),
    "packets": ("socket.socket(socket.AF_PACKET)", "PermissionError"),
    "network": ("socket.socket(socket.AF_INET).close()", ""),
    "niceness of workers": ("os.nice(5)", ""),
    "a process": ("subprocess.run(['true'], check=True)", ""),
}


@needs_seccomp
@pytest.mark.parametrize(("code", "error"), PROBES.values(), ids=PROBES)
def test_what_the_unit_forbids_fails_and_what_the_board_needs_does_not(code: str, error: str) -> None:
    wrapped = f"import mmap, os, socket, subprocess\ntry: {code}\n"
    wrapped += "except Exception as error: print(type(error).__name__)"
    done = subprocess.run(
        [*CONFINED, "-c", wrapped], cwd=CHECKOUT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.stdout.strip(), done.stderr) == (error, "")


@needs_seccomp
def test_a_confined_board_is_watched_opened_and_alerts_by_command(page: Page, tmp_path: Path) -> None:
    run = write_run(tmp_path / "root" / "run", steps=8, truncated=1)
    told = tmp_path / "told"
    alert = [sys.executable, "-c", f"import sys; open({str(told)!r}, 'a').write(sys.stdin.read())"]
    options = ["--watch", "--alert-command", shlex.join(alert), "--alert-severity", "alarm"]
    # A small backlog is read by worker processes, too.
    settings: dict[str, str | None] = {"RLPANEL_BACKLOG_BYTES": "1"}
    command = (*CONFINED, "-m", "rlpanel", "serve")
    with ServerProcess(tmp_path / "root", *options, command=command, cwd=CHECKOUT, env=settings) as server:
        board = BoardPage(page, server.url).open(run="run").settled(8)
        append(run / "rollout_data_rank_0.jsonl", line(9))
        expect(board.badge).to_contain_text("65 samples", timeout=PATIENCE * 1000)
        # The file is empty until the command has read its input.
        wait_until(lambda: told.exists() and told.read_text(), 2 * PATIENCE, "an alert")
        assert json.loads(told.read_text())
        assert "Traceback" not in "\n".join(server.output)


@needs_seccomp
@pytest.mark.parametrize("kind", ["csv", "parquet", "html"])
def test_a_confined_command_reads_and_writes_every_kind_of_file(tmp_path: Path, kind: str) -> None:
    run, file = write_run(tmp_path / "run", steps=2, samples=3), tmp_path / f"out.{kind}"
    done = subprocess.run(
        [*CONFINED, "-m", "rlpanel", "export", str(run), f"--{kind}", str(file)],
        cwd=CHECKOUT, capture_output=True, text=True, timeout=2 * PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert file.stat().st_mode & 0o777 == 0o600
    if kind == "parquet":
        assert len(pd.read_parquet(file)) == 6
