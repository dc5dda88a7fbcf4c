"""The button *Bisect* of a finding, and the chain that it leads to."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.bench.bisect_runs.chain_kinds import KINDS
from tests.bench.bisect_runs.chain_run import ChainRun
from tests.ui.board import BoardPage

IMAGES = Path(__file__).parents[2] / "docs" / "images"
MADE = ChainRun(KINDS["learning_rate"], [1, *b"learning_rate"], sized=(50, 8, 4))


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    MADE.write(root / "chain")


def test_the_button_of_a_finding_leads_to_the_chain_and_a_link_to_its_samples(board: BoardPage) -> None:
    board.go(run="chain", page="explain", theme="light")
    board.page.locator(".rl-findings summary.pill").click()
    board.settled()
    board.page.locator(".rl-findings .bisect").first.click()
    expect(board.page).to_have_url(re.compile(r"explain=bisect"))
    rows = board.page.locator(".rl-bisect-rows button")
    expect(rows.first).to_contain_text("lr of the trainer")
    expect(rows.filter(has_text="kl")).to_have_count(1)
    expect(board.page.locator(".rl-bisect-note")).to_contain_text("What changed first")
    expect(board.page.locator(".rl-bisect-unknown")).to_contain_text("order of time")
    expect(board.page.locator(".rl-bisect-plot canvas").first).to_be_visible()
    if os.environ.get("RLPANEL_SHOTS"):
        board.page.screenshot(path=IMAGES / "bisect.png")
    rows.filter(has_text="kl").click()
    expect(board.page).to_have_url(re.compile(rf"step={MADE.onset + 1}\b"))
    # The chain stands on the curves of the run, and its list leads to each change without a mouse.
    board.tab("Overview")
    board.settled()
    events = board.page.get_by_role("combobox", name="Events on the curves")
    expect(events.locator("option")).to_contain_text([r"Events:", "change 1 of"])
    events.focus()
    expect(events).to_have_value(str(MADE.onset + 1))
    events.press("ArrowDown")
    expect(board.page).to_have_url(re.compile(rf"step={MADE.third + 1}\b"))
    expect(events).to_have_value(str(MADE.third + 1))


def test_a_text_that_is_no_step_is_said(board: BoardPage) -> None:
    board.go(run="chain", page="explain", explain="bisect:soon:reward")
    expect(board.page.locator(".rl-bisect-note")).to_contain_text("is not a step")
