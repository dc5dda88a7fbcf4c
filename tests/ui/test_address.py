"""The address is the state: each control survives a shared link, a reload, and Back and Forward."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from rlpanel.app.demo import write_recording
from rlpanel.board_url import KEYS
from tests.conftest import VIEWPORT, watch_for_trouble
from tests.factories import append, sample
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import OpenBoard

pytestmark = pytest.mark.slow

TOOLS, MADE, OTHER = "calculator", "sweep/made", "sweep/other"
STEPS, SAMPLES = 6, 8
#: What a reader sees of each control: open tabs, pressed buttons, chosen rows and parts, fields, and what
#: follows from them: step, sample, chips, heads of curves, and rows of tables.
_STATE = """() => {
  const state = []
  const chosen = "[aria-selected=true], [aria-pressed=true], [aria-current]:not(.step), " +
    ".tabulator-selected, .chosen, .pinned"
  const texts = ".rl-step b, .rl-badge b, .rl-curve .head, .rl-samples .head, .chip, .tabulator-row, " +
    ".rl-curve-bar .zoomed, .rl-compare h5, .rl-opened-finding .sentence, .rl-runs-table .line .name"
  const visit = (root) => {
    for (const node of root.querySelectorAll("*")) {
      if (node.matches(".rl-runs, .rl-runs *, .run[data-name]")) continue // the list of runs has ages
      if (node.shadowRoot) visit(node.shadowRoot)
      if (!node.checkVisibility()) continue
      const name = node.ariaLabel || node.labels?.[0]?.textContent || node.className
      const words = () => (node.innerText || node.textContent || "").replace(/\\s+/g, " ").trim().slice(0, 90)
      if (node.dataset?.uid) state.push(`sample ${node.dataset.uid}`)
      if (node.matches(chosen)) state.push(`chosen ${node.tagName} ${words()}`)
      else if (node.matches(texts)) state.push(`text ${words()}`)
      else if (node.matches("input[type=checkbox]")) state.push(`${name} ${node.checked}`)
      else if (node.matches("input, select")) state.push(`${name} ${node.value}`)
    }
  }
  visit(document)
  return state.sort()
}"""


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    """A run of conversations; and two with tokens, splits, groups and episodes that share prompts."""
    write_recording("grpo_calculator", root / TOOLS)
    for name in (MADE, OTHER):
        (root / name).mkdir(parents=True)
        lines = [
            sample(step, index=index, episode=f"{step}-{index // 2}", split=split)
            | {"reward": step * (index + 1) / 10 + (name == OTHER)}
            for split in ("train", "eval")
            for step in range(1, STEPS + 1)
            for index in range(SAMPLES)
        ]
        append(
            root / name / "rollout_data_rank_0.jsonl", *(json.dumps(each).encode() + b"\n" for each in lines)
        )


# -- one stop for each part of the page ----------------------------------------------------------------


def set_field(board: BoardPage, label: str, value: str) -> None:
    field = board.settings().get_by_label(label, exact=True)
    field.fill(value)
    field.press("Enter")


def turn_switch(board: BoardPage, label: str) -> None:
    board.settings().get_by_label(label, exact=True).click()


def choose_sample(board: BoardPage) -> None:
    board.page.get_by_role("tree", name="Runs").locator(f'.run[data-name="{TOOLS}"]').click()
    expect(board.badge).to_contain_text(TOOLS)
    board.settled().press("ArrowLeft")
    board.tab("Samples")
    board.settled().rows.nth(2).click()
    board.page.locator("[data-mode=raw]").click()
    board.settled()
    for _ in range(3):
        board.page.locator(".rl-conversation .list").press("]")
    expect(board.page).to_have_url(re.compile("turn="))


def choose_token(board: BoardPage) -> None:
    board.page.locator('[data-metric="entropy"], [data-metric="kl_k3"]').first.click()
    board.page.locator(".rl-scale:visible", has_text="sample").click()
    board.settled().page.locator(".rl-tokens-text .token").nth(2).click()


def choose_curves(board: BoardPage) -> None:
    board.page.locator(".rl-runs").get_by_label(f"Compare {OTHER}", exact=True).check()
    board.choose("Align by", "samples seen")
    board.choose("KL estimator", "k2")
    for label in ("Events", "Zero shift", "KL per sequence"):
        turn_switch(board, label)
    for label, value in (("Smoothing", "0.5"), ("Variance scaling", "0.5")):
        board.settings().get_by_label(label, exact=True).fill(value)
    board.settings().locator('.choice input[value="reward"]').check()
    board.settings().locator('.choice input[value="response_tokens"]').check()
    board.page.locator(".rl-curve-bar select:not(.events)").select_option("range")
    board.settled().curve("Reward").locator("summary").first.click()
    board.page.get_by_role("button", name="Log scale").first.click()


def choose_texts(board: BoardPage) -> None:
    for label in ("Older attempts", "One row per episode", "Fold chat templates"):
        turn_switch(board, label)
    board.choose("Count rewards by", "rows")
    board.choose("Answers are read by", "last number")
    for label, value in (
        ("Max samples a step", "9"),
        ("Prompts seen at (steps)", "5"),
        ("Pad token", ""),
        ("System prompt ends", "<|x|>"),
    ):
        set_field(board, label, value)


def choose_splits(board: BoardPage) -> None:
    board.choose("Split", "eval")
    board.settled().settings().get_by_role("checkbox", name="train").click()
    expect(board.settings().get_by_role("checkbox", name="train")).to_be_checked()


def filter_grid(board: BoardPage) -> None:
    board.search.fill("prompt 1")
    board.search.press("Enter")
    expression = board.page.get_by_role("textbox", name="filter expression")
    expression.fill("reward > 0.2")
    expression.press("Enter")
    board.settled().page.locator(".scope button").last.click()
    board.settled().header("reward").click()
    board.settled().page.get_by_role("button", name="Filter single columns").click()
    field = board.header("response").locator("input")
    field.fill("n")
    field.press("Enter")


def open_finding(board: BoardPage) -> None:
    board.page.locator(".rl-findings summary.pill").click()
    board.page.locator(".rl-findings .finding .sentence").first.click()
    board.settled()
    board.press("Escape")
    board.tab("Explain")
    board.pick(".rl-explain-what", "Two numbers of each sample")


def zoom_curves(board: BoardPage) -> None:
    plot = board.settled().page.locator(".rl-curve .bk-Figure").first
    place = plot.bounding_box()
    assert place is not None
    board.page.mouse.move(place["x"] + place["width"] * 0.4, place["y"] + 40)
    board.page.mouse.down()
    board.page.mouse.move(place["x"] + place["width"] * 0.7, place["y"] + 40, steps=4)
    board.page.mouse.up()
    expect(board.page.locator(".rl-curve-bar .zoomed")).to_be_visible()
    expect(board.page).to_have_url(re.compile("zoom="))


def choose_ranking(board: BoardPage) -> None:
    select = board.page.locator(".rl-measure select")
    select.select_option(index=1)
    board.pick(".rl-least", "Seen at least 10 times")


def choose_loss(board: BoardPage) -> None:
    board.page.locator(".rl-update-losses button", has_text="Dr. GRPO").click()
    expect(board.page.locator(".rl-update-losses .chosen")).to_contain_text("Dr. GRPO")
    board.page.locator(".rl-update-beta").get_by_role("slider").press("ArrowRight")
    expect(board.page).to_have_url(re.compile("beta"))


def choose_other(board: BoardPage) -> None:
    board.tab("Diff")
    board.pick(".rl-against", "Same prompt at another step (5)")
    board.settled().page.locator(".rl-which select").select_option(index=3)


def read_beside(board: BoardPage) -> None:
    board.tab("Conversation")
    board.settled().page.locator(".rl-conversation .beside").click()
    expect(board.page).to_have_url(re.compile("pair="))
    board.settled()


def compare_runs(board: BoardPage) -> None:
    board.pick(".rl-against-run", OTHER)
    board.pick(".rl-samples-here", "Best step")
    board.pick(".rl-samples-there", "First step of each prompt")


def choose_prompts(board: BoardPage) -> None:
    board.page.locator(".rl-courses").get_by_role("tab", name=re.compile("^all ")).click()
    board.page.locator(".rl-grid-head").get_by_label("Category").select_option(index=1)
    expect(board.page).to_have_url(re.compile("category="))


def arrange_runs(board: BoardPage) -> None:
    table = board.page.locator(".rl-runs-table")
    table.get_by_role("button", name="folders").click()
    table.get_by_label("Group runs by a setting").select_option("lr")
    table.get_by_role("button", name="axes").click()
    table.get_by_role("button", name="reward ± s.e.").click()
    table.get_by_role("button", name=re.compile("^with a finding")).click()
    table.get_by_label("Filter runs").fill("sweep")
    expect(board.page).to_have_url(re.compile("[?&]runs=sweep"))


class Stop(NamedTuple):
    """Controls of one part of the page: where it is, what uses each once, and the keys that they set."""

    start: dict[str, object]
    use: Callable[[BoardPage], None]
    keys: str


HERE = {"run": MADE, "step": 4}
STOPS = {
    "sample": Stop({"run": MADE}, choose_sample, "run step page sample mode turn"),
    "token": Stop(HERE | {"tab": "tokens"}, choose_token, "metric scale token"),
    "curves": Stop(
        HERE,
        choose_curves,
        "over align kl zero_shift events per_sequence smooth variance_scale curves band log",
    ),
    "zoom": Stop(HERE, zoom_curves, "zoom"),
    "texts": Stop(
        HERE,
        choose_texts,
        "older_attempts fold_episodes fold_templates count_by answer max_samples stuck_steps pad_token "
        "system_end",
    ),
    "splits": Stop(HERE, choose_splits, "split beside"),
    "grid": Stop(HERE | {"page": "samples"}, filter_grid, "search filter scope sort columns"),
    "finding": Stop({"run": TOOLS, "step": 3}, open_finding, "finding explain"),
    "ranking": Stop(HERE | {"page": "ranking"}, choose_ranking, "rank least"),
    "losses": Stop(HERE | {"page": "update"}, choose_loss, "loss"),
    "diff": Stop(HERE, choose_other, "tab diff"),
    "pair": Stop({"run": TOOLS, "step": 3, "page": "samples"}, read_beside, "pair"),
    "compare": Stop(HERE | {"page": "compare"}, compare_runs, "against here_at there_at"),
    "prompts": Stop({"run": TOOLS, "page": "prompts"}, choose_prompts, "class category"),
    "runs": Stop({"page": "table"}, arrange_runs, "folders runs_by runs_only runs runs_per runs_axes"),
}
#: Keys that no control sets: the theme of old links.
READ_ONLY = {"theme"}


def test_every_key_of_the_address_has_a_stop() -> None:
    used = " ".join(stop.keys for stop in STOPS.values()).split()
    assert sorted(used) == sorted(KEYS.keys() - READ_ONLY)


@pytest.mark.parametrize("name", STOPS)
def test_a_colleague_sees_the_state_of_every_control(
    open_board: OpenBoard, browser: Browser, served: Served, name: str
) -> None:
    stop = STOPS[name]
    board = open_board(**stop.start)
    stop.use(board)
    board.settled()

    # Copied, and opened by a colleague.
    board.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    board.page.get_by_label("share link").click()
    expect(board.page.locator(".rl-share")).to_contain_text("The link holds:")
    address = board.page.evaluate("navigator.clipboard.readText()")
    board.press("Escape")
    assert {*stop.keys.split()} <= parse_qs(urlsplit(address).query, keep_blank_values=True).keys()
    other = browser.new_context(viewport=VIEWPORT, color_scheme="dark", locale="en-US")
    trouble = watch_for_trouble(other)
    there = BoardPage(other.new_page(), served.url)
    there.page.goto(address)

    def open_all(page: BoardPage) -> None:
        if page.settled().page.locator(".rl-settings").is_visible():
            page.settings()

    def same_as(expected: list[str], page: BoardPage, when: str) -> None:
        def is_same() -> bool:
            open_all(page)
            seen = page.page.evaluate(_STATE)
            assert ({*seen} - {*expected}, {*expected} - {*seen}) == (set(), set()), when
            return bool(seen == expected)

        board.until(is_same, f"{name}, {when}")

    open_all(board)
    shown = board.page.evaluate(_STATE)
    same_as(shown, there, "opened by a colleague")
    there.page.reload()
    same_as(shown, there, "reloaded")
    assert trouble == []
    other.close()

    # Back to what was before, and forward again.
    here = board.page.url
    board.page.go_back()
    board.until(lambda: board.page.url != here, "another address")
    board.settled().page.go_forward()
    expect(board.page).to_have_url(here)
    same_as(shown, board, "forward again")
