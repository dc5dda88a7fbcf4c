"""The page In flight: it appears with the first rollout, follows the recorder, and names what was lost."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

import rlpanel
from tests.factories import write_run
from tests.ui.board import BoardPage


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    for name in ("live", "many", "dead"):
        write_run(root / name, steps=2)
    (root / "many" / "in_flight").mkdir()
    now = time.time()
    deltas = [{"begin": f"e{at}", "step": 3, "phase": "generation", "time": now - at} for at in range(10_000)]
    lines = [{"rlpanel_live": 1, "rank": 0, "pid": os.getpid(), "others": 90_000}, *deltas]
    (root / "many" / "in_flight" / "rank_0.live").write_text(
        "".join(json.dumps(each) + "\n" for each in lines)
    )
    dead = root / "dead" / "monitors" / "file" / "traces" / "live"
    dead.mkdir(parents=True)
    first = {"trace": "t1", "dispatch": {"id": "e1", "env": "swe", "step": 3, "started": 100.0}, "open": {}}
    (dead / "t1.jsonl").write_text(json.dumps(first) + '\n{"trace": "t1", "no')
    os.utime(dead / "t1.jsonl", (500.0, 500.0))


def flight(board: BoardPage) -> Locator:
    return board.page.locator(".rl-in-flight")


def test_it_appears_and_follows_the_recorder(board: BoardPage, root: Path) -> None:
    board.go(run="live").settled()
    expect(board.page.get_by_role("tab", name="In flight")).to_have_count(0)
    with rlpanel.RolloutWriter(root / "live", rank=5) as writer:
        writer.begin("first", step=3, agent="solver", phase="generation")
        writer.begin("second", step=3, phase="queue")
        expect(board.page.locator("[role=tab][data-key=flight]")).to_have_count(1)
        board.page.locator("[role=tab][data-key=flight]").dispatch_event("click")
        expect(flight(board).locator(".head > strong")).to_have_text("2 in flight")
        expect(flight(board).locator(".batch")).to_contain_text("Step 3 waits for 2 rollouts")
        writer.turn("first", tokens=120, text="I open the file.", phase="tool")
        expect(flight(board).locator(".rollout").first).to_contain_text("120 tokens")
        expect(flight(board).locator(".rollout").first).to_contain_text("I open the file.")
        writer.end("second")
        expect(flight(board).locator(".batch")).to_contain_text("Step 3 waits for 1 of 2 rollouts")
    expect(board.page.get_by_role("tab", name="In flight")).to_have_count(0)


@pytest.mark.slow
def test_100_000_rollouts_show_the_slowest_200(board: BoardPage) -> None:
    board.go(run="many", page="flight").settled()
    expect(flight(board).locator(".head > strong")).to_have_text(
        "100,000 in flight · the slowest 200 are shown"
    )
    expect(flight(board).locator(".rollout")).to_have_count(200)
    expect(flight(board).locator(".rollout strong").first).to_have_text("e9999")
    expect(flight(board).locator(".remark")).to_contain_text(
        "90,000 further rollouts in flight are only counted"
    )


def test_a_dead_writer_leaves_lost_rollouts_and_a_torn_line_is_said(board: BoardPage) -> None:
    board.go(run="dead", page="flight").settled()
    expect(flight(board).locator(".head > strong")).to_have_text("0 in flight · 1 lost")
    expect(flight(board).locator(".rollout.lost .words")).to_contain_text(
        "lost after 0 turns: no live file changed"
    )
    expect(flight(board).locator(".remark")).to_contain_text("1 live file ends in the middle of a line")
