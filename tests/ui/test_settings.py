"""The settings of the side panel: what the user chose last is never undone by an earlier answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.ui.board import TICK_BOTH, BoardPage


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path, grpo_run: Path) -> None:
    """The recorded run."""
    shutil.copytree(grpo_run, root / "grpo")


def metric(board: BoardPage, name: str) -> Locator:
    return board.settings().get_by_role("group", name="Metrics").locator(f'input[value="{name}"]')


def test_an_answer_to_one_metric_does_not_undo_the_next(board: BoardPage) -> None:
    board.go(run="grpo", step=9).settled(9)
    metric(board, "log_ratio_mean").or_(metric(board, "kl_k3_mean")).evaluate_all(TICK_BOTH)
    expect(board.page.locator(".rl-curve")).to_have_count(2)
    expect(metric(board, "log_ratio_mean")).to_be_checked()
    expect(metric(board, "kl_k3_mean")).to_be_checked()
    written = board.page.evaluate("window.written")
    assert written
    assert all(written)


def test_a_refused_value_is_replaced_by_the_last_one(board: BoardPage) -> None:
    board.go(run="grpo", step=9).settled(9)
    most = board.settings().get_by_label("Max samples a step", exact=True)
    before = most.input_value()
    most.evaluate("""field => {
      field.min = ""
      field.value = "-5"
      field.dispatchEvent(new Event("change"))
    }""")
    expect(most).to_have_value(before)
