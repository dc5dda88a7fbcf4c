"""The page of the gap between trainer and engine."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.ui.board import BoardPage
from tests.unit.drift import bigrams

IMAGES = Path(__file__).parents[2] / "docs" / "images"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    bigrams.write(root / "stuck", bigrams.stuck(4))


def test_the_page_names_the_cause_and_recomputes_corrections(board: BoardPage, tmp_path: Path) -> None:
    board.go(run="stuck", page="drift", theme="light")
    head = board.page.locator(".rl-drift-head")
    expect(head).to_contain_text("Failed weight sync")
    expect(head).to_contain_text("since step 4")
    expect(board.page.locator(".rl-drift-levels button")).to_have_count(bigrams.STEPS)
    corrections = board.page.locator(".rl-drift-corrections button")
    expect(corrections).to_have_count(8)
    if os.environ.get("RLPANEL_SHOTS"):
        board.page.screenshot(path=IMAGES / "drift.png")
    masked = corrections.filter(has_text="masked importance sampling by token")
    expect(masked).to_contain_text("0 to 3")
    masked.click()
    slider = board.page.locator(".rl-drift-bound").get_by_role("slider")
    slider.press("Home")
    expect(masked).to_contain_text("0 to 1")
    board.page.locator(".rl-drift-bar").get_by_role("tab", name="rank", exact=True).click()
    expect(board.page.locator(".rl-drift-levels button")).to_have_count(2)
    board.page.locator(".rl-drift-bar").get_by_role("tab", name="step", exact=True).click()
    board.page.locator(".rl-drift-levels button").nth(5).click()
    expect(board.page).to_have_url(re.compile("step=5"))
