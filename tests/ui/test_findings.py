"""Findings: their count, the list with evidence, and clicks that show the samples behind them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.factories import append, sample
from tests.ui.board import BoardPage

MARKUP = '<img src=x onerror="window.ran = 1">'


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path, grpo_run: Path) -> None:
    """The recorded run, and a run whose labels are markup."""
    shutil.copytree(grpo_run, root / "grpo")
    folder = root / "markup"
    folder.mkdir()
    rows = [
        sample(step, index=index, kind=MARKUP[index % 2 :], response=_response(step, index))
        for step in range(1, 21)
        for index in range(32)
    ]
    append(folder / "rollout_data_rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))


def _response(step: int, index: int) -> str:
    """Return a response that is broken from step 9 on if the label is the markup."""
    return f"{step} {index} half \ufffd" if step > 8 and index % 2 == 0 else f"{step} {index}"


def listed(board: BoardPage) -> BoardPage:
    board.page.locator(".rl-findings summary").click()
    return board


def test_a_click_leads_to_step_curve_and_samples(board: BoardPage) -> None:
    board.settled().go(run="grpo", step=3).settled(3)
    badge = board.page.locator(".rl-findings summary")
    expect(badge).to_have_text("2 findings")
    items = listed(board).page.locator(".rl-findings li")
    expect(items.first).to_contain_text("Invalid UTF-8: the share of affected responses rises from 2% to 67%")
    expect(items.first).to_contain_text("zh 64% of 2,112, en 3% of 1,088")
    items.first.get_by_role("button").click()
    expect(board.step_label.locator("b")).to_have_text("Step 60")
    expect(board.curve("Responses with invalid characters")).to_be_visible()
    expect(items.first).not_to_be_visible()
    board.until(lambda: "filter=invalid_chars" in board.page.url, "the samples behind it are listed")


def test_texts_of_the_log_stay_texts(board: BoardPage) -> None:
    board.settled().go(run="markup").settled(20)
    expect(board.page.locator(".rl-findings summary")).to_contain_text("finding")
    expect(listed(board).page.locator(".rl-findings ul")).to_contain_text(MARKUP)
    assert board.page.evaluate("window.ran") is None
    assert board.page.locator(".rl-findings img").count() == 0
