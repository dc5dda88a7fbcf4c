"""The page of the gap between trainer and engine."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.ui.board import BoardPage
from tests.unit.drift import bigrams
from tests.unit.drift.test_expert_load import routed_run
from tests.unit.drift.test_taken_away import masked_run

IMAGES = Path(__file__).parents[2] / "docs" / "images"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    bigrams.write(root / "stuck", bigrams.stuck(4))
    (root / "stuck" / "args.json").write_text('{"use_tis": true, "tis_clip": 1.5}')
    masked_run(root / "masked")
    routed_run(root / "routed")


def test_the_page_names_the_cause_and_recomputes_corrections(board: BoardPage, tmp_path: Path) -> None:
    board.go(run="stuck", page="drift", theme="light")
    head = board.page.locator(".rl-drift-head")
    expect(head).to_contain_text("Failed weight sync")
    expect(head).to_contain_text("since step 4")
    expect(board.page.locator(".rl-drift-levels button")).to_have_count(bigrams.STEPS)
    corrections = board.page.locator(".rl-drift-corrections button")
    expect(corrections).to_have_count(8)
    expect(corrections.first).to_contain_text("0 to 1.5 · of this run")
    expect(board.page.locator(".rl-drift-words")).to_contain_text("use_tis = True, tis_clip = 1.5")
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


def test_the_trainers_own_mask_stands_beside_and_says_what_it_takes_away(board: BoardPage) -> None:
    board.go(run="masked", page="drift")
    corrections = board.page.locator(".rl-drift-corrections button")
    expect(corrections).to_have_count(9)
    expect(corrections.first).to_contain_text("correction as the trainer logged it")
    expect(corrections.filter(has_text="IcePop")).to_contain_text("100%")
    expect(corrections.filter(has_text="geometric mean")).to_contain_text("0.0%–0")
    expect(board.page.locator(".rl-drift-bound")).to_be_hidden()
    if os.environ.get("RLPANEL_SHOTS"):
        board.page.locator(".rl-drift-corrections").scroll_into_view_if_needed()
        board.page.screenshot(path=IMAGES / "drift-masked.png")
    bar, taken = board.page.locator(".rl-drift-taken-bar"), board.page.locator(".rl-drift-taken button")
    expect(taken).to_have_count(12)
    bar.get_by_role("tab", name="reward", exact=True).click()
    expect(taken).to_have_count(2)
    corrections.filter(has_text="clipping of CISPO").click()
    expect(board.page.locator(".rl-drift-what")).to_contain_text("CISPO")
    expect(board.page.locator(".rl-drift-bound")).to_be_visible()


def test_the_load_of_experts_is_shown_by_layer(board: BoardPage) -> None:
    board.go(run="routed", page="drift")
    expect(board.page.locator(".rl-drift-head")).to_contain_text("MoE routing")
    layers = board.page.locator(".rl-drift-experts button")
    expect(layers).to_have_count(3)
    expect(layers.first).to_contain_text("layer 0")
