"""A board with a token in a browser: the token is needed once, then the page works as usual."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.factories import write_run
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import Profile


@pytest.fixture(scope="module")
def guarded(root: Path) -> Iterator[Served]:
    write_run(root / "run", steps=3, ranks=1, samples=4)
    with Served(root, "open sesame and come in") as server:
        yield server


@pytest.mark.usefixtures("clean")
def test_the_token_opens_the_board_at_the_link_that_was_asked_for(guarded: Served, profile: Profile) -> None:
    page = profile.context.new_page()
    page.goto(f"{guarded.url}?run=run&step=1")
    expect(page.get_by_label("token")).to_be_focused()
    page.keyboard.type("open sesame and come in")
    page.keyboard.press("Enter")
    board = BoardPage(page, guarded.url)
    expect(board.step_label).to_contain_text("1")
    assert "sesame" not in page.url
    page.close()
