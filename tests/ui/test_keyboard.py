"""The board by keyboard alone: order, names and rings of the focus, menus, and rows of the grid."""

from __future__ import annotations

import re
import shutil
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import VIEWPORT
from tests.ui.board import BoardPage

#: More presses of Tab than the page has stops.
MOST = 200
#: Parts of the page in reading order.
PARTS = [
    "rl-header",
    "rl-side",
    "rl-stepbar",
    "rl-curves",
    "rl-distribution",
    "rl-numbers",
    "rl-samples",
    "rl-sample",
]
#: What has the focus: its part, its name, and whether it looks different from itself without the focus.
_FOCUSED = """(parts) => {
  let node = document.activeElement
  while (node?.shadowRoot?.activeElement) { node = node.shadowRoot.activeElement }
  if (!node || node === document.body) { return null }
  const path = []
  for (let each = node; each; each = each.assignedSlot ?? each.parentNode ?? each.host) { path.push(each) }
  const part = parts.find((name) => path.some((each) => each.classList?.contains(name))) ?? ""
  const label = node.labels?.[0]
  const text = node.tagName === "SELECT" ? "" : node.textContent
  const names = [node.getAttribute("aria-label"), label?.textContent, text, node.title]
  const name = names.find((each) => each?.trim())?.trim() ?? ""
  const look = () => [node, node.nextElementSibling].filter(Boolean).map((each) => {
    const style = getComputedStyle(each)
    return [style.outlineStyle, style.outlineWidth, style.borderColor].join()
  }).join()
  const focused = look()
  node.blur()
  const plain = look()
  node.focus({ focusVisible: true, preventScroll: true })
  return { part, name, ring: focused !== plain, html: node.outerHTML.slice(0, 120) }
}"""


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path, grpo_run: Path) -> None:
    shutil.copytree(grpo_run, root / "grpo")


def walk(page: Page) -> list[dict[str, Any]]:
    """Press Tab from the start of the page to its end, and return what had the focus."""
    stops = []
    for _ in range(MOST):
        page.keyboard.press("Tab")
        stop = page.evaluate(_FOCUSED, PARTS)
        if stop is None:
            return stops
        stops.append(stop)
    raise AssertionError("the focus never leaves the page")


def test_tab_leads_through_the_page_in_reading_order(board: BoardPage) -> None:
    board.open().settled()
    stops = walk(board.page)
    assert [stop["html"] for stop in stops if not re.search(r"\w", stop["name"])] == []
    assert [stop["html"] for stop in stops if not stop["ring"]] == []
    assert [part for part, _ in groupby(stop["part"] for stop in stops if stop["part"])] == PARTS


@pytest.mark.parametrize("name", ["Presets ▾", "Export ▾"])
def test_a_menu_moves_by_arrows_and_returns_the_focus(board: BoardPage, name: str) -> None:
    board.settled()
    summary = board.page.locator(".rl-query").get_by_text(name, exact=True)
    summary.focus()
    board.press("Enter")
    entries = summary.locator("xpath=..").get_by_role("button")
    expect(entries.first).to_be_visible()
    for key, position in (("ArrowDown", 0), ("ArrowDown", 1), ("ArrowUp", 0), ("ArrowUp", -1)):
        board.press(key)
        expect(entries.nth(position) if position >= 0 else entries.last).to_be_focused()
    board.press("Escape")
    expect(entries.first).to_be_hidden()
    expect(summary).to_be_focused()


def test_escape_closes_help_and_findings(board: BoardPage) -> None:
    board.settled()
    for summary, content in (
        (board.page.locator(".rl-guide > summary"), board.page.locator(".rl-guide > .panel")),
        (board.page.locator(".rl-finding-list > summary"), board.page.locator(".rl-finding-list > .list")),
    ):
        summary.focus()
        board.press("Enter")
        expect(content).to_be_visible()
        board.press("Escape")
        expect(content).to_be_hidden()
        expect(summary).to_be_focused()


def test_arrows_move_in_the_grid(board: BoardPage) -> None:
    board.settled()
    expect(board.selected).to_have_count(1)
    uids = [board.uid()]
    board.grid.locator(".tabulator-tableholder").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
        board.press(key)
        board.until(lambda: board.uid() != uids[-1], f"{key} chooses another sample")
        uids.append(board.uid())
    assert uids[1] == uids[3]
    assert len(set(uids)) == 3


def test_pages_behind_more_are_reached_and_keep_the_focus(board: BoardPage) -> None:
    board.go(run="grpo").settled()
    board.page.set_viewport_size({"width": 390, "height": 800})
    bar = board.page.locator(".rl-pages")
    bar.locator("summary").focus()
    board.press("ArrowDown")
    expect(bar.locator(".list [role=tab]").first).to_be_focused()
    board.press("ArrowUp")
    for name, key in (("Investigations", "Enter"), ("Lint", "ArrowLeft"), ("Investigations", "ArrowRight")):
        board.press(key)
        expect(bar.get_by_role("tab", name=name, selected=True)).to_be_focused()
    board.page.set_viewport_size(VIEWPORT)
