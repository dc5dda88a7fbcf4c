"""The table of all runs: which are broken, filters, ticks, keyboard, two thousand runs, widths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.conftest import VIEWPORT
from tests.many_runs import COLLAPSES, NEVER, UNREADABLE, write_many
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import OpenBoard

#: Runs of the module's root.
COUNT = 24
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    write_many(root, COUNT)
    return root


@pytest.fixture(scope="module", autouse=True)
def checked() -> Iterator[None]:
    """Let runs be checked in the background."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLPANEL_CHECK", "1")
        yield


def lines(board: BoardPage) -> Locator:
    return board.page.locator(".rl-runs-table .canvas .line.run")


def line_of(board: BoardPage, run: str) -> Locator:
    """Return the line of one run: other runs may have the same last part of the name."""
    return lines(board).filter(has=board.page.locator(f'.name[title^="{run}"]'))


def shown(board: BoardPage) -> list[str]:
    return lines(board).evaluate_all(
        """(all) => all.sort((a, b) => a.dataset.at - b.dataset.at).map(
            (one) => one.querySelector('.name').title.split('\\n')[0])"""
    )


def all_checked(board: BoardPage) -> BoardPage:
    expect(board.page.locator(".rl-runs-table .progress")).to_be_hidden(timeout=90_000)
    return board


def test_the_three_broken_runs_stand_on_top_and_one_click_opens_one(board: BoardPage) -> None:
    all_checked(board.open())
    assert board.page.url.endswith("?page=table")
    wrong = board.page.locator(".line.run:is(.alarm, .unread)")
    expect(wrong).to_have_count(3)
    assert {*shown(board)} >= {COLLAPSES, NEVER, UNREADABLE}
    collapsed = line_of(board, COLLAPSES)
    expect(collapsed).to_contain_text("▲")
    expect(collapsed.locator(".trend rect")).to_have_count(1)
    expect(lines(board).filter(has_text="cannot be read")).to_contain_text("the last line is incomplete")
    collapsed.click()
    expect(board.badge).to_contain_text(COLLAPSES)
    expect(board.page.locator(".rl-runs-table")).to_be_hidden()
    board.page.go_back()
    expect(wrong).to_have_count(3)


def test_chips_a_filter_and_the_order_narrow_down(board: BoardPage) -> None:
    all_checked(board.go(page="table"))
    count = board.page.locator(".rl-runs-table .count")
    expect(count).to_have_text(f"{COUNT} runs")
    board.page.get_by_role("button", name="cannot be read 1").click()
    expect(count).to_have_text(f"1 of {COUNT} runs")
    board.page.get_by_role("button", name="cannot be read 1").click()
    board.page.get_by_label("Filter runs").fill("lr > 2e-6 and seed < 3")
    expect(lines(board).first).to_be_visible()
    expect(count).not_to_have_text(f"{COUNT} runs")
    board.page.get_by_label("Filter runs").fill("lrr > 2e-6")
    expect(board.page.locator(".rl-runs-table .error")).to_contain_text("did you mean lr")
    board.page.get_by_label("Filter runs").fill("")
    board.page.get_by_role("button", name="reward ± s.e.").click()
    expect(board.page.locator(".rl-runs-table .line.folder")).to_have_count(0)
    board.page.get_by_role("button", name="reward ± s.e. ▾").click()
    expect(board.page.get_by_role("columnheader", name="reward ±")).to_have_attribute(
        "aria-sort", "ascending"
    )
    board.until(lambda: set(shown(board)[:2]) == {COLLAPSES, NEVER}, "the smallest rewards come first")


def test_keys_move_tick_and_open_and_ticked_runs_are_overlaid(open_board: OpenBoard) -> None:
    board = all_checked(open_board(page="table"))
    page = board.page
    page.keyboard.press("/")
    page.keyboard.type("math/lr1e-6")
    expect(lines(board)).to_have_count(2)
    page.keyboard.press("Enter")
    for key in ("Home", "ArrowDown", "Space", "ArrowDown", "Space"):
        page.keyboard.press(key)
    foot = page.locator(".rl-runs-table .foot")
    expect(foot).to_contain_text("differ in seed")
    expect(foot.get_by_role("button", name="Compare prompts")).to_be_enabled()
    foot.get_by_role("button", name="Overlay curves").click()
    expect(board.badge).to_contain_text("math/lr1e-6")
    expect(page.get_by_role("tree", name="Runs").locator("input:checked")).to_have_count(1)


def test_a_link_to_a_run_opens_it_and_the_list_leads_to_the_table(open_board: OpenBoard) -> None:
    board = open_board(run="code/lr1e-6-seed0")
    expect(board.page.locator(".rl-runs-table")).to_be_hidden()
    board.page.get_by_role("button", name="table").click()
    expect(lines(board).first).to_be_visible()
    board.page.get_by_role("button", name="back to the run").click()
    expect(board.page.locator(".rl-runs-table")).to_be_hidden()
    expect(board.badge).to_contain_text("code/lr1e-6-seed0")


def test_the_list_shows_only_runs_with_a_finding(open_board: OpenBoard) -> None:
    board = all_checked(open_board(page="table"))
    line_of(board, COLLAPSES).click()
    tree = board.page.get_by_role("tree", name="Runs")
    expect(tree.locator(".run")).to_have_count(COUNT)
    board.page.get_by_role("button", name="Only runs with a finding").click()
    expect(tree.locator(f'[data-name="{COLLAPSES}"]')).to_be_visible()
    expect(tree.locator('[data-name="code/lr1e-6-seed0"]')).to_have_count(0)


@pytest.mark.slow
def test_nothing_is_cut_off_at_any_width(board: BoardPage) -> None:
    board.page.set_viewport_size({"width": 390, "height": 900})
    board.open(page="table")
    scroller = board.page.locator(".rl-runs-table .scroller")
    buttons = board.page.locator(".rl-runs-table").locator("button, .tick label")
    small = """(all) => all.map((one) => one.getBoundingClientRect().height)
        .filter((height) => height > 0 && height < 24).length"""
    for width in (390, 800, 1024, 1440, 1920):
        board.page.set_viewport_size({"width": width, "height": 900})
        expect(lines(board).first).to_be_visible()
        board.until(
            lambda: scroller.evaluate("(node) => node.scrollWidth <= node.clientWidth"),
            f"nothing is cut off at {width} px",
        )
        assert buttons.evaluate_all(small) == 0, width
    board.page.set_viewport_size(VIEWPORT)


@pytest.mark.slow
def test_two_thousand_runs_have_few_elements(
    tmp_path: Path, open_board: OpenBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLPANEL_CHECK", "0")
    write_many(tmp_path, 2000, steps=1, samples=1)
    with Served(tmp_path) as server:
        board = open_board(server=server)
        expect(board.page.locator(".rl-runs-table .count")).to_have_text("2,000 runs")
        assert board.page.locator(".rl-runs-table .canvas .line").count() < 80
        board.page.keyboard.press("End")
        scroller = board.page.locator(".rl-runs-table .scroller")
        assert scroller.evaluate("(node) => node.scrollTop") > 10_000
        assert board.page.locator(".rl-runs-table .canvas .line").count() < 80
