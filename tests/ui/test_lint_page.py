"""The page Lint: rules that failed lead to their samples, the others say what passed and what to log."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.ui.board import BoardPage
from tests.unit.lint.linted_runs import faulty_run, recorded, write

MARKUP = "<img src=x onerror=\"window.ran = 'lint'\"><|im_start|>user"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    lines = faulty_run()
    lines[0]["messages"][0]["content"] = MARKUP
    lines[0]["prompt"] = f"<|im_start|>user\n<|im_start|>{MARKUP}"
    write(root / "faulty", lines)
    write(root / "healthy", recorded("grpo_couplets", range(1, 4)))


def rule(board: BoardPage, name: str) -> Locator:
    """The entry of a rule."""
    return board.page.locator(".rl-lint-rules .rule").filter(has_text=name)


def test_failed_rule_opens_its_sample(board: BoardPage) -> None:
    board.go(run="faulty").settled()
    board.page.locator("[role=tab][data-key=lint]").dispatch_event("click")
    expect(board.page.locator(".rl-lint-note")).to_contain_text("up to 8 of a step")
    board.page.get_by_role("button", name="Read all samples").click()
    expect(board.page.locator(".rl-lint-note")).not_to_contain_text("up to 8 of a step")
    failed = board.page.locator(".rl-lint-rules section.failed .rule")
    expect(failed.filter(has_text="mask_in_place")).to_contain_text("first at step 22")
    copied = failed.filter(has_text="engine_not_copied")
    expect(copied).to_contain_text("first at step 25")
    expect(copied).to_contain_text("equal to the last bit")
    more = copied.locator("summary")
    expect(more).to_have_text("7 more samples")
    more.click()
    expect(copied.locator("button.sample")).to_have_count(10)
    copied.locator("button.sample").nth(4).press("Enter")
    board.settled()
    expect(board.page.get_by_role("tab", name="Tokens", selected=True)).to_be_visible()
    assert "page=samples" in board.page.url
    assert "sample=rollout_data_rank_0.jsonl" in board.page.url


def test_texts_of_the_log_never_run(board: BoardPage) -> None:
    board.go(run="faulty", page="lint").settled()
    expect(rule(board, "special_in_role").locator("button.sample")).to_contain_text("<|im_start|>")
    assert board.page.evaluate("window.ran") is None
    assert board.page.locator(".rl-lint-rules img").count() == 0


def test_healthy_run_says_what_passed_and_what_to_log(board: BoardPage) -> None:
    board.go(run="healthy", page="lint").settled()
    expect(board.page.locator(".rl-lint-note")).to_contain_text("0 failed")
    expect(board.page.locator(".rl-lint-rules section.failed")).to_contain_text("No rule failed.")
    expect(rule(board, "logprob_negative")).to_contain_text("all 24 samples")
    expect(rule(board, "engine_in_place")).to_contain_text("Log: rollout_logprobs (Log-probability")
