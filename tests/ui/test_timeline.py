"""The timeline of a step's rollouts: order, colours, and the way to the sample."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from rlpanel.panels.ui.theme import DARK
from tests.factories import sample, write_run
from tests.ui.board import BoardPage
from tests.ui.conftest import OpenBoard

pytestmark = pytest.mark.slow

MANY = 5_000


def rollout(step: int, index: int) -> dict[str, Any]:
    """A sample whose rollout takes longer the larger its index; each fifth one failed."""
    chance = random.Random(index)
    spans, at = [], 0.0
    for phase in ("generation", "tool", "generation"):
        end = at + 1 + index / 10 + chance.random() / 100
        spans.append([phase, round(at, 3), round(end, 3)])
        at = end
    timing = {"start": 1.7e9 + index % 4 * 30, "spans": spans}
    return sample(
        step, index=index, rank=index % 4, timing=timing, policy_version=7 - index % 3, trainer_version=7
    )


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    for name, count in (("few", 8), ("many", MANY)):
        (root / name).mkdir()
        lines = "".join(json.dumps(rollout(1, index)) + "\n" for index in range(count))
        (root / name / "rank_0.jsonl").write_text(lines)
    write_run(root / "without", steps=2)


def timeline(board: BoardPage, run: str) -> Locator:
    board.go(run=run, step=1).settled()  # of 5,000 samples, the table's head names the part that is shown
    expect(board.step_label.locator("b")).to_have_text("Step 1")
    board.tab("Timeline")
    shown = board.page.locator(".rl-timeline")
    expect(shown.locator(".note")).to_have_text(re.compile(r"rollouts: median .* s[.]$"))  # not: sums
    return shown


def place(board: BoardPage, seconds: float, lane: float) -> dict[str, float]:
    """Where a time in a lane is on the page, in CSS pixels."""
    return board.until(lambda: board.page.evaluate(_PLACE, [seconds, lane]), "the plot is drawn")


_PLACE = """([seconds, lane]) => {
  const views = Object.values(Bokeh.index)
  const found = []
  const visit = (view) => {
    if (view.frame?.x_scale && view.el.closest?.("*") && inTimeline(view.el)) { found.push(view) }
    for (const child of view.child_views ?? []) { visit(child) }
  }
  const inTimeline = (node) => {
    for (let each = node; each; each = each.assignedSlot ?? each.parentNode ?? each.host) {
      if (each.classList?.contains("rl-timeline")) { return true }
    }
    return false
  }
  views.forEach(visit)
  const view = found[0]
  if (!view) { return null }
  const box = view.el.getBoundingClientRect()
  const {left, top} = view.frame.bbox
  return {
    x: box.left + view.frame.x_scale.compute(seconds),
    y: box.top + view.frame.y_scale.compute(lane),
    cells: view.model.renderers[0].data_source.data.image?.[0]?.length ?? 0,
    rectangles: view.model.renderers[1].data_source.data.span?.length ?? 0,
    marks: view.model.renderers[2].data_source.data.left?.length ?? 0,
    begin: view.frame.x_scale.source_range.start,
  }
}"""


def press(board: BoardPage, seconds: float, lane: float, milliseconds: float = 0) -> None:
    at = place(board, seconds, lane)
    board.page.mouse.click(at["x"], at["y"], delay=milliseconds)


def test_the_slowest_rollout_is_first_and_a_click_leads_to_its_sample(board: BoardPage) -> None:
    timeline(board, "few")
    press(board, 1.0, 0.5)
    expect(board.sample_head).to_contain_text("line 8")
    board.until(lambda: place(board, 0, 0)["marks"] == 1, "the rollout is marked")
    at = place(board, 1.0, 0.5)
    board.page.mouse.move(at["x"] + 4, at["y"])
    tip = board.page.locator(".bk-Tooltip").first
    expect(tip).to_contain_text("generation")
    expect(tip).to_contain_text("tool")
    expect(tip).to_contain_text("lag 1")
    expect(tip).to_have_css("background-color", "rgb{}".format(tuple(bytes.fromhex(DARK["raised"][1:]))))


def test_clicks_soon_after_another_and_slow_clicks_count(board: BoardPage) -> None:
    timeline(board, "few")
    press(board, 1.0, 7.5)
    press(board, 1.0, 1.5)  # Bokeh calls it a double tap
    expect(board.sample_head).to_contain_text("line 7")
    press(board, 1.0, 4.5, milliseconds=500)
    expect(board.sample_head).to_contain_text("line 4")


def test_the_slowest_rollouts_are_buttons(board: BoardPage) -> None:
    shown = timeline(board, "few")
    link = shown.locator(".slowest").get_by_role("button")
    expect(link).to_have_count(5)
    link.nth(2).focus()
    board.page.keyboard.press("Enter")
    expect(board.sample_head).to_contain_text("line 6")


def test_phases_versions_and_lags_have_colours(board: BoardPage) -> None:
    shown = timeline(board, "few")
    expect(shown.locator(".legend span")).to_have_text(["generation", "tool"])
    board.until(lambda: place(board, 0, 0)["rectangles"] == 24, "three spans of each rollout")
    shown.get_by_role("button", name="lag").click()
    expect(shown.locator(".legend span")).to_have_text(["lag 0", "lag 1", "lag 2"])
    board.until(lambda: place(board, 0, 0)["rectangles"] == 8, "one rectangle per rollout")
    shown.get_by_role("button", name="policy version").click()
    expect(shown.locator(".legend span")).to_have_text(["version 5", "version 6", "version 7"])
    shown.get_by_role("button", name="phase").click()
    expect(shown.locator(".legend span")).to_have_text(["generation", "tool"])


def test_lanes_by_rank_are_named(board: BoardPage) -> None:
    shown = timeline(board, "few")
    shown.get_by_role("button", name="by rank").click()
    expect(shown.get_by_role("button", name="by rank", pressed=True)).to_be_visible()
    shown.get_by_role("button", name="slowest first").click()
    expect(shown.get_by_role("button", name="slowest first", pressed=True)).to_be_visible()


def test_thousands_of_rollouts_are_an_image_and_a_part_of_them_rectangles(board: BoardPage) -> None:
    shown = timeline(board, "many")
    board.until(lambda: place(board, 0, 0)["cells"] > 10_000, "an image")
    assert place(board, 0, 0)["rectangles"] == 0
    first, last = place(board, 100.0, 1_000), place(board, 600.0, 1_700)
    board.page.mouse.move(first["x"], first["y"])
    board.page.mouse.down()
    board.page.mouse.move(last["x"], last["y"], steps=8)
    board.page.mouse.up()
    board.until(lambda: 100 < place(board, 0, 0)["rectangles"] < 4_000, "rectangles of the lanes in view")
    assert place(board, 0, 0)["begin"] == pytest.approx(100, abs=1)
    shown.get_by_role("button", name="Show all").click()
    board.until(lambda: place(board, 0, 0)["cells"] > 10_000, "the image again")
    expect(shown.get_by_role("button", name="Show all")).to_have_count(0)
    press(board, 1.0, 40.0)  # inside the frame, whichever way the pixel is rounded
    expect(board.sample_head).to_contain_text(re.compile(r"line (4,9\d\d|5,000)"))


def test_runs_without_times_have_no_timeline(board: BoardPage) -> None:
    board.go(run="without").settled()
    expect(board.page.get_by_role("tab", name="Tokens")).to_be_visible()
    expect(board.page.get_by_role("tab", name="Timeline")).to_have_count(0)
    board.go(run="without", page="timeline").settled()
    notice = board.page.locator(".rl-missing-page")
    expect(notice).to_contain_text("without logs nothing for the page Timeline; the overview is shown")
    expect(notice).to_contain_text("Log: timing, seconds")
    board.go(run="without", page="samples").settled()
    expect(notice).to_be_hidden()


# Loads the next script of a view after the tab's plot has come, or after three seconds without one.
_LOAD_LATE = """() => {
  const load = window.importShim
  const isPlot = (model) => model.renderers?.[0]?.glyph?.type === "Image"
  const hasPlot = () => Bokeh.documents.some((one) => [...one.all_models].some(isPlot))
  window.importShim = async (url) => {
    const end = Date.now() + 3000
    while (!hasPlot() && Date.now() < end) { await new Promise(requestAnimationFrame) }
    return load(url)
  }
}"""


def test_a_slow_browser_draws_the_plot(open_board: OpenBoard) -> None:
    """A plot that arrives while the browser still builds the tab must not be ignored."""
    board = open_board(run="few", step=1).settled()
    board.page.evaluate(_LOAD_LATE)
    board.tab("Timeline")
    board.until(lambda: board.page.evaluate(_PLACE, [1.0, 0.5]), "the plot is drawn")
