"""The strip's rows can be chosen and ordered, and the browser stores the choice."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import OpenTokens
from tests.ui.token_page import TokenTab, make_sample, raw_line


@pytest.fixture
def page(token_tab: TokenTab) -> Page:
    """The page on which all views of this module are drawn."""
    return token_tab.page


def labels(page: Page) -> list[str]:
    return page.locator(".rl-row-label").evaluate_all("labels => labels.map(l => l.dataset.row)")


def choose(page: Page, row: str, what: str) -> None:
    page.locator(f'[data-choice="{row}"]').get_by_title(what, exact=True).click()


def test_a_hidden_row_leaves_the_strip_and_its_colours_stay_with_the_others(
    open_tokens: OpenTokens, page: Page
) -> None:
    board = open_tokens(sample=make_sample(raw_line(0)))
    before = labels(page)
    colors = board.strip_colors(before.index("value"), 23)
    page.locator(".rl-rows").click()
    choose(page, "log_ratio", "Show or hide")
    expect(page.locator('.rl-row-label[data-row="log_ratio"]')).to_have_count(0)
    assert labels(page) == [name for name in before if name != "log_ratio"]
    assert board.strip_colors(labels(page).index("value"), 23) == colors
    expect(board.chip("log_ratio")).to_be_visible()
    expect(page.locator(".rl-rows")).to_have_text("Rows (1 hidden)")


def test_a_row_moves_up_and_its_colours_with_it(open_tokens: OpenTokens, page: Page) -> None:
    board = open_tokens(sample=make_sample(raw_line(0)))
    before = labels(page)
    at = before.index("value")
    colors = board.strip_colors(at, 23)
    page.locator(".rl-rows").click()
    choose(page, "value", "Move up")
    wanted = before.copy()
    wanted[at - 1], wanted[at] = wanted[at], wanted[at - 1]
    assert labels(page) == wanted
    assert board.strip_colors(at - 1, 23) == colors


def test_the_choice_outlives_sample_and_page_until_it_is_reset(open_tokens: OpenTokens, page: Page) -> None:
    board = open_tokens(sample=make_sample(raw_line(0)))
    before = labels(page)
    page.locator(".rl-rows").click()
    choose(page, "prob", "Show or hide")
    choose(page, before[1], "Move up")
    wanted = [name for name in [before[1], before[0], *before[2:]] if name != "prob"]
    board.view.sample = make_sample(raw_line(1))
    expect(board.text).to_contain_text("霜")
    assert labels(page) == wanted
    page.reload()
    page.locator(".rl-row-label").first.wait_for()
    assert labels(page) == wanted
    page.locator(".rl-rows").click()
    page.locator(".rl-rows-reset").click()
    assert labels(page) == before


@pytest.mark.parametrize("kept", ["not json", '{"order": 3, "hidden": {"a": 1}}', '["x"]', "null"])
def test_a_broken_choice_is_no_choice(open_tokens: OpenTokens, page: Page, kept: str) -> None:
    page.evaluate("(kept) => localStorage.setItem('rlpanel.token-rows', kept)", kept)
    open_tokens(sample=make_sample(raw_line(0)))
    assert "log_ratio" in labels(page)


def test_rows_and_lines_are_higher_on_a_large_screen(open_tokens: OpenTokens, page: Page) -> None:
    usual = page.viewport_size
    board = open_tokens(sample=make_sample(raw_line(0)))
    heights = []
    for size in (usual, {"width": 1920, "height": 1080}, usual):
        page.set_viewport_size(size)
        rows = 24 if size["width"] == 1920 else 18
        expect(page.locator(".rl-row-label").first).to_have_css("height", f"{rows}px")
        expect(board.strip).to_have_css("height", f"{rows * len(labels(page))}px")
        heights.append(page.locator(".rl-lines").bounding_box()["height"])
    assert heights[0] == heights[2] == heights[1] - 62


def test_pointing_into_the_strip_reads_the_row_that_is_drawn_there(
    open_tokens: OpenTokens, page: Page
) -> None:
    board = open_tokens(sample=make_sample(raw_line(0)))
    page.locator(".rl-rows").click()
    for name in labels(page)[:3]:
        choose(page, name, "Show or hide")
    box = board.strip.bounding_box()
    assert box is not None
    assert box["height"] == pytest.approx(18 * len(labels(page)), abs=1)
    page.mouse.move(box["x"] + box["width"] * 13.5 / 23, box["y"] + 5)
    expect(board.tip.locator(".rl-tip-head")).to_have_text("#13 “d”")
