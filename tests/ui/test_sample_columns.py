"""The grid in the browser: answers beside truths, columns by content, chips, and the help of the filter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

import rlpanel
from tests.factories import append, line
from tests.ui.board import BoardPage

#: Prompts of four samples each; every other answer is right.
PROMPTS = 12


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    (root / "math").mkdir()
    lines = [
        line(step, index=index, prompt=f"{index // 4}+5?", reward=float(index % 4 == 0), tokens=False,
             response=rf"<think> Let me add them. {index} </think> So \boxed{{{index // 4 + 5 + index % 2}}}",
             ground_truth=str(index // 4 + 5), status="ok", drop=["ref_response", "ref_reward"])
        for step in (1, 2)
        for index in range(4 * PROMPTS)
    ]  # fmt: skip
    append(root / "math" / "rollout_data_rank_0.jsonl", *lines)


def chips(board: BoardPage) -> list[str]:
    return board.page.locator(".rl-query .chip > span").all_inner_texts()


def heads(board: BoardPage) -> list[str]:
    return board.grid.locator(".tabulator-col-title").all_inner_texts()


def test_a_right_answer_without_a_reward_is_found_in_two_clicks(board: BoardPage) -> None:
    board.go(run="math", step=2).settled(2)
    assert heads(board)[:6] == ["prompt", "response", "reward", "answer", "truth", "match"]
    expect(board.page.locator(".rl-sample .answer")).to_have_text(re.compile("5.*truth.*5.*✓ equal"))
    board.page.locator(".rl-query summary").get_by_text("Presets").click()
    board.page.get_by_role("button", name="Answer matches, reward 0").click()
    expect(board.count).to_have_text(f"{PROMPTS} of {4 * PROMPTS} match")
    assert chips(board) == ["match = yes", "reward = 0"]
    assert {*board.settled().column("match")} == {"✓ yes"}
    board.page.get_by_title("Take off match = yes").click()
    expect(board.count).to_have_text(f"{3 * PROMPTS} of {4 * PROMPTS} match")
    expect(board.page).to_have_url(re.compile(r"filter=reward\+%3D\+0$"))


@pytest.mark.parametrize(("width", "numbers"), [(1440, 3), (2560, 6)])
def test_texts_leave_room_for_numbers_and_are_not_empty(board: BoardPage, width: int, numbers: int) -> None:
    board.page.set_viewport_size({"width": width, "height": 900})
    board.go(run="math", step=2).settled(2)
    holder = board.grid.locator(".tabulator-tableholder").bounding_box()
    assert holder is not None
    cells = [cell.bounding_box() for cell in board.rows.first.locator(".tabulator-cell").all()]
    prompt, _, *others = [cell for cell in cells if cell]
    assert prompt["width"] < 100  # "5+5?"
    inside = [cell for cell in others if cell["x"] + cell["width"] <= holder["x"] + holder["width"]]
    assert len(inside) >= numbers
    board.page.set_viewport_size({"width": 1440, "height": 900})


@pytest.mark.parametrize("width", [1024, 1440, 1700])
def test_the_edge_cuts_no_column(board: BoardPage, width: int) -> None:
    board.page.set_viewport_size({"width": width, "height": 900})
    board.go(run="math", step=2).settled(2)
    holder = board.grid.locator(".tabulator-tableholder").bounding_box()
    assert holder is not None
    edge = holder["x"] + holder["width"]

    def is_whole() -> bool:
        boxes = [head.bounding_box() for head in board.grid.locator(".tabulator-col").all()]
        return all(
            box is None or box["x"] >= edge - 1 or box["x"] + box["width"] <= edge + 1 for box in boxes
        )

    board.until(is_whole, "no column is cut")
    board.page.set_viewport_size({"width": 1440, "height": 900})


def test_a_page_has_the_rows_that_fit_and_shows_the_sample_of_the_address(
    board: BoardPage, root: Path
) -> None:
    board.page.set_viewport_size({"width": 1440, "height": 1700})
    board.go(run="math", step=2).settled(2)
    board.until(lambda: board.rows.count() > 20, "rows that fit")
    board.page.set_viewport_size({"width": 1440, "height": 900})
    uid = rlpanel.open_run(root / "math", follow=False).samples(2).uid.iloc[39]
    board.go(run="math", step=2, sample=uid, filter="reward = 0 and step > 0").settled()
    chosen = board.grid.locator(".tabulator-selected")
    expect(chosen).to_be_in_viewport()


def test_no_match_keeps_the_tab_and_says_what_each_condition_finds(board: BoardPage) -> None:
    board.go(run="math", step=2, columns="response:Let me").settled(2)
    assert chips(board) == ["response: Let me"]
    tab = board.page.locator(
        ".rl-sample .tabs [aria-selected=true], .rl-sample [role=tab][aria-selected=true]"
    ).first
    before = tab.inner_text()
    board.page.get_by_label("filter expression").fill("reward = 1 and match = no and rank < 0")
    board.press("Enter")
    expect(board.count).to_have_text(f"0 of {4 * PROMPTS} match")
    expect(board.page.locator(".rl-query .chip").first).to_contain_text(f"{PROMPTS} alone")
    assert tab.inner_text() == before
    board.page.get_by_title("Clear the filter").click()
    # The chips move when others go: a click meanwhile would miss.
    board.until(lambda: chips(board) == ["response: Let me"], "the conditions of the filter are gone")
    board.page.get_by_role("button", name="Take off response: Let me").click()
    expect(board.count).to_have_text(f"{4 * PROMPTS} of step 2")
    board.until(lambda: chips(board) == [], "no chips are left")


def test_the_help_writes_an_example_into_the_filter(board: BoardPage) -> None:
    board.go(run="math", step=2).settled(2)
    board.page.get_by_title("What a filter can say").click()
    panel = board.page.locator(".rl-query .help .panel")
    expect(panel).to_contain_text("ground truth")
    panel.get_by_text("match = yes and reward = 0").click()
    expect(board.count).to_have_text(f"{PROMPTS} of {4 * PROMPTS} match")
    board.page.get_by_role("button", name="clear all").click()
    expect(board.count).to_have_text(f"{4 * PROMPTS} of step 2")
