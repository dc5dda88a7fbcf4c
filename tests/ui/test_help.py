"""Help in place: the hint of a first visit, the panel behind the ``?``, and what a card shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from rlpanel.app.demo import write_recording
from tests.conftest import VIEWPORT
from tests.ui.board import BoardPage, Served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def run(root: Path) -> None:
    write_recording("ppo_couplets", root / "ppo")


def test_the_hint_of_a_first_visit_is_closed_for_good(browser: Browser, served: Served) -> None:
    context = browser.new_context(viewport=VIEWPORT, locale="en-US")
    board = BoardPage(context.new_page(), served.url).open(run="ppo", step=9).settled(9)
    hint = board.page.locator(".guide .hint")
    expect(hint).to_contain_text("First visit?")
    place = hint.bounding_box()
    assert place is not None
    assert place["y"] > VIEWPORT["height"] - 120  # it covers neither the pages nor the findings
    hint.get_by_role("button").click()
    expect(hint).to_have_count(0)
    board.go(run="ppo", step=9).settled(9)
    expect(board.page.locator(".rl-guide > summary")).to_be_visible()
    expect(hint).to_have_count(0)
    context.close()


def test_opening_the_help_ends_the_first_visit(browser: Browser, served: Served) -> None:
    context = browser.new_context(viewport=VIEWPORT, locale="en-US")
    board = BoardPage(context.new_page(), served.url).open(run="ppo", step=9).settled(9)
    board.page.locator(".rl-guide > summary").click()
    expect(board.page.locator(".guide .hint")).to_have_count(0)
    board.page.locator(".rl-guide").get_by_text("Words", exact=True).click()
    expect(board.page.locator(".rl-guide")).to_contain_text("The samples of one prompt in one step.")
    context.close()


def test_a_card_says_what_it_shows(board: BoardPage) -> None:
    board.go(run="ppo", step=9).settled(9)
    cards = {"The score": board.curve("Reward"), "step 9": board.page.locator(".rl-distribution")}
    for text, card in cards.items():
        card.locator(".rl-take summary").click()
        board.page.get_by_role("button", name="What am I seeing?").click()
        about = card.locator(".about")
        expect(about).to_be_focused()
        expect(about).to_contain_text(text, ignore_case=True)
        board.press("Escape")
        expect(about).to_have_count(0)
        expect(card.locator(".rl-take summary")).to_be_focused()
