"""The page *Update*: what carried a step's gradient, and what other losses make of its samples."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from rlpanel.app.demo import write_recording
from tests.factories import append, line, write_run
from tests.ui.board import BoardPage

IMAGES = Path(__file__).parents[2] / "docs" / "images"
ATTACK = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write_recording("grpo_calculator", root / "tools")
    hostile = write_run(root / "hostile", steps=0)
    rows = [
        line(1, index=index, group=f"{ATTACK}{index // 4}", lang=ATTACK, reward=float(index % 4))
        for index in range(8)
    ]
    append(hostile / "rollout_data_rank_0.jsonl", *rows)
    (hostile / "run.json").write_text('{"algo": "dr_grpo"}')


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_shows_what_carried_the_update(board: BoardPage, theme: str) -> None:
    board.go(run="tools", page="update", step=22, theme=theme)
    page = board.page
    expect(page.locator(".rl-update-head h3")).to_contain_text("samples carry half of the update")
    expect(page.locator(".rl-update-tree rect.sample").first).to_be_visible()
    widths = page.locator(".rl-update-tree rect.group").evaluate_all(
        "rects => rects.map(r => r.width.baseVal.value)"
    )
    assert widths == sorted(widths, reverse=True)  # the heaviest group first
    expect(page.locator(".rl-update-losses button").first).to_contain_text("this run")
    if os.environ.get("RLPANEL_SHOTS"):
        page.screenshot(path=IMAGES / f"update-{theme}.png")


def test_a_click_selects_the_sample_and_a_dimension_lists_its_values(board: BoardPage) -> None:
    board.go(run="tools", page="update", step=22)
    page = board.page
    heaviest = page.locator(".rl-update-tree rect.sample").first
    uid = heaviest.get_attribute("data-uid")
    assert uid
    heaviest.click()
    expect(page).to_have_url(re.compile(f"sample={re.escape(uid).replace(':', '%3A')}"))
    page.locator(".rl-update-bar").get_by_role("tab", name="token", exact=True).click()
    expect(page.locator(".rl-update-rows .titles")).to_contain_text("token")
    page.locator(".rl-update-rows button").first.click()
    expect(page).to_have_url(re.compile("filter=response"))


def test_the_constants_of_a_loss_are_in_the_address(board: BoardPage) -> None:
    board.go(run="tools", page="update", step=22)
    page = board.page
    page.locator(".rl-update-losses button", has_text="CISPO").click()
    expect(page).to_have_url(re.compile("loss=cispo"))
    page.locator(".rl-update-beta").get_by_role("slider").press("ArrowRight")
    expect(page).to_have_url(re.compile(r"loss=cispo\+beta%3D0\.002"))
    page.reload()
    expect(page.locator(".rl-update-beta")).to_contain_text("0.0020")
    expect(page.locator(".rl-update-losses .chosen")).to_contain_text("CISPO")


def test_names_of_a_log_stay_text(board: BoardPage) -> None:
    board.go(run="hostile", page="update", step=1)
    page = board.page
    expect(page.locator(".rl-update-tree text", has_text="<img").first).to_be_visible()
    page.locator(".rl-update-bar").get_by_role("tab", name="group", exact=True).click()
    expect(page.locator(".rl-update-rows button").first).to_contain_text(ATTACK)
    assert page.locator("img[src=x]").count() == 0
