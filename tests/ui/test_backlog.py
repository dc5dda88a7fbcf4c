"""A run with a large backlog: its newest steps and new lines appear while the rest is being read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.factories import append, line, write_run
from tests.limits import small_runtime
from tests.ui.board import Served
from tests.ui.conftest import OpenBoard

FILE = "rollout_data_rank_0.jsonl"


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that releases the only backlog process once it is written."""
    pipe, python = tmp_path / "gate", tmp_path / "python"
    os.mkfifo(pipe)
    python.write_text(f'#!/bin/sh\nread word < "{pipe}"\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    return pipe


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server whose reader treats all unread bytes as a backlog."""
    monkeypatch.setenv("RLPANEL_BACKLOG_BYTES", "1")
    monkeypatch.setenv("RLPANEL_JOBS", "1")
    with (
        small_runtime(range_bytes=1 << 14) as runtime,
        Served(tmp_path / "root", runtime=runtime) as made,
    ):
        yield made


@pytest.mark.slow
def test_live_steps_show_while_a_backlog_is_read_stopped_and_gone_on_with(
    server: Served, open_board: OpenBoard, tmp_path: Path, gate: Path
) -> None:
    run = write_run(tmp_path / "root" / "run", steps=40)
    board = open_board(server=server)
    bar = board.page.locator(".rl-backlog [role=progressbar]")
    # The newest lines are read before the backlog.
    expect(board.page.locator(".rl-backlog")).to_contain_text(re.compile(r"Reading 4% of \d+(\.\d)? kB"))
    append(run / FILE, line(41))
    board.settled(41)
    expect(bar).to_be_visible()
    expect(board.page.locator(".rl-backlog")).to_contain_text("newest steps first")
    expect(bar).to_have_attribute("aria-valuenow", "5")
    backlog, halt = board.page.locator(".rl-backlog"), board.page.locator(".rl-backlog button")
    halt.click()
    expect(backlog).to_contain_text("Paused at 5%")
    append(run / FILE, line(42))
    board.at_step(42)
    halt.click()
    expect(backlog).to_contain_text("newest steps first")
    gate.write_text("go\n")
    expect(bar).to_be_hidden()
    expect(board.badge).to_contain_text("322 samples")
    board.at_step(42)
