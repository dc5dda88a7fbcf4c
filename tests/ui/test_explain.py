"""The tab Why: shares of a change, differences of two sets, repeated responses, and two numbers."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import Locator, expect

from tests.factories import append
from tests.ui.board import BoardPage

pytestmark = pytest.mark.slow

MARKUP = "<img src=x onerror=\"window.ran = 'explain'\">"
STEP = 46


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path, grpo_run: Path) -> None:
    """The recorded run, and a run whose samples of rank 1 change at step 4 and whose texts are markup."""
    shutil.copytree(grpo_run, root / "grpo")
    for rank in (0, 1):
        lines = []
        for step in range(1, 7):
            for index in range(24):
                chance = random.Random(f"{step}-{rank}-{index}")
                late = rank == 1 and step >= 4
                made = {
                    "step": step,
                    "rank": rank,
                    "prompt": f"{MARKUP} {step} {index}",
                    "response": f"{MARKUP} again" if late else f"{chance.random()} is the answer {index}",
                    "reward": chance.gauss(0, 1) + 9 * late,
                    "score": chance.gauss(0, 1),
                    "lang": MARKUP if index % 2 else "en",
                }
                lines.append(json.dumps(made).encode() + b"\n")
        (root / "planted").mkdir(exist_ok=True)
        append(root / "planted" / f"rollout_data_rank_{rank}.jsonl", *lines)


def at(board: BoardPage, run: str, step: int) -> BoardPage:
    """Show the tab at a step of a run, without filters."""
    board.go(run=run, step=step).settled(step)
    board.tab("Explain")
    return board


def view(board: BoardPage, label: str) -> None:
    """Choose one of the tab's views."""
    choose(board, ".rl-explain-what", label)


def choose(board: BoardPage, field: str, label: str) -> None:
    board.pick(field, label)


def rows(board: BoardPage, name: str, text: str | re.Pattern[str]) -> Locator:
    """The rows of a list that contain a text."""
    return board.page.locator(f".{name} button.row").filter(has_text=text)


def test_the_rank_that_changed_is_named_and_leads_to_its_samples(board: BoardPage) -> None:
    at(board, "planted", 4)
    at_first = board.page.locator(".rl-explain-summary")
    expect(at_first).to_contain_text("Reward in step 4")  # the default number of a run
    expect(at_first).to_contain_text("rank 1 carries")
    row = board.page.locator('.rl-explain-shares button[data-key="rank/1"]')
    expect(row).to_contain_text("+")
    assert "%" not in row.inner_text()
    row.click()
    expect(board.count).to_have_text("24 of 48 match")
    expect(board.sample_head).to_contain_text("rank 1 ·")
    expect(row).to_have_class(re.compile("chosen"))


def test_a_share_is_reached_and_opened_by_the_keyboard(board: BoardPage) -> None:
    at(board, "planted", 4)
    row = board.page.locator('.rl-explain-shares button[data-key="rank/0"]')
    expect(row).to_have_count(0)  # it does not stand out
    board.page.locator(".rl-explain-all button").click()
    row.focus()
    board.press("Enter")
    expect(board.sample_head).to_contain_text("rank 0 ·")


def test_another_step_can_be_compared_with(board: BoardPage) -> None:
    at(board, "planted", 6)
    field = board.page.locator(".rl-explain-since input")
    field.fill("2")
    field.press("Enter")
    expect(board.page.locator(".rl-explain-summary")).to_contain_text("in step 2 (")
    field.fill("many")
    field.press("Enter")
    expect(board.page.locator(".rl-explain-summary")).to_contain_text("'many' is not a range of steps")
    field.fill("")
    field.press("Enter")
    expect(board.page.locator(".rl-explain-summary")).to_contain_text("in steps 1–5 (")


def test_the_bounds_of_both_windows_are_in_sight_and_can_be_changed(board: BoardPage) -> None:
    at(board, "planted", 4)
    steps, since = (board.page.locator(f".rl-explain-{name} input") for name in ("steps", "since"))
    expect(steps).to_have_attribute("placeholder", "4")
    expect(since).to_have_attribute("placeholder", "1–3")
    steps.fill("4-5")
    steps.press("Enter")
    expect(board.page.locator(".rl-explain-summary")).to_contain_text("Reward in steps 4–5")
    board.until(lambda: "shares:reward::4-5" in unquote(unquote(board.page.url)), "the address has them")
    board.page.reload()
    expect(board.page.locator(".rl-explain-summary")).to_contain_text("Reward in steps 4–5")


