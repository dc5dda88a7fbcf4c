"""A board with a token in a browser: the token is needed once, then the page works as usual."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.factories import write_run
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import Profile
from tests.waiting import wait_until

TOKEN = "open sesame and come in"
#: Puts a script and an event attribute into the page, as markup that was not escaped would.
INJECTED = """() => {
  const script = document.createElement("script")
  script.textContent = "window.ran = 'script'"
  const holder = document.createElement("div")
  holder.innerHTML = "<img src='data:,' onerror=\\"window.ran = 'attribute'\\">"
  document.body.append(script, holder)
}"""


@pytest.fixture(scope="module")
def guarded(root: Path) -> Iterator[Served]:
    write_run(root / "run", steps=3, ranks=1, samples=4)
    with Served(root, TOKEN) as server:
        yield server


@pytest.mark.usefixtures("clean")
def test_the_token_opens_the_board_at_the_link_that_was_asked_for(guarded: Served, profile: Profile) -> None:
    page = profile.context.new_page()
    page.goto(f"{guarded.url}?run=run&step=1")
    expect(page.get_by_label("token")).to_be_focused()
    page.keyboard.type(TOKEN)
    page.keyboard.press("Enter")
    board = BoardPage(page, guarded.url)
    expect(board.step_label).to_contain_text("1")
    assert "sesame" not in page.url
    page.close()


@pytest.mark.usefixtures("clean")
def test_a_script_that_gets_into_the_page_does_not_run(guarded: Served, profile: Profile) -> None:
    """The page's own scripts run, as the other tests show; they carry the nonce of the content policy."""
    page = profile.context.new_page()
    page.goto(f"{guarded.url}login#{urlencode({'token': TOKEN})}")
    BoardPage(page, guarded.url).open(run="run").settled()
    page.evaluate(INJECTED)
    wait_until(lambda: sum("Content Security Policy" in text for text in profile.trouble) == 2, page=page)
    assert page.evaluate("window.ran") is None
    profile.trouble.clear()  # what was refused
    page.close()
