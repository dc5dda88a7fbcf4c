"""The part *Where they part* of the page *Compare*, and the settings in the badge of the run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.ui.board import BoardPage
from tests.unit.divergence.two_runs import rewards, write


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write(root / "first", rewards(1))
    write(root / "second", rewards(2, onset=15))
    for name, rate in (("first", "1e-6"), ("second", "<b>5e-6</b>")):
        (root / name / "config.yaml").write_text(f"lr: '{rate}'\napi_key: verysecretvalue\n")


def test_the_page_names_first_step_settings_and_samples(board: BoardPage) -> None:
    board.go(run="first", page="compare", against="second")
    page = board.page
    head = page.locator(".rl-diverge-head")
    expect(head).to_contain_text(re.compile("from step 1[456] on: reward differs by −0"))
    expect(page.locator(".rl-diverge-plot line.mark")).to_have_count(1)
    settings = page.locator(".rl-diverge-settings")
    expect(settings).to_contain_text("<b>5e-6</b>")
    expect(settings).not_to_contain_text("verysecretvalue")
    samples = page.locator(".rl-diverge-samples button")
    expect(samples).to_have_count(5)
    samples.first.click()
    expect(page).to_have_url(re.compile("page=samples"))
    expect(page).to_have_url(re.compile("sample="))


def test_the_badge_lists_the_settings_without_secrets(board: BoardPage) -> None:
    board.go(run="first")
    fold = board.page.locator(".rl-run-settings")
    expect(fold).to_contain_text("2 settings")
    fold.locator("summary").click()
    expect(fold).to_contain_text("lr")
    expect(fold).not_to_contain_text("verysecretvalue")
