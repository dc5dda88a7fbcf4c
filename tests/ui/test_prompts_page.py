"""The page *Prompts*: grid of pass rates, classes with their lists, the way to the history, curriculum."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.factories import append, line
from tests.ui.board import BoardPage, cells_of

LOG = "rollout_data_rank_0.jsonl"
#: Prompt → number of solved samples of eight at each of four steps.
SOLVED = {
    "How is learnt learnt?": (0, 1, 7, 8),
    "How is dead dead?": (0, 0, 0, 0),
    "How is lost lost?": (8, 8, 0, 0),
    "How is flaky flaky?": (0, 8, 0, 8),
}
#: Lanes of the grid from the top: by class.
LANES = ("How is learnt learnt?", "How is lost lost?", "How is flaky flaky?", "How is dead dead?")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    for name, steps in (("long", 4), ("short", 2)):
        (root / name).mkdir()
        (root / name / "run.json").write_text(json.dumps({"gpus": 4}))
        (root / name / "scalars.jsonl").write_text(
            "".join(json.dumps({"step": step, "step_time": 90.0}) + "\n" for step in range(1, steps + 1))
        )
        for step in range(1, steps + 1):
            write_step(root / name, step)
    return root


def write_step(folder: Path, step: int) -> None:
    lines = [
        line(
            step, prompt=prompt, reward=float(at < solved[(step - 1) % 4]), tokens=False, group=prompt,
            lang="zh" if "lost" in prompt else "en", status="ok", response_tokens=["a"] * 2,
        )
        for prompt, solved in SOLVED.items()
        for at in range(8)
    ]  # fmt: skip
    append(folder / LOG, *lines)


def rows(board: BoardPage) -> Locator:
    return board.page.locator(".rl-prompts-table .tabulator-row")


def chosen(board: BoardPage, name: str) -> Locator:
    return board.page.locator(".rl-courses").get_by_role("tab", name=name)


def drawn(board: BoardPage) -> dict[str, Any]:
    """The image of the grid, its labels, and the place of its middle on the page."""
    return board.until(lambda: board.page.evaluate(_DRAWN), "the grid is drawn")


_DRAWN = """() => {
  const found = []
  const inside = (node) => {
    for (let each = node; each; each = each.assignedSlot ?? each.parentNode ?? each.host) {
      if (each.classList?.contains("rl-prompt-grid")) return true
    }
    return false
  }
  const visit = (view) => {
    if (view.frame?.x_scale && view.el && inside(view.el)) found.push(view)
    for (const child of view.child_views ?? []) visit(child)
  }
  Object.values(Bokeh.index).forEach(visit)
  const view = found[0]
  const image = view?.model.renderers[0]?.data_source.data.image?.[0]
  if (!image) return null
  const box = view.el.getBoundingClientRect()
  const { x_scale, y_scale } = view.frame
  const labels = view.model.left[0].major_label_overrides
  return {
    shape: image.shape,
    rates: Array.from(image).map((rate) => Number.isNaN(rate) ? null : rate),
    samples: Array.from(view.model.renderers[0].data_source.data.samples[0]),
    labels: [...(labels.entries?.() ?? Object.entries(labels))]
      .sort((a, b) => a[0] - b[0]).map((each) => each[1]),
    x: [0.5, 1.5, 2.5, 3.5].map((at) => box.left + x_scale.compute(at)),
    y: [0.5, 1.5, 2.5, 3.5].map((at) => box.top + y_scale.compute(at)),
  }
}"""


def test_the_grid_shows_the_pass_rate_of_each_prompt_and_step(board: BoardPage) -> None:
    board.go(run="long", page="prompts").settled()
    grid = drawn(board)
    assert grid["shape"] == [4, 4]
    # HoloViews stores the last lane first: an image begins at the bottom of its axis.
    lanes = [grid["rates"][at : at + 4] for at in range(0, 16, 4)]
    expected = [[count / 8 for count in SOLVED[prompt]] for prompt in LANES]
    assert lanes in (expected, expected[::-1])
    assert grid["samples"] == [8] * 16
    assert grid["labels"] == ["learnt", "forgotten", "flickers", "never"]


def test_a_tooltip_names_prompt_step_pass_rate_and_samples(board: BoardPage) -> None:
    board.go(run="long", page="prompts").settled()
    grid = drawn(board)
    board.page.mouse.move(grid["x"][2], grid["y"][0])
    tip = board.page.locator(".bk-Tooltip").last
    for text in ("How is learnt learnt? (learnt)", "step", "3", "88 %", "8"):
        expect(tip).to_contain_text(text)


def test_a_click_on_the_grid_opens_the_history(board: BoardPage) -> None:
    board.go(run="long", page="prompts").settled()
    grid = drawn(board)
    board.page.mouse.click(grid["x"][1], grid["y"][1])
    expect(board.page.locator(".rl-over-time-note")).to_contain_text("32 samples at 4 steps")
    board.settled()
    expect(board.page.locator(".rl-sample-head, .rl-conversation, .rl-over-time").first).to_be_visible()
    expect(board.page.get_by_text("How is lost lost?").first).to_be_visible()


def test_a_prompt_that_never_passes_is_found_in_at_most_three_clicks(board: BoardPage) -> None:
    board.go(run="long").settled()
    board.page.locator(".rl-pages").get_by_role("tab", name="Prompts").click()  # 1
    expect(chosen(board, "never 1")).to_have_attribute("aria-selected", "true")
    expect(rows(board).locator(cells_of("prompt"))).to_have_text(["How is dead dead?"])
    rows(board).first.click()  # 2: its samples
    expect(board.page.locator(".rl-over-time-note")).to_contain_text("32 samples at 4 steps")
    expect(board.sample_head).to_contain_text("step 4")


def test_each_class_has_a_count_a_definition_and_its_list(board: BoardPage) -> None:
    board.go(run="long", page="prompts").settled()
    for name, prompt in (("learnt 1", "learnt"), ("forgotten 1", "lost"), ("flickers 1", "flaky")):
        chosen(board, name).click()
        expect(rows(board).locator(cells_of("prompt"))).to_have_text([f"How is {prompt} {prompt}?"])
    note = board.page.locator(".rl-courses-note")
    expect(note).to_contain_text("The pass rate moves up and down, more than chance explains.")
    expect(note).to_contain_text("A sample passes from reward 1 on (usual value, not logged).")
    expect(note).to_contain_text("4 of 4 prompts were seen at 3 steps or more.")
    expect(board.page).to_have_url(re.compile("class=flickers"))
    chosen(board, "all 4").click()
    expect(rows(board)).to_have_count(4)
    expect(rows(board).locator("img")).to_have_count(4)
    cells = rows(board).locator(".tabulator-cell")
    cut = cells.evaluate_all(
        "(all) => all.filter((cell) => cell.scrollHeight > cell.clientHeight).map((cell) => cell.innerText)"
    )
    assert cut == []  # beside the picture of the trend


def test_the_address_keeps_class_and_category(board: BoardPage) -> None:
    board.go(run="long", page="prompts", **{"class": "all"}, category="lang=en").settled()
    expect(rows(board)).to_have_count(3)
    assert drawn(board)["shape"] == [3, 4]
    select = board.page.locator(".rl-grid-head").get_by_label("Category")
    expect(select).to_have_value("lang=en")
    select.select_option("lang=zh")
    expect(rows(board).locator(cells_of("prompt"))).to_have_text(["How is lost lost?"])
    expect(board.page).to_have_url(re.compile("category=lang%3Dzh"))


def test_waste_is_named_and_the_curriculum_is_a_file(board: BoardPage) -> None:
    board.go(run="long", page="prompts").settled()
    foot = board.page.locator(".rl-grid-foot")
    # Of 16 groups, 12 have equal rewards: 24 of 32 tokens a step on average, and 4 GPUs for 90 s a step.
    expect(foot).to_contain_text("dead groups: 112 samples, 87.5%, 224 tokens, 0.35 GPU-hours")
    expect(foot).to_contain_text(
        "Dropping them would have saved 64 tokens, 0.1 GPU-hours (25.0% of all tokens)."
    )
    foot.get_by_label("Curriculum").select_option("4")
    expect(foot).to_contain_text("would have cost 192 tokens")
    with board.page.expect_download() as download:
        foot.get_by_role("button", name="Download 1 prompt").click()
    assert download.value.suggested_filename == "long-never-weight-4.jsonl"
    [made] = Path(download.value.path()).read_text().splitlines()
    found = json.loads(made)
    assert (found["prompt"], found["class"], found["weight"]) == ("How is dead dead?", "never", 4)


def test_a_part_of_the_grid_fills_the_view(board: BoardPage) -> None:
    board.go(run="long", page="prompts").settled()
    grid = drawn(board)
    board.page.mouse.move(grid["x"][0], grid["y"][2] - 5)
    board.page.mouse.down()
    board.page.mouse.move(grid["x"][1], grid["y"][3] + 5, steps=5)
    board.page.mouse.up()
    board.until(lambda: drawn(board)["shape"] == [2, 2], "two lanes and steps are in view")
    whole = board.page.locator(".rl-grid-head").get_by_role("button", name="Whole grid")
    whole.click()
    board.until(lambda: drawn(board)["shape"] == [4, 4], "the whole grid is in view")
    expect(whole).to_have_count(0)


def test_a_live_run_extends_the_grid(board: BoardPage, root: Path) -> None:
    (root / "live").mkdir()
    for step in (1, 2, 3):
        write_step(root / "live", step)
    board.go(run="live", page="prompts").settled()
    assert drawn(board)["shape"] == [4, 3]
    write_step(root / "live", 4)
    board.until(lambda: drawn(board)["shape"] == [4, 4], "the new step is drawn")


def test_an_empty_page_says_why(board: BoardPage) -> None:
    board.go(run="short", page="prompts").settled()
    note = board.page.locator(".rl-courses-note")
    expect(note).to_contain_text("0 of 4 prompts were seen at 3 steps or more; at most at 2.")
    expect(chosen(board, "seldom 4")).to_be_visible()
    board.settings().get_by_label("Prompts seen at (steps)").fill("2")
    board.page.keyboard.press("Enter")
    expect(note).to_contain_text("4 of 4 prompts were seen at 2 steps or more.")
