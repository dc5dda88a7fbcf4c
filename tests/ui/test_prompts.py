"""A prompt's question is what is seen first; the rest is one click or one search away."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.factories import append, line
from tests.ui.board import cells_of
from tests.ui.conftest import OpenBoard

pytestmark = pytest.mark.slow

RULES = "\n".join(f"Rule {n}: check the result before you answer." for n in range(80))
PROMPT = (
    f"<|endoftext|><|endoftext|><|im_start|>system\n{RULES}<|im_end|>\n<|im_start|>user\nWhat is {{}} + 1?"
    "<|im_end|>\n<|im_start|>assistant\n"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    (root / "chat").mkdir()
    lines = [line(1, index=at, prompt=PROMPT.format(at)) for at in range(3)]
    append(root / "chat" / "rollout_data_rank_0.jsonl", *lines)
    return root


def is_inside(mark: Locator, box: Locator) -> bool:
    """Whether the whole mark is seen in a box that scrolls."""
    inner, outer = mark.bounding_box(), box.bounding_box()
    assert inner is not None
    assert outer is not None
    return outer["y"] <= inner["y"] and inner["y"] + inner["height"] <= outer["y"] + outer["height"]


def test_the_last_user_turn_is_shown_and_the_rest_is_folded(open_board: OpenBoard) -> None:
    board = open_board(run="chat", step=1).settled(1)
    expect(board.rows.locator(cells_of("prompt"))).to_have_text([f"What is {at} + 1?" for at in range(3)])
    prompt = board.page.locator(".rl-prompt details.prompt")
    expect(prompt.locator("> summary")).to_have_text("PromptWhat is 0 + 1?")
    prompt.locator("> summary").click()
    expect(prompt.locator("details > summary")).to_have_text(
        ["padding · 26 characters", f"system · {len(RULES):,} characters"]
    )
    folds = prompt.locator("details")
    assert folds.evaluate_all("(all) => all.map((fold) => fold.open)") == [False, False]
    expect(prompt.locator(".parts > div").first).to_contain_text("What is 0 + 1?")
    prompt.get_by_text("system · ").click()
    assert folds.evaluate_all("(all) => all.map((fold) => fold.open)") == [False, True]
    expect(folds.nth(1)).to_contain_text("Rule 79")


def test_a_search_opens_the_fold_and_shows_the_place(open_board: OpenBoard) -> None:
    board = open_board(run="chat", step=1).settled(1)
    board.search.fill("rule 50")
    board.search.press("Enter")
    expect(board.rows.locator(cells_of("prompt")).first).to_contain_text("…Rule 50: check")
    marks = board.page.locator(".rl-prompt mark")
    expect(marks).to_have_text(["Rule 50", "Rule 50"])
    assert is_inside(marks.nth(1), board.page.locator(".rl-prompt .parts"))
    board.search.fill("")
    board.search.press("Enter")
    expect(marks).to_have_count(0)
    expect(board.rows.locator(cells_of("prompt")).first).to_have_text("What is 0 + 1?")


def test_the_setting_shows_prompts_as_they_were_logged(open_board: OpenBoard) -> None:
    board = open_board(run="chat", step=1).settled(1)
    board.settings().get_by_label("Fold chat templates", exact=True).uncheck()
    expect(board.rows.locator(cells_of("prompt")).first).to_contain_text("<|endoftext|><|endoftext|>")