def test_tokens_are_read_on_demand_and_lead_to_the_token_view(board: BoardPage) -> None:
    at(board, "grpo", STEP)
    choose(board, ".rl-explain-metric", "KL k3, mean per token (nats)")
    expect(board.page.locator(".rl-explain-summary")).to_contain_text("2 of 64 samples carry 92%")
    expect(rows(board, "rl-explain-shares", "“山”")).to_have_count(0)
    board.page.locator(".rl-explain-tokens button").click()
    row = rows(board, "rl-explain-shares", "“山”")
    expect(row).to_contain_text("+0.")
    expect(board.page.locator(".rl-explain-summary")).to_contain_text(
        "The token “山” carries 78% of the change"
    )
    row.click()
    expect(board.page.get_by_role("tab", name="Tokens", exact=True)).to_have_attribute(
        "aria-selected", "true"
    )
    expect(board.count).to_contain_text("of 64 match")


def test_the_filtered_samples_are_compared_with_the_rest(board: BoardPage) -> None:
    board.go(run="grpo", step=STEP, filter="invalid_chars > 0")
    expect(board.count).to_have_text("46 of 64 match")
    board.tab("Explain")
    view(board, "What is different in two sets")
    choose(board, ".rl-contrast-choice", "Filtered samples / the rest")
    expect(board.page.locator(".rl-contrast-note")).to_contain_text(
        "Filtered samples of step 46 (46 samples)"
    )
    expect(rows(board, "rl-contrast-rows", "invalid characters")).to_have_count(0)
    row = rows(board, "rl-contrast-rows", "contains “青�”")
    row.click()
    expect(board.count).to_have_text("43 of 64 match")
    rows(board, "rl-contrast-rows", "KL k2, mean per token").click()
    expect(board.page.locator(".rl-query input").first).to_have_value(
        re.compile(r"^\(invalid_chars > 0\) and \(`kl_k2_mean` > ")  # not within the 43 samples
    )


def test_ranges_of_steps_are_compared_and_a_word_leads_to_its_samples(board: BoardPage) -> None:
    at(board, "planted", 4)
    view(board, "What is different in two sets")
    choose(board, ".rl-contrast-choice", "Steps / other steps")
    for name, text in (("a", "4-6"), ("b", "1–3")):
        field = board.page.locator(f".rl-contrast-{name} input")
        field.fill(text)
        field.press("Enter")
    expect(board.page.locator(".rl-contrast-note")).to_contain_text(
        "Steps 4–6 (144 samples) against steps 1–3"
    )
    expect(board.page.locator(".rl-contrast-rows .track .whisker").first).to_be_visible()
    row = rows(board, "rl-contrast-rows", re.compile("contains|begins")).first
    row.click()
    expect(board.count).to_have_text("72 of 288 match")
    expect(board.sample_head).to_contain_text("rank 1 ·")


def test_two_runs_are_compared(board: BoardPage) -> None:
    at(board, "planted", 4)
    view(board, "What is different in two sets")
    choose(board, ".rl-contrast-choice", "This run / another run")
    expect(board.page.locator(".rl-contrast-note")).to_contain_text(
        re.compile(r"This run \(288 samples\) against grpo \(3,840\): \d+ differences")
    )


def test_repeated_responses_are_listed_as_text_and_lead_to_a_sample(board: BoardPage) -> None:
    at(board, "planted", 4)
    view(board, "Responses that repeat")
    expect(board.page.locator(".rl-cluster-note")).to_contain_text("72 of 288 samples (25%)")
    row = rows(board, "rl-cluster-rows", "again")
    expect(row).to_contain_text(f"{MARKUP} again")
    expect(row).to_contain_text("4–6")
    row.click()
    expect(board.count).to_have_text("72 of 288 match")
    assert board.page.evaluate("window.ran") is None


def test_a_box_in_the_scatter_plot_filters_the_samples(board: BoardPage) -> None:
    at(board, "planted", 4)
    view(board, "Two numbers of each sample")
    expect(board.page.locator(".rl-scatter-note")).to_contain_text("Step 4: 48 samples")
    canvas = board.page.locator(".rl-scatter-plot canvas").first
    expect(canvas).to_be_visible()
    box = canvas.bounding_box()
    assert box is not None
    mouse = board.page.mouse
    mouse.move(box["x"] + 70, box["y"] + 30)
    mouse.down()
    mouse.move(box["x"] + box["width"] - 20, box["y"] + box["height"] / 2, steps=5)
    mouse.up()
    expect(board.count).to_contain_text("of 48 match")
    expect(board.page.locator(".rl-scatter-note")).to_contain_text("48 samples")


def test_what_is_missing_is_said(board: BoardPage) -> None:
    at(board, "planted", 1)
    view(board, "Why a number changed")
    expect(board.page.locator(".rl-explain-summary")).to_contain_text("there is none before it")
    view(board, "What is different in two sets")
    choose(board, ".rl-contrast-choice", "Filtered samples / the rest")
    expect(board.page.locator(".rl-contrast-note")).to_contain_text("Filter or search the samples first")
