"""The board at any width: nothing is cut, all is reachable, findings lead, and large screens are used."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.factories import write_run
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import OpenBoard

LONG = "experiments/grpo-qwen2.5-7b-instruct-math-lr1e-6-kl0.001-rollout-n16-clip-higher-seed42"
#: Visible cards, buttons, fields and sentences that reach beyond the window, outside of what scrolls itself.
_CUT = """() => {
  const found = [], scrolls = [".tabulator-header", ".tabulator-tableholder", ".rl-side"]
  const visit = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (scrolls.some((selector) => node.matches(selector))) { continue }
      if (node.matches(".rl-card, button, input, select, summary, [role=tab], .pill, .sentence")) {
        const box = node.getBoundingClientRect()
        const inside = scrolls.some((selector) => node.closest(selector))
        const shown = node.checkVisibility() && box.width > 1 && !inside
        if (shown && (box.right > innerWidth + 1 || box.left < -1)) {
          found.push(`${node.tagName}.${node.className} ${Math.round(box.left)}–${Math.round(box.right)}`)
        }
      }
      if (node.shadowRoot) { visit(node.shadowRoot) }
    }
  }
  visit(document)
  return found
}"""


#: Numbers of a row that the edge of the table cuts.
_CUT_NUMBERS = """(row) => {
  const edge = row.closest(".tabulator-tableholder")?.getBoundingClientRect().right
  if (edge === undefined) { return ["the row was drawn again meanwhile"] }
  const range = document.createRange()
  return [...row.querySelectorAll(".tabulator-cell")].filter((cell) => {
    const text = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT).nextNode()
    if (!text) { return false }
    range.selectNode(text)
    const { left, right } = range.getBoundingClientRect()
    return /[0-9]$/.test(cell.textContent) && getComputedStyle(cell).textAlign === "right"
      && left < edge && right > edge + 1
  }).map((cell) => cell.textContent)
}"""
_TOPS = "(nodes) => nodes.map((node) => node.getBoundingClientRect().top)"
#: Units and values of curves that do not stand whole within their card.
_CUT_HEADS = """(cards) => cards.flatMap((card) =>
  [...card.querySelectorAll(".head .unit.fixed, .head .number")].filter((part) => {
    const box = part.getBoundingClientRect(), around = card.getBoundingClientRect()
    return box.width === 0 || box.right > around.right || part.scrollWidth > part.clientWidth + 1
  }).map((part) => part.textContent))"""


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path, grpo_run: Path, ppo_run: Path) -> None:
    shutil.copytree(grpo_run, root / "grpo")
    shutil.copytree(ppo_run, root / "ppo")
    write_run(root / LONG, steps=3, samples=8)
    write_run(root / "wide", steps=1, samples=24)
    lines = ({"step": 1, "prompt": f"Write number {n}", "response": str(n), "reward": n} for n in range(4))
    (root / "sums").mkdir()
    asked = {"prompt": "What is 143 + 156?", "response": "I add them. It is 300."}
    sums = [{"step": 1, **asked, "reward": reward, "rank": 0} for reward in (0.0, 1.0)]
    (root / "sums" / "rollouts.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in sums))
    (root / "short").mkdir()
    (root / "short" / "rollouts.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def resize(board: BoardPage, width: int, height: int) -> None:
    board.page.set_viewport_size({"width": width, "height": height})


def titles(board: BoardPage) -> list[str]:
    """Return the titles of the sample's tabs, then of the run's pages."""
    bars = (board.page.locator(f"{bar} [role=tab]") for bar in (".rl-tabs", ".rl-pages"))
    return [name for bar in bars for name in bar.all_text_contents()]


def top_of(part: Locator) -> float:
    box = part.bounding_box()
    assert box is not None
    return box["y"]


@pytest.mark.slow
@pytest.mark.parametrize("run", ["ppo", LONG])
def test_nothing_is_cut(open_board: OpenBoard, run: str) -> None:
    board = open_board(run=run).settled()

    def check(part: str) -> None:
        board.until(lambda: board.page.evaluate(_CUT) == [], f"{part} ends within the window")

    for size in ((1440, 900), (1024, 768), (800, 1100), (390, 844)):
        resize(board, *size)
        check(f"at {size}, each part")
    for name in titles(board):
        board.tab(name)
        expect(board.page.get_by_role("tab", name=name, exact=True, selected=True)).to_be_visible()
        check(f"the tab {name}")


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1440])
def test_findings_stand_above_the_curves(board: BoardPage, width: int) -> None:
    resize(board, width, 900)
    board.go(run="grpo").settled(60)
    expect(board.page.locator(".rl-opened-finding")).to_be_hidden()
    lines = board.page.locator(".rl-current-findings .sentence")
    expect(lines.first).to_be_in_viewport()
    curve = top_of(board.page.locator(".rl-curve").first)
    assert top_of(lines.last) < curve
    lines.first.click()
    expect(board.page.locator(".rl-opened-finding")).to_contain_text("Invalid UTF-8")
    expect(board.page.locator(".rl-current-findings")).to_be_hidden()
    if width == 1440:  # on a phone the curve of the finding comes first
        board.settled()
        assert top_of(board.page.locator(".rl-curve").first) == curve


@pytest.mark.slow
def test_a_findings_link_on_a_phone_shows_finding_curve_and_sample_below_one_another(
    board: BoardPage,
) -> None:
    resize(board, 390, 844)
    board.go(run="grpo").settled(60)
    board.page.locator(".rl-current-findings .sentence").first.click()
    expect(board.page).to_have_url(re.compile("finding="))
    finding, sample = board.page.locator(".rl-opened-finding"), board.page.locator(".rl-sample")
    curve = board.curve("Responses with invalid characters")
    expect(curve).to_be_visible()
    board.until(
        lambda: top_of(finding) < top_of(curve) < top_of(sample) < top_of(board.page.locator(".rl-samples")),
        "finding, its curve and its sample lead",
    )
    others = [top_of(card) for card in board.page.locator(".rl-curve").all()]
    assert min(others) == top_of(curve)
    assert top_of(sample) - top_of(finding) < 700


def test_on_a_phone_the_sample_of_the_overview_begins_on_the_first_screen(open_board: OpenBoard) -> None:
    board = open_board(run="grpo")
    resize(board, 390, 844)
    board.settled()
    board.until(lambda: top_of(board.page.locator(".rl-sample")) < 640, "the sample begins in sight")
    board.go(run="grpo", page="samples").settled()
    grid, sample = board.page.locator(".rl-samples"), board.page.locator(".rl-sample")
    board.until(lambda: top_of(grid) < top_of(sample), "the page of samples begins with the grid")


def test_on_a_phone_a_tap_in_the_grid_brings_the_sample_into_sight(open_board: OpenBoard) -> None:
    board = open_board(run="grpo")
    resize(board, 390, 844)
    board.settled()
    head = board.page.locator(".rl-sample-head")
    board.page.locator(".tabulator-tableholder .tabulator-row").nth(2).click()
    expect(board.page).to_have_url(re.compile("sample="))
    board.until(lambda: 0 <= top_of(head) < 640, "the head of the tapped sample is in sight")


def test_a_narrow_page_shows_the_board_and_not_the_side_panel(open_board: OpenBoard) -> None:
    board = open_board(run="grpo")
    resize(board, 1024, 768)
    board.settled()
    expect(board.page.locator(".rl-side")).to_be_hidden()
    left, right = (board.page.locator(f".rl-{side}").bounding_box() for side in ("left", "right"))
    assert left
    assert right
    assert left["y"] == right["y"]
    board.page.get_by_role("button", name="Show or hide the runs").click()
    expect(board.page.get_by_role("tree", name="Runs")).to_be_visible()


@pytest.mark.parametrize("width", [390, 800])
def test_a_tap_beside_the_side_panel_closes_it_and_does_nothing_else(
    open_board: OpenBoard, width: int
) -> None:
    board = open_board(run="grpo")
    resize(board, width, 844)
    board.settled()
    board.page.get_by_role("button", name="Show or hide the runs").click()
    side, follow = board.page.locator(".rl-side"), board.page.get_by_role("switch", name="Follow latest")
    expect(side).to_be_visible()
    curve = board.page.locator(".rl-curve").nth(1).bounding_box()
    assert curve is not None
    address = board.page.url
    board.page.mouse.click(width - 30, curve["y"] + curve["height"] / 2)
    expect(side).to_be_hidden()
    board.settled()
    assert board.page.url == address
    expect(follow).to_be_checked()


@pytest.mark.slow
def test_a_large_screen_has_taller_curves_and_larger_text(board: BoardPage) -> None:
    resize(board, 1440, 900)
    board.go(run="grpo").settled(60)
    board.tab("Tokens")
    expect(board.page.locator(".rl-tokens-text")).to_be_visible()

    def sizes() -> list[float]:
        curve, grid = board.page.locator(".rl-curve").first.bounding_box(), board.grid.bounding_box()
        text = board.page.locator(".rl-tokens-text")
        assert curve
        assert grid
        size = text.evaluate("(node) => parseFloat(getComputedStyle(node).fontSize)")
        return [curve["height"], grid["width"], size]

    before = sizes()
    resize(board, 1920, 1200)
    board.until(lambda: all(b >= 1.15 * a for a, b in zip(before, sizes(), strict=True)), "all are larger")


def test_the_grid_keeps_rows_in_a_narrow_notebook_cell(board: BoardPage) -> None:
    resize(board, 332, 800)
    board.go(run="grpo").settled(60)
    grid = board.page.locator(".rl-samples")
    expect(grid.locator(".tabulator-tableholder .tabulator-row").first).to_be_visible()
    table = grid.locator(".tabulator").bounding_box()
    assert table
    assert table["height"] >= 120
    sample = board.page.locator(".rl-right").bounding_box()
    assert sample
    assert sample["y"] + sample["height"] < top_of(grid)


def test_the_reward_is_in_view_beside_short_texts_in_a_narrow_grid(board: BoardPage) -> None:
    resize(board, 800, 900)
    board.go(run="sums").settled()
    inside = """row => {
      const edge = row.closest(".tabulator")?.getBoundingClientRect().right ?? 0 // drawn again meanwhile
      return row.querySelector("[tabulator-field=c_reward]").getBoundingClientRect().right <= edge + 1
    }"""
    board.until(lambda: board.rows.first.evaluate(inside), "the reward is whole")


@pytest.mark.parametrize(
    ("run", "width"), [("grpo", 390), ("grpo", 1024), ("grpo", 1440), ("grpo", 1920), ("wide", 1920)]
)
def test_no_number_is_cut_at_the_edge_of_the_grid(board: BoardPage, run: str, width: int) -> None:
    resize(board, width, 1080)
    board.go(run=run).settled()
    board.until(lambda: board.rows.first.evaluate(_CUT_NUMBERS) == [], "each number is whole or out of view")


@pytest.mark.parametrize("width", [1440, 1920])
def test_short_prompts_are_whole_with_the_letters_of_a_large_screen(board: BoardPage, width: int) -> None:
    resize(board, width, 900)
    board.go(run="short").settled(1)
    prompts = board.grid.locator('.tabulator-cell[tabulator-field="c_prompt"]')
    expect(prompts.first).to_have_text("Write number 0")
    cut = "(cells) => cells.filter((cell) => cell.scrollWidth > cell.clientWidth).length"
    board.until(lambda: prompts.evaluate_all(cut) == 0, "prompts are whole")


@pytest.mark.parametrize(
    ("run", "width", "lines"),
    [
        ("grpo", 800, [2, 2]),
        ("grpo", 1024, [4]),
        ("ppo", 1024, [3, 2]),
        ("ppo", 1280, [3, 2]),
        ("ppo", 1440, [5]),
    ],
)
def test_no_curve_stands_alone_in_its_line(board: BoardPage, run: str, width: int, lines: list[int]) -> None:
    resize(board, width, 1100)
    board.go(run=run).settled()
    cards = board.page.locator(".rl-curve")
    board.until(
        lambda: list(Counter(cards.evaluate_all(_TOPS)).values()) == lines,
        "lines of curves",
    )


@pytest.mark.parametrize("width", [800, 1024, 1440])
def test_unit_and_value_of_a_curve_are_whole(board: BoardPage, width: int) -> None:
    resize(board, width, 900)
    board.go(run="grpo").settled(60)
    cards = board.page.locator(".rl-curve")
    expect(cards.locator(".head .number")).to_have_count(4)
    expect(cards.locator(".head .unit.fixed")).not_to_have_count(0)
    board.until(lambda: cards.evaluate_all(_CUT_HEADS) == [], "units and values are whole")


def test_the_controls_are_at_the_right_end_without_a_run(open_board: OpenBoard, tmp_path: Path) -> None:
    with Served(tmp_path) as server:
        board = open_board(server=server)
        controls = board.page.locator(".rl-page-controls").bounding_box()
        assert controls
        assert controls["x"] + controls["width"] > board.page.viewport_size["width"] - 30


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1024, 1920])
def test_nothing_is_cut_in_chinese(browser: Browser, served: Served, width: int) -> None:
    with closing(browser.new_context(viewport={"width": width, "height": 900}, locale="zh-CN")) as context:
        board = BoardPage(context.new_page(), served.url).open(run="grpo").settled()
        for name in titles(board):
            board.tab(name)
            expect(board.page.get_by_role("tab", name=name, exact=True, selected=True)).to_be_visible()
            board.until(lambda: board.page.evaluate(_CUT) == [], "each part ends within the window")
