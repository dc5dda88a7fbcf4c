"""The list of 200 runs: search, order, folders, ticks, keyboard, hostile names, narrow windows."""

from __future__ import annotations

import os
import re
import time
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, expect

from tests.conftest import VIEWPORT
from tests.factories import append, line, write_run
from tests.ui.board import TICK_BOTH, BoardPage, Served
from tests.ui.conftest import OpenBoard

LOG = "rollout_data_rank_0.jsonl"
HOSTILE = "a'<img src=x onerror=window.ran=1>\u202egnp\n\"&"
SEEN = "a'<img src=x onerror=window.ran=1>\ufffdgnp\ufffd\"&"
LONG = "grpo-with-a-name-that-is-much-longer-than-the-side-panel-seed"
PHONE = {"width": 390, "height": 844}
#: Runs in the two large folders, and seconds between the newest lines of two runs.
EACH, APART = 98, 4000


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    """Write 200 runs. Every run of a folder is older than the one before it."""
    now = time.time()
    for folder, first in (("exp/a", 10_000), ("exp/b", 5_000)):
        for number in range(EACH):
            name = f"{LONG}{number}" if folder == "exp/a" else f"seed{number}"
            written(root / folder / name, now - first - APART * number)
    written(root / "evil" / HOSTILE, now - 3_000_000)
    written(root / "bare", now, reward=None)
    written(root / "live", now)
    written(root / "quiet", now - 600)


def written(folder: Path, modified: float, **fields: object) -> None:
    write_run(folder, steps=3, samples=2, tokens=False, **fields)  # type: ignore[arg-type]
    os.utime(folder / LOG, (modified, modified))


def tree(board: BoardPage) -> Locator:
    return board.page.get_by_role("tree", name="Runs")


def entries(board: BoardPage) -> Locator:
    return tree(board).locator(".run")


def entry(board: BoardPage, name: str) -> Locator:
    return tree(board).locator(f'.run[data-name="{name}"]')


def shown_names(board: BoardPage) -> list[str]:
    return entries(board).evaluate_all("(nodes) => nodes.map((node) => node.dataset.name)")


@pytest.fixture
def start(board: BoardPage) -> BoardPage:
    """The shared page with all folders open, no search and no tick."""
    board.go(run="live").settled()
    expect(board.badge.locator("b").first).to_have_text("live")
    board.page.get_by_label("Search runs").fill("")
    for head in tree(board).locator(".folder[aria-expanded=false] > .head").all():
        head.click()
    expect(entries(board)).to_have_count(200)
    return board


def test_the_most_useful_run_opens(board: BoardPage) -> None:
    board.open(page="overview").settled()  # without it, the table of all runs opens
    expect(tree(board).locator("[aria-selected=true]")).to_have_attribute("data-name", "live")
    expect(board.badge).to_contain_text("live")


def test_a_complete_list_offers_no_further_runs(board: BoardPage) -> None:
    board.settled()
    expect(entries(board).first).to_be_visible()
    # Its text is read as well while the style that hides it is loading.
    expect(board.page.locator("button", has_text="more of")).to_have_count(0)


def test_runs_are_listed_by_folder_and_newest_first(start: BoardPage) -> None:
    names = shown_names(start)
    assert set(names[:2]) == {"live", "bare"}
    assert names[2] == "quiet"
    assert names[3 : 3 + EACH] == [f"exp/b/seed{number}" for number in range(EACH)]
    assert names[3 + EACH : -1] == [f"exp/a/{LONG}{number}" for number in range(EACH)]
    assert names[-1] == f"evil/{HOSTILE}"
    folders = tree(start).locator(".folder > .head .label").all_inner_texts()
    assert folders == ["exp/b", "exp/a", "evil"]


def test_entries_lie_below_one_another_and_long_names_keep_their_end(start: BoardPage) -> None:
    boxes = entries(start).evaluate_all(
        """(nodes) => nodes.slice(0, 120).map((node) => node.getBoundingClientRect())
            .map((box) => [box.top, box.bottom])"""
    )
    assert all(after[0] >= before[1] - 0.5 for before, after in pairwise(boxes))
    long = entry(start, f"exp/a/{LONG}97")
    long.scroll_into_view_if_needed()
    expect(long).to_have_attribute("title", re.compile(f"^exp/a/{LONG}97"))
    label, tail = long.locator(".label").bounding_box(), long.locator(".back").bounding_box()
    assert label
    assert tail
    assert tail["x"] + tail["width"] <= label["x"] + label["width"] + 0.5
    expect(long.locator(".back")).to_have_text(re.compile("seed97$"))


