"""The settings of the side panel: what the user chose last is never undone by an earlier answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.factories import append, write_run
from tests.ui.board import TICK_BOTH, BoardPage


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    """A run of samples, and one of verl whose sessions have up to three outputs with the final score."""
    write_run(root / "samples", steps=3)
    (root / "verl").mkdir()
    for step in range(1, 5):
        for session, (outputs, score) in enumerate([(3, 1.0), (1, 0.0), (2, 1.0), (1, 0.0)]):
            for turn in range(outputs):
                row = {
                    "input": f"question {session // 2}",
                    "output": f"{step}{session}{turn}",
                    "score": score,
                }
                row |= {"uid": f"q{session // 2}_{session}_{turn}"}
                append(root / "verl" / f"{step}.jsonl", json.dumps(row).encode() + b"\n")


def metric(board: BoardPage, name: str) -> Locator:
    return board.settings().get_by_role("group", name="Metrics").locator(f'input[value="{name}"]')


@pytest.mark.slow
def test_an_answer_to_one_metric_does_not_undo_the_next(board: BoardPage) -> None:
    board.go(run="samples", step=3).settled(3)
    metric(board, "log_ratio_mean").or_(metric(board, "kl_k3_mean")).evaluate_all(TICK_BOTH)
    expect(board.page.locator(".rl-curve")).to_have_count(2)
    expect(metric(board, "log_ratio_mean")).to_be_checked()
    expect(metric(board, "kl_k3_mean")).to_be_checked()
    written = board.page.evaluate("window.written")
    assert written
    assert all(written)


def test_rewards_are_counted_by_episodes_or_rows(board: BoardPage) -> None:
    board.go(run="verl", step=4).settled(4)
    mean = board.curve("Reward").first
    expect(mean).to_contain_text("0.5")
    expect(board.page.get_by_text("7 samples, 4 episodes")).to_be_visible()
    board.settings().get_by_label("Count rewards by", exact=True).select_option("rows")
    expect(mean).to_contain_text("0.714")
    board.settings().get_by_label("Count rewards by", exact=True).select_option("episodes")
    expect(mean).to_contain_text("0.5")
    board.go(run="samples", step=3).settled(3)
    expect(board.settings().get_by_label("Count rewards by", exact=True)).to_have_count(0)


def test_a_refused_value_is_replaced_by_the_last_one(board: BoardPage) -> None:
    board.go(run="samples", step=3).settled(3)
    most = board.settings().get_by_label("Max samples a step", exact=True)
    before = most.input_value()
    most.evaluate("""field => {
      field.min = ""
      field.value = "-5"
      field.dispatchEvent(new Event("change"))
    }""")
    expect(most).to_have_value(before)
