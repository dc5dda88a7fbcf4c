"""Checks every tab with axe-core in both themes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.factories import write_run
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import OpenBoard
from tests.unknown_files import write_unknown

pytestmark = pytest.mark.slow

#: WCAG 2.1 on level AA, and the rules that axe-core recommends beyond it.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
#: The first two are Tabulator's own markup; views are embedded below headings of several levels.
LEFT_OUT = {"aria-required-children", "empty-table-header", "heading-order"}
#: Else axe-core describes every element that keeps a rule: megabytes, in four times the time. Nothing is
#: preloaded: the run has no media, and the rules above need no style sheets of other hosts.
OPTIONS = {"runOnly": RULES, "resultTypes": ["violations"], "preload": False}


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path, ppo_run: Path, grpo_run: Path) -> None:
    """The recorded PPO run, in which every tab has content, a run with a finding, and runs in folders."""
    shutil.copytree(ppo_run, root / "ppo")
    shutil.copytree(grpo_run, root / "grpo")
    for number in range(10):
        folder = write_run(root / "exp" / f"seed{number}", steps=2, samples=2)
        os.utime(folder / "rollout_data_rank_0.jsonl", (number, number))


def violations(page: Page, part: str = "html") -> list[str]:
    """Return a line for each element of a part of the page that breaks a rule."""
    page.evaluate(Axe().axe_script)
    found = page.locator(part).evaluate("(part, options) => axe.run(part, options)", OPTIONS)["violations"]
    return [
        f"{rule['id']}: {node['target'][-1]} {node['html'][:120]}"
        for rule in found
        if rule["id"] not in LEFT_OUT
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("size", [(390, 844), (1440, 900)])
def test_every_tab_keeps_the_rules_of_accessibility(
    open_board: OpenBoard, theme: str, size: tuple[int, int]
) -> None:
    board = open_board(run="ppo", theme=theme)
    board.page.set_viewport_size({"width": size[0], "height": size[1]})
    board.settled()
    expect(board.page.locator(f".rl-{theme}").first).to_be_attached()
    assert violations(board.page) == []
    # The tabs of the sample first: they are not there once a page of the run is open.
    for bar, part in ((".rl-sample", ".rl-sample"), (".rl-pages", None)):
        for name in board.page.locator(bar).get_by_role("tab", include_hidden=True).all_text_contents():
            board.tab(name)
            tab = board.page.get_by_role("tab", name=name, exact=True, include_hidden=True)
            expect(tab).to_have_attribute("aria-selected", "true")
            board.until(lambda: not board.page.locator(".bk-loading, .loading").count(), "it is drawn")
            assert violations(board.page, *([part] if part else [])) == [], name


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_form_for_unknown_files_keeps_the_rules(
    open_board: OpenBoard, tmp_path: Path, theme: str
) -> None:
    for name in ("misspelt.jsonl", "unnamed.jsonl"):
        write_unknown(tmp_path, name)
    with Served(tmp_path) as server:
        board = open_board(server=server, theme=theme)
        board.stage.get_by_role("button", name="Map the fields of a file").click()
        form = board.page.locator(".rl-mapping")
        form.get_by_label("response", exact=True).select_option("outp")
        expect(form.locator(".sample")).to_have_count(3)
        form.locator("summary").click()
        assert violations(board.page) == []


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_list_of_runs_keeps_the_rules_of_accessibility(open_board: OpenBoard, theme: str) -> None:
    board = open_board(run="ppo", over="exp/seed3", theme=theme).settled()
    expect(board.page.locator(f".rl-{theme}").first).to_be_attached()
    tree = board.page.get_by_role("tree", name="Runs")
    expect(tree.locator("input:checked")).to_have_count(1)
    assert violations(board.page) == []
    tree.get_by_role("treeitem", name="exp, 10 runs").locator(".head").click()
    expect(tree.get_by_role("treeitem")).to_have_count(3)
    assert violations(board.page) == []


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_an_empty_folder_keeps_the_rules_of_accessibility(
    open_board: OpenBoard, tmp_path: Path, theme: str
) -> None:
    with Served(tmp_path) as server:
        board = open_board(server=server, theme=theme)
        expect(board.page.locator(f".rl-{theme}").first).to_be_attached()
        assert violations(board.page) == []


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("width", [390, 1440])
def test_an_opened_finding_keeps_the_rules_of_accessibility(
    open_board: OpenBoard, theme: str, width: int
) -> None:
    board = open_board(run="grpo", theme=theme)
    board.page.set_viewport_size({"width": width, "height": 900})
    board.settled().page.locator(".rl-current-findings .sentence").first.click()
    expect(board.page.locator(".rl-opened-finding")).to_be_visible()
    expect(board.page.locator(f".rl-{theme}").first).to_be_attached()
    assert violations(board.page) == []


def test_settings_keep_the_rules_of_accessibility(board: BoardPage) -> None:
    board.go(run="ppo").settled()
    for group in board.page.locator(".rl-settings summary").all():
        group.click()
    expect(board.page.locator(".rl-settings details:not([open])")).to_have_count(0)
    assert violations(board.page) == []