def test_an_entry_says_what_is_known_of_its_run(start: BoardPage, root: Path) -> None:
    never = entry(start, "exp/b/seed5")
    told = r"^exp/b/seed5, finished, newest line 7 h ago, reward \S+ at step 3, in the last lines of a file$"
    expect(never).to_have_attribute("aria-label", re.compile(told))
    expect(never.locator(".second")).to_have_text(re.compile(r"^7 hstep 3\d"))
    live = entry(start, "live")
    expect(live).to_have_attribute("aria-label", re.compile(r", 6 samples, reward .* at step 3"))
    expect(live.locator(".trend polyline")).to_have_attribute(
        "points", re.compile(r"^0\.0,\d+ 50\.0,\d+ 100\.0,")
    )
    append(root / "live" / LOG, line(4, index=0, reward=77.0), line(4, index=1, reward=77.0))
    expect(live.locator(".samples")).to_have_text("8 samples")
    expect(live.locator(".reward")).to_have_text("77")
    expect(live).to_have_attribute("aria-label", re.compile("^live, live, 8 samples, reward 77 at step 4"))
    start.go(run="quiet").settled(3)
    expect(entry(start, "quiet")).to_have_attribute(
        "aria-label", re.compile("^quiet, quiet, newest line 1[0-9] min")
    )
    expect(entry(start, "quiet").locator(".dot")).to_have_class("dot quiet")


def test_search_narrows_the_list_down_and_enter_opens_the_first(start: BoardPage) -> None:
    search = start.page.get_by_label("Search runs")
    search.fill("EXP/b seed1")
    expect(entries(start)).to_have_count(11)
    assert shown_names(start)[:2] == ["exp/b/seed1", "exp/b/seed10"]
    expect(start.page.locator(".rl-runs [role=status]")).to_have_text("11 of 200")
    search.press("Enter")
    expect(start.badge).to_contain_text("exp/b/seed1")
    search.fill("no such run")
    expect(tree(start)).to_have_text("No run matches.")
    search.press("Escape")
    expect(entries(start)).to_have_count(200)


def test_a_folder_closes_and_a_search_looks_into_it(start: BoardPage) -> None:
    folder = tree(start).get_by_role("treeitem", name=f"exp/b, {EACH} runs")
    expect(folder).to_have_attribute("aria-expanded", "true")
    folder.locator(".head").click()
    expect(folder).to_have_attribute("aria-expanded", "false")
    expect(entries(start)).to_have_count(200 - EACH)
    start.page.get_by_label("Search runs").fill("seed42")
    expect(entry(start, "exp/b/seed42")).to_be_visible()
    start.page.get_by_label("Search runs").fill("")
    expect(entries(start)).to_have_count(200 - EACH)
    start.go(run="exp/b/seed42").settled(3)
    expect(entry(start, "exp/b/seed42")).to_be_in_viewport(ratio=0.9)


@pytest.mark.slow
def test_a_tick_overlays_a_run(start: BoardPage) -> None:
    for name in ("quiet", "exp/b/seed0"):
        entry(start, name).get_by_role("checkbox").check()
    expect(start.page).to_have_url(re.compile("over=quiet%2Cexp"))
    expect(start.page.locator(".rl-curve-bar .run")).to_have_text(["live", "quiet", "exp/b/seed0"])
    expect(entry(start, "exp/b/seed0").locator(".samples")).to_have_text("6 samples")
    expect(start.badge).to_contain_text("live")
    entry(start, "quiet").get_by_role("checkbox").uncheck()
    expect(start.page.locator(".rl-curve-bar .run")).to_have_text(["live", "exp/b/seed0"])
    start.page.get_by_role("button", name="clear", exact=True).click()
    expect(entry(start, "exp/b/seed0").get_by_role("checkbox")).not_to_be_checked()
    assert "over" not in parse_qs(urlsplit(start.page.url).query)


def test_a_box_that_has_the_focus_leaves_the_keys_to_the_page(start: BoardPage) -> None:
    entry(start, "quiet").get_by_role("checkbox").focus()
    start.page.keyboard.press("?")
    expect(start.page.locator(".rl-guide")).to_have_attribute("open", "")
    start.page.keyboard.press("Escape")


def test_an_answer_to_one_tick_does_not_undo_the_next(start: BoardPage) -> None:
    tree(start).locator('.run[data-name="quiet"] input, .run[data-name="exp/b/seed0"] input').evaluate_all(
        TICK_BOTH
    )
    expect(start.page.locator(".rl-curve-bar .run")).to_have_count(3)
    expect(entry(start, "exp/b/seed0").get_by_role("checkbox")).to_be_checked()
    written = start.page.evaluate("window.written")
    assert written
    assert all(written)


