"""The selection in the address: links, reloads, Back and Forward, and invalid links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from rlpanel.app.demo import write_recording
from tests.factories import write_run
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import OpenBoard, Profile

#: A notice disappears after some seconds, perhaps before a slow test looks for it: keep what was shown.
KEEP_NOTICES = """
window.shown = []
new MutationObserver((changes) => {
  for (const { addedNodes } of changes) {
    for (const node of addedNodes) window.shown.push(node.textContent ?? "")
  }
}).observe(document, { childList: true, subtree: true })
"""
SHOWN = "(text) => window.shown.some((shown) => shown.includes(text))"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write_recording("ppo_couplets", root / "ppo")
    write_run(root / "123", steps=[0, 100, 200], samples=4)


def test_a_link_opens_what_it_names_and_a_bad_value_is_ignored_alone_and_said(board: BoardPage) -> None:
    board.open(run="ppo", step=9, metric="kl_k3", theme="light", token="x")
    expect(board.page.get_by_text("token=x in the link is not valid").first).to_be_visible()
    board.settled(9)
    expect(board.page.locator('[data-metric="kl_k3"][aria-pressed="true"]')).to_be_visible()
    expect(board.page.locator(".rl-light").first).to_be_visible()


@pytest.mark.parametrize("linked", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_the_theme_of_a_link_wins_over_that_of_the_system(board: BoardPage, linked: str) -> None:
    system = "dark" if linked == "light" else "light"
    board.page.emulate_media(color_scheme=system)
    board.open(run="ppo", step=9, theme=linked).settled(9)
    board.press("j")  # the board has handled the messages of the page
    board.until(lambda: "sample=" in board.page.url, "the next sample is chosen")
    expect(board.page.locator("html")).to_have_class(f"rl-{linked}")
    assert "theme=" not in board.page.url, "the address is for others, the theme is the reader's own"
    board.page.emulate_media(color_scheme="dark")


#: Records the themes that the window shows.
RECORD_THEMES = """
window.themes = []
new MutationObserver((changes) => {
  const root = document.documentElement
  if (changes.some(({ target }) => target === root)) { window.themes.push(root.className) }
}).observe(document, { subtree: true, attributes: true, attributeFilter: ["class"] })
"""


@pytest.mark.slow
def test_the_system_theme_is_shown_from_the_first_paint_on(open_board: OpenBoard) -> None:
    """At the second visit the server draws in it, so that nothing is drawn again."""
    board = open_board(run="ppo", step=9)
    board.page.emulate_media(color_scheme="light")
    board.page.add_init_script(RECORD_THEMES)
    sent: list[str] = []
    board.page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
    for visit in (1, 2):
        sent.clear()
        board.open(run="ppo", step=9).settled(9)
        expect(board.page.get_by_role("button", name="Dark theme")).to_be_visible()
        assert set(board.page.evaluate("window.themes")) == {"rl-light"}
        assert any('["theme",' in frame for frame in sent) == (visit == 1)


def test_back_and_forward_walk_the_steps(board: BoardPage) -> None:
    board.go(run="ppo", step=9).settled(9)
    board.press("ArrowRight")
    board.at_step(10)
    board.press("ArrowRight")
    board.at_step(11)
    expect(board.page).to_have_url(re.compile("step=11"))  # the value that is sent last
    board.page.go_back()
    board.at_step(10)
    board.page.go_forward()
    board.at_step(11)


def test_the_theme_turns_without_a_reload(board: BoardPage) -> None:
    board.go(run="ppo", step=9, theme="dark").settled(9)
    board.page.evaluate("() => { window.marker = 1 }")
    for theme in ("light", "dark"):
        board.page.get_by_role("button", name=f"{theme.capitalize()} theme").click()
        expect(board.page.locator(f".rl-page.rl-{theme}")).to_be_visible()
    assert board.page.evaluate("() => window.marker") == 1
    board.at_step(9)


def test_what_is_chosen_survives_a_reload(board: BoardPage) -> None:
    board.go(run="123", step=100).settled(100)
    first = board.uid()
    board.rows.nth(2).click()
    board.until(lambda: board.uid() not in ("", first), "another sample is shown")
    chosen = board.uid()
    expect(board.page).to_have_url(re.compile("sample="))
    board.page.reload()
    board.settled(100).shows(chosen)


def test_links_to_a_run_named_by_a_number(board: BoardPage) -> None:
    """A step that is not there shows the nearest; a link typed by hand may hold question marks."""
    board.go(run="123", step=140)
    said = board.page.get_by_text("step 140 is not in this run; step 100 is the nearest")
    expect(said.first).to_be_visible()
    expect(board.settled(100).badge).to_contain_text("123")
    board.page.goto(f"{board.url}?run=123&step=200&search=what?or?why?")
    expect(board.search).to_have_value("what?or?why?")
    expect(board.step_label.locator("b")).to_have_text("Step 200")


def test_a_run_that_is_not_there_says_so_and_shows_one_that_is(
    open_board: OpenBoard, profile: Profile
) -> None:
    profile.context.add_init_script(KEEP_NOTICES)
    board = open_board(run="gone")
    for name in ("gone", "../..", "/etc", "ppo/../../x"):
        if name != "gone":
            board.go(run=name)
        board.page.wait_for_function(SHOWN, arg=f"no run {name!r}")
        expect(board.page).to_have_url(re.compile(r"run=(ppo|123)(&|$)"))
        board.settled()


def test_the_query_of_a_link_on_another_site_waits_for_the_viewer(board: BoardPage, served: Served) -> None:
    for key, filtered in (("Enter", True), ("Space", False)):
        board.page.goto("data:text/html,<a>a link</a>")
        address = f"{served.url}?run=123&step=100&filter=reward > 0.5&search=/a{{9}}|answer/"
        board.page.locator("a").evaluate("(link, to) => { link.href = to }", address)
        board.page.get_by_text("a link").click()
        board.settled(100)
        notice = board.page.locator(".rl-link")
        expect(notice).to_contain_text("This link comes from another site. Run its search and filter?")
        expect(notice).to_contain_text("reward > 0.5")
        expect(notice).to_contain_text("/a{9}|answer/")
        expect(board.rows).to_have_count(4)
        expect(board.search).to_have_value("")
        assert "filter" not in board.page.url
        notice.get_by_role("button", name="Run").focus()
        if not filtered:
            board.press("Tab")
        board.press(key)
        expect(notice).to_be_hidden()
        expect(board.search).to_have_value("/a{9}|answer/" if filtered else "")
        board.until(lambda filtered=filtered: ("filter=" in board.page.url) == filtered, "the address")
    board.open(run="123", step=100, filter="reward > 0.5").settled()  # as typed
    expect(board.page.locator(".rl-link")).to_be_hidden()
    expect(board.page.get_by_role("textbox", name="filter expression")).to_have_value("reward > 0.5")


@pytest.mark.slow
def test_back_leaves_a_link_that_was_corrected(open_board: OpenBoard) -> None:
    board = open_board(run="ppo", step=9).settled(9)
    board.go(run="gone")
    expect(board.page).to_have_url(re.compile("run=123$"))
    board.page.go_back()
    board.at_step(9)
    expect(board.page).to_have_url(re.compile("run=ppo&step=9$"))
