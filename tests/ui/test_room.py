"""Room for reading: rows of tabs, sizes, the page of the sample, the splitter, and nothing that moves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from rlpanel.app.demo import write_recording
from tests.conftest import watch_for_trouble
from tests.factories import append, sample
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import OpenBoard

WIDTHS = (390, 480, 640, 800, 900, 1024, 1180, 1280, 1366, 1440, 1680, 1920, 2560)
#: For each bar: the tops of its tabs in sight, whether it has room for them, and the titles behind "more".
_BARS = """() => {
  const found = []
  const visit = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.shadowRoot) visit(node.shadowRoot)
      if (node.getAttribute("role") !== "tablist" || !node.checkVisibility()) continue
      const own = [...node.children].filter((each) => each.checkVisibility())
      const tops = [...new Set(own.map((each) => Math.round(each.getBoundingClientRect().top)))]
      const more = [...node.querySelectorAll(".list [role=tab]")].map((each) => each.textContent)
      const shown = own.filter((each) => each.matches("[role=tab]")).map((each) => each.textContent)
      const end = Math.max(...own.map((each) => each.getBoundingClientRect().right))
      const open = node.querySelector("[aria-selected=true]").checkVisibility()
      const room = Math.min(innerWidth, node.parentNode.host.getBoundingClientRect().right + 1)
      found.push({ tops, more, shown, fits: end <= room, open })
    }
  }
  visit(document)
  return found
}"""
#: Size, kind and name of what can be clicked, is in sight, and is lower or narrower than 24 pixels. A row of
#: the heat map is lower; the chips above it choose the same.
_SMALL = """() => {
  const small = []
  const visit = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.shadowRoot) visit(node.shadowRoot)
      const kinds = 'button, summary, a[href], input, select, textarea, [role=tab], [tabindex="0"]'
      if (!node.matches(kinds) || node.matches(".rl-row-label, .rl-row-range")) continue
      if (!node.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue
      const box = (node.closest("label") ?? node).getBoundingClientRect()
      if (box.width && box.height && (box.width < 23.9 || box.height < 23.9))
        small.push([box.width, box.height, node.tagName, node.className, node.textContent].join(" "))
    }
  }
  visit(document)
  return small
}"""
#: Sizes of all texts in sight, with one text of each.
_SIZES = """() => {
  const sizes = {}
  const visit = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.shadowRoot) visit(node.shadowRoot)
      if (node.matches("style, script") || !node.checkVisibility({ visibilityProperty: true })) continue
      const text = [...node.childNodes].find((each) => each.nodeType === 3 && each.textContent.trim())
      if (text) sizes[getComputedStyle(node).fontSize] ??= text.textContent.trim().slice(0, 30)
    }
  }
  visit(document)
  return sizes
}"""
#: Collects what moves although nobody pressed anything.
_WATCH = """
window.moved = []
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (entry.hadRecentInput) continue
    const names = entry.sources.map(({ node }) => node?.className ?? node?.parentElement?.className ?? "")
    window.moved.push([entry.value, names])
  }
}).observe({ type: "layout-shift", buffered: true })
"""
RUN, TIMED, GROWING = "calculator", "timed", "growing"


def rows(step: int, reward: float, samples: int = 16) -> bytes:
    """Return the lines of a step whose samples have rewards around a value, and times."""
    lines = []
    for index in range(samples):
        timing = {
            "start": 1.7e9 + 30 * step,
            "spans": [{"kind": "generate", "start": 0, "end": 1 + index % 3}],
        }
        row = sample(step, index=index, tokens=False, timing=timing) | {"reward": reward + index % 3 / 10}
        lines.append(json.dumps(row).encode() + b"\n")
    return b"".join(lines)


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write_recording("grpo_calculator", root / RUN)
    for name in (TIMED, GROWING):
        (root / name).mkdir()
        append(root / name / "rollout_data_rank_0.jsonl", *(rows(step, 2.0) for step in range(1, 13)))


def resize(board: BoardPage, width: int, height: int = 900) -> None:
    board.page.set_viewport_size({"width": width, "height": height})


@pytest.mark.slow
def test_each_bar_of_tabs_is_one_row_at_every_width_and_loses_no_tab(open_board: OpenBoard) -> None:
    board = open_board(run=TIMED, page="timeline").settled(12)
    board.tab("Overview")
    expect(board.page.get_by_role("tab", name="Conversation", exact=True)).to_be_visible()
    for width in WIDTHS:
        resize(board, width)

        def one_row() -> bool:
            bars = board.page.evaluate(_BARS)
            said = [len(bar["tops"]) == 1 and bar["fits"] and bar["open"] for bar in bars]
            counts = [len(bar["shown"]) + len(bar["more"]) for bar in bars]
            return all(said) and counts == [11, 6]

        board.until(one_row, f"one row of all tabs at {width}")
    resize(board, 390)
    board.tab("History")
    expect(board.page.get_by_role("tab", name="History", selected=True)).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1440])
def test_targets_are_large_enough_and_texts_have_few_sizes(open_board: OpenBoard, width: int) -> None:
    board = open_board(run=RUN).settled(40)
    resize(board, width)
    places = [{"tab": tab} for tab in ("conversation", "tokens", "reference", "diff", "group", "prompt")]
    places += [{"page": page} for page in ("samples", "sample", "ranking", "compare", "explain", "lint")]
    for place in places:
        board.go(run=RUN, **place).settled()
        assert board.page.evaluate(_SMALL) == [], place
        sizes = board.page.evaluate(_SIZES)
        assert [text for size, text in sizes.items() if float(size[:-2]) < 12] == [], place
    board.go(run=RUN).settled()
    board.page.locator(".rl-current-findings .sentence").first.click()
    expect(board.page.locator(".rl-opened-finding")).to_be_visible()
    assert board.page.evaluate(_SMALL) == []
    if width == 1440:  # five cards
        titles = board.page.locator(".rl-curve .head b")
        expect(titles).to_have_count(5)
        assert (
            titles.evaluate_all("(all) => all.filter((each) => each.scrollWidth > each.clientWidth + 1)")
            == []
        )


@pytest.mark.slow
def test_nothing_moves_while_a_run_grows_and_a_finding_arrives(open_board: OpenBoard, root: Path) -> None:
    board = open_board(run=GROWING).settled(12)
    line = board.page.locator(".rl-current-findings")
    expect(line).to_contain_text("No finding in the newest complete steps")
    board.page.evaluate(_WATCH)
    log = root / GROWING / "rollout_data_rank_0.jsonl"
    for step in range(13, 25):
        append(log, rows(step, 0.0))
    board.settled(24)
    expect(line.locator(".sentence")).to_be_visible()
    board.settled(24)
    moved = board.page.evaluate("window.moved")
    assert [entry for entry in moved if entry[0] > 0.0005] == []


def test_the_sample_takes_the_whole_page_and_gives_it_back(board: BoardPage) -> None:
    board.go(run=RUN, step=3).settled(3)
    curve, grid = board.page.locator(".rl-curve").first, board.page.locator(".rl-samples")
    width = board.page.locator(".rl-sample").bounding_box()
    assert width
    board.press("m")
    expect(grid).to_be_hidden()
    expect(curve).to_be_hidden()
    expect(board.page).to_have_url(re.compile("page=sample(&|$)"))
    wide = board.page.locator(".rl-sample").bounding_box()
    assert wide
    assert wide["width"] > 1.6 * width["width"]
    board.press("Escape")
    expect(grid).to_be_visible()
    expect(curve).to_be_visible()
    board.sample_head.dblclick()
    expect(grid).to_be_hidden()
    board.page.get_by_role("button", name="Back to the board (Esc)").click()
    expect(grid).to_be_visible()
    expect(board.page).not_to_have_url(re.compile("page=sample"))  # the address follows a moment later
    board.page.go_back()
    expect(grid).to_be_hidden()
    board.press("m")
    expect(grid).to_be_visible()


def test_the_line_between_grid_and_sample_moves_by_key_and_by_drag_and_is_remembered(
    board: BoardPage,
) -> None:
    board.go(run=RUN, step=3).settled(3)
    line, grid = board.page.get_by_role("separator"), board.page.locator(".rl-left")

    def width() -> float:
        box = grid.bounding_box()
        assert box
        return box["width"]

    usual = width()
    line.focus()
    board.press("ArrowRight")
    board.until(lambda: width() > usual + 20, "the grid is wider")
    expect(board.step_label.locator("b")).to_have_text("Step 3")
    box = line.bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    board.page.mouse.move(x, y)
    board.page.mouse.down()
    board.page.mouse.move(x - 150, y, steps=3)
    board.page.mouse.up()
    board.until(lambda: width() < usual - 40, "the grid is narrower")
    narrow = width()
    board.page.reload()
    board.settled(3)
    board.until(lambda: abs(width() - narrow) < 3, "the browser remembers it")
    line.dblclick()
    board.until(lambda: abs(width() - usual) < 3, "a double click returns to the usual place")


def test_the_text_of_a_sample_begins_in_the_upper_half_of_a_small_screen(board: BoardPage) -> None:
    resize(board, 1280, 720)
    for query, least in (({"page": "samples"}, 345), ({}, 484)):
        board.go(run=RUN, step=3, tab="tokens", **query).settled(3)
        text = board.page.locator(".rl-tokens-text")
        board.until(
            lambda text=text, least=least: (text.bounding_box() or {"y": 999})["y"] < least, str(query)
        )
    resize(board, 1440)


def test_the_window_is_named_by_findings_run_and_step(board: BoardPage) -> None:
    board.go(run=RUN, step=3).settled(3)
    expect(board.page).to_have_title(re.compile(rf"^▲\d+ · {RUN} · step 3$"))
    board.go(run=TIMED).settled(12)
    expect(board.page).to_have_title(f"{TIMED} · step 12")


@pytest.mark.slow
def test_a_tap_beside_the_runs_closes_them_on_a_phone(board: BoardPage) -> None:
    board.go(run=RUN, step=3).settled(3)
    resize(board, 390, 844)
    side = board.page.locator(".rl-side")
    expect(side).to_be_hidden()
    board.page.get_by_role("button", name="Show or hide the runs").click()
    expect(side).to_be_visible()
    board.page.locator(".rl-settings summary").first.click()
    expect(side).to_be_visible()
    board.page.mouse.click(370, 500)
    expect(side).to_be_hidden()
    resize(board, 1440)


#: What a reader sees of each control: open tabs, pressed buttons, and values of all fields.
_STATE = """() => {
  const state = []
  const visit = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.shadowRoot) visit(node.shadowRoot)
      if (!node.checkVisibility()) continue
      const name = node.ariaLabel || node.labels?.[0]?.textContent || node.className
      if (node.matches("[aria-selected=true], [aria-pressed=true], .tabulator-selected"))
        state.push(`${node.tagName} ${node.textContent.slice(0, 60)}`)
      else if (node.matches("input[type=checkbox]")) state.push(`${name} ${node.checked}`)
      else if (node.matches("input, select")) state.push(`${name} ${node.value}`)
    }
  }
  visit(document)
  return state.sort()
}"""


@pytest.mark.slow
def test_a_colleague_sees_the_same_sample_tab_and_mode(
    open_board: OpenBoard, browser: Browser, served: Served
) -> None:
    board = open_board(run=RUN, step=24).settled(24)

    def compare(what: str) -> None:
        """Copy the address by the button, and open it in another browser."""
        board.page.get_by_text("share link").click()
        held = board.page.locator(".rl-share")
        expect(held).to_contain_text("The link holds:")
        address = board.page.evaluate("navigator.clipboard.readText()")
        board.press("Escape")
        other = browser.new_context(
            viewport={"width": 1440, "height": 900}, color_scheme="dark", locale="en-US"
        )
        trouble = watch_for_trouble(other)
        there = BoardPage(other.new_page(), served.url)
        there.page.goto(address)
        for each in (board, there):
            each.settled()
            if each.page.locator(".rl-settings").count():
                each.settings()
        board.until(lambda: board.page.evaluate(_STATE) == there.page.evaluate(_STATE), what)
        there.page.reload()
        there.settled().settings()
        board.until(lambda: board.page.evaluate(_STATE) == there.page.evaluate(_STATE), f"{what}, reloaded")
        assert trouble == []
        other.close()

    board.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    board.rows.nth(2).click()
    board.tab("Conversation")
    board.page.locator("[data-mode=raw]").click()
    compare("sample, tab and mode")


def test_a_page_is_as_high_as_what_it_holds_and_a_long_one_scrolls(open_board: OpenBoard) -> None:
    board = open_board(run=RUN, page="failures").settled(40)
    resize(board, 1440)
    card = board.page.locator(".rl-page-view")
    expect(board.page.locator(".rl-failures-view .class").first).to_be_visible()
    few = card.bounding_box()
    assert few is not None
    assert few["height"] < 420
    board.tab("Lint")
    expect(board.page.locator(".rl-lint")).to_contain_text("passed")
    many = card.bounding_box()
    assert many is not None
    assert many["height"] > 600
    assert many["y"] + many["height"] <= 900


def test_the_prompts_that_are_compared_take_the_room(open_board: OpenBoard) -> None:
    board = open_board(run=RUN, page="compare", against=RUN, there_at="first").settled(40)
    rows = board.page.locator(".rl-pairs .tabulator-row")
    resize(board, 1440, 1200)
    board.until(lambda: rows.count() > 16, "more rows than eight")
    expect(rows.last).to_be_in_viewport()
    expect(board.page.locator(".rl-pairs .tabulator-footer")).to_be_in_viewport()