def test_at_most_eight_runs_are_ticked(start: BoardPage) -> None:
    start.go(run="live", over=",".join(f"exp/b/seed{number}" for number in range(8)))
    expect(tree(start).locator("input:checked")).to_have_count(8)
    expect(entry(start, "quiet").locator("input")).to_be_disabled()
    entry(start, "exp/b/seed3").locator("input").uncheck()
    expect(entry(start, "quiet").locator("input")).to_be_enabled()
    start.go(run="live")
    expect(tree(start).locator("input:checked")).to_have_count(0)


@pytest.mark.slow
def test_the_keyboard_moves_opens_ticks_and_folds(start: BoardPage) -> None:
    page = start.page
    page.get_by_label("Search runs").focus()
    for run in ("quiet", "live"):
        start.go(run=run).settled()
        expect(entry(start, run)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Tab")
    expect(entry(start, "live")).to_be_focused()
    outline = entry(start, "live").evaluate("(node) => getComputedStyle(node).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(entry(start, "quiet")).to_be_focused()
    page.keyboard.press("Space")
    expect(entry(start, "quiet").locator("input")).to_be_checked()
    expect(page).to_have_url(re.compile("over=quiet"))
    page.keyboard.press("Space")
    expect(entry(start, "quiet").locator("input")).not_to_be_checked()
    page.keyboard.press("ArrowDown")
    folder = tree(start).get_by_role("treeitem", name=f"exp/b, {EACH} runs")
    expect(folder).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(folder).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(entry(start, "exp/b/seed0")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(start.badge).to_contain_text("exp/b/seed1")
    start.at_step(3)  # the arrow keys of the list did not select another step
    expect(entry(start, "exp/b/seed1")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(folder).to_be_focused()
    page.keyboard.press("End")
    expect(entries(start).last).to_be_focused()


@pytest.mark.slow
def test_a_hostile_name_is_text(start: BoardPage) -> None:
    last = entries(start).last
    expect(last).to_have_attribute("aria-label", re.compile(f"^evil/{re.escape(SEEN)}, finished"))
    assert last.locator(".label").evaluate("(node) => node.textContent") == SEEN
    last.get_by_role("checkbox").check()
    expect(start.page.locator(".rl-curve-bar .run")).to_have_count(2)
    last.locator(".label").click()
    start.until(lambda: parse_qs(urlsplit(start.page.url).query).get("run") == [f"evil/{HOSTILE}"])
    start.at_step(3)
    assert start.page.evaluate("() => window.ran") is None
    expect(start.page.locator(".rl-runs img[src]")).to_have_count(0)


@pytest.mark.slow
def test_only_changed_entries_are_sent(open_board: OpenBoard, tmp_path: Path) -> None:
    for number in range(40):
        written(tmp_path / f"old-{number}", time.time() - 9000 - number)
    write_run(tmp_path / "grows", steps=2, samples=2)
    with Served(tmp_path) as server:
        board = open_board(server=server, run="grows").settled(2)
        expect(entry(board, "grows").locator(".samples")).to_have_text("4 samples")
        expect(entries(board).locator(".reward")).to_have_count(41)  # last lines of all runs were read
        board.page.reload()  # the page begins with all of them; changes are relative to what it began with
        board.settled(2)
        expect(entries(board).locator(".reward")).to_have_count(41)
        board.page.evaluate(NOTE_SENT)
        append(tmp_path / "grows" / LOG, line(3, reward=6.0))
        expect(entry(board, "grows").locator(".samples")).to_have_text("5 samples")
        assert board.page.evaluate("() => window.sent") == {"runs": 0, "changes": ["grows"]}


NOTE_SENT = """() => {
    window.sent = { runs: 0, changes: [] }
    const model = Bokeh.documents.flatMap((document) => [...document.all_models])
        .find((each) => each.css_classes?.includes("rl-side"))
    const { run_list_runs, run_list } = model.data.properties
    run_list_runs.change.connect(() => { window.sent.runs += 1 })
    run_list.change.connect(() => {
        window.sent.changes = JSON.parse(model.data.run_list).values.changes.map((run) => run.name)
    })
}"""


def test_a_run_opens_in_a_narrow_window_and_the_panel_closes(start: BoardPage) -> None:
    board = start
    board.page.set_viewport_size(PHONE)
    expect(tree(board)).to_be_hidden()
    toggle = board.page.get_by_role("button", name="Show or hide the runs")
    toggle.click()
    expect(tree(board)).to_be_visible()
    box = tree(board).bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
    entry(board, "exp/b/seed0").click()
    expect(board.badge.locator("b").first).to_have_text("exp/b/seed0")
    expect(tree(board)).to_be_hidden()
    expect(toggle).to_have_attribute("aria-expanded", "false")
    board.page.set_viewport_size(VIEWPORT)
