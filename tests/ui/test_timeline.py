"""The timeline of a step's rollouts: order, colours, and the way to the sample."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.factories import sample, write_run
from tests.ui.board import BoardPage

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
    expect(shown.locator(".note")).to_contain_text("rollouts: median")
    return shown


def colors(canvas: Locator, height: int) -> set[tuple[int, ...]]:
    """The colours in the middle of the lane at this height, in CSS pixels."""
    pixels = canvas.evaluate(
        """(canvas, y) => {
            const ratio = canvas.width / canvas.clientWidth
            return [...canvas.getContext("2d").getImageData(0, Math.round(y * ratio), canvas.width, 1).data]
        }""",
        height,
    )
    return {tuple(pixels[i : i + 3]) for i in range(0, len(pixels), 4) if pixels[i + 3] == 255}


def test_the_slowest_rollout_is_first_and_a_click_leads_to_its_sample(board: BoardPage) -> None:
    canvas = timeline(board, "few").locator("canvas")
    canvas.click(position={"x": 30, "y": 5})
    expect(board.sample_head).to_contain_text("line 8")
    canvas.hover(position={"x": 30, "y": 5})
    tip = board.page.locator(".rl-timeline .tip")
    expect(tip).to_contain_text("generation")
    expect(tip).to_contain_text("tool")
    expect(tip).to_contain_text("lag 1")


def test_phases_and_lag_have_colours(board: BoardPage) -> None:
    shown = timeline(board, "few")
    expect(shown.locator(".legend span")).to_have_text(["generation", "tool"])
    board.until(lambda: len(colors(shown.locator("canvas"), 5)) >= 2, "two phases in the first lane")
    shown.get_by_role("button", name="lag").click()
    expect(shown.locator(".legend span")).to_have_text(["lag 0", "1", "2", "3 and more"])
    board.until(lambda: len(colors(shown.locator("canvas"), 5)) == 1, "one colour per rollout")
    shown.get_by_role("button", name="phase").click()


def test_lanes_by_rank_are_named(board: BoardPage) -> None:
    shown = timeline(board, "few")
    shown.get_by_role("button", name="by rank").click()
    expect(shown.get_by_role("button", name="by rank", pressed=True)).to_be_visible()
    shown.get_by_role("button", name="slowest first").click()
    expect(shown.get_by_role("button", name="slowest first", pressed=True)).to_be_visible()


def test_thousands_of_rollouts_scroll_and_are_drawn_at_once(board: BoardPage) -> None:
    """Only the lanes in view are drawn: the canvas is as high as its frame."""
    shown = timeline(board, "many")
    frame, canvas = shown.locator(".frame"), shown.locator("canvas")
    same = "(node) => node.clientHeight > 0 && node.clientHeight === node.parentNode.clientHeight"
    board.until(lambda: canvas.evaluate(same), "the canvas is as high as its frame")
    frame.evaluate("(node) => { node.scrollTop = node.scrollHeight }")
    board.until(lambda: len(colors(canvas, 5)) >= 1, "the last lanes are drawn")
    frame.evaluate("(node) => { node.scrollTop = 0 }")
    canvas.click(position={"x": 30, "y": 1})
    expect(board.sample_head).to_contain_text(f"line {MANY:,}")


def test_runs_without_times_have_no_timeline(board: BoardPage) -> None:
    board.go(run="without").settled()
    expect(board.page.get_by_role("tab", name="Tokens")).to_be_visible()
    expect(board.page.get_by_role("tab", name="Timeline")).to_have_count(0)
