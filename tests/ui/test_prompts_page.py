"""The page *Prompts*: learnt, dead, forgotten and flaky prompts, with the reason where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.factories import append, line
from tests.ui.board import BoardPage, cells_of

LOG = "rollout_data_rank_0.jsonl"
#: Prompt → number of solved samples of eight at each of four steps.
SOLVED = {
    "How is learnt learnt?": (0, 1, 7, 8),
    "How is dead dead?": (0, 0, 0, 0),
    "How is lost lost?": (8, 8, 0, 0),
    "How is flaky flaky?": (0, 8, 0, 8),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    for name, steps in (("long", 4), ("short", 2)):
        (root / name).mkdir()
        for step in range(1, steps + 1):
            append(
                root / name / LOG,
                *(
                    line(step, prompt=prompt, reward=float(at < solved[step - 1]), tokens=False, group=prompt)
                    for prompt, solved in SOLVED.items()
                    for at in range(8)
                ),
            )
    return root


def rows(board: BoardPage) -> Locator:
    return board.page.locator(".rl-prompts-table .tabulator-row")


def course(board: BoardPage, name: str) -> Locator:
    return board.page.locator(".rl-courses").get_by_role("tab", name=name)


def test_a_dead_prompt_is_found_in_at_most_three_clicks(board: BoardPage) -> None:
    board.open(run="long").settled()
    board.page.locator(".rl-pages").get_by_role("tab", name="Prompts").click()  # 1
    expect(course(board, "dead 1")).to_have_attribute("aria-selected", "true")
    expect(rows(board).locator(cells_of("prompt"))).to_have_text(["How is dead dead?"])
    rows(board).first.click()  # 2: its samples
    expect(board.page.locator(".rl-over-time-note")).to_contain_text("32 samples at 4 steps")
    expect(board.sample_head).to_contain_text("step 4")


def test_each_course_has_a_count_and_its_definition(board: BoardPage) -> None:
    board.open(run="long", page="prompts").settled()
    for name, prompt in (("learnt 1", "learnt"), ("forgotten 1", "lost"), ("flaky 1", "flaky")):
        course(board, name).click()
        expect(rows(board).locator(cells_of("prompt"))).to_have_text([f"How is {prompt} {prompt}?"])
    note = board.page.locator(".rl-courses-note")
    expect(note).to_contain_text("The mean reward moves up and down.")
    expect(note).to_contain_text("4 of 4 prompts were seen at 3 steps or more.")
    course(board, "all 4").click()
    expect(rows(board)).to_have_count(4)
    expect(rows(board).locator("img")).to_have_count(4)


def test_an_empty_page_says_why(board: BoardPage) -> None:
    board.open(run="short", page="prompts").settled()
    note = board.page.locator(".rl-courses-note")
    expect(note).to_contain_text("0 of 4 prompts were seen at 3 steps or more; at most at 2.")
    board.settings().get_by_label("Prompts seen at (steps)").fill("2")
    board.page.keyboard.press("Enter")
    expect(note).to_contain_text("4 of 4 prompts were seen at 2 steps or more.")
