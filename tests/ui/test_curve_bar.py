"""The bar above the curves: its band, its zoom, and the values at the mouse in the cards' heads."""

from __future__ import annotations

import random
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import VIEWPORT
from tests.factories import append, line, write_run
from tests.ui.board import BoardPage

STEPS = 30
#: Number of steps that each curve shows.
_SPANS = """() => Bokeh.documents.flatMap((document) => [...document.all_models])
    .filter((model) => model.type === "Figure").map(({x_range}) => x_range.end - x_range.start)"""


def write_binary(folder: Path) -> None:
    """Write a run with rewards of 0 and 1."""
    folder.mkdir()
    chance = random.Random(1)
    lines = [
        line(step, index=at, reward=float(chance.random() < step / STEPS), drop=["ref_reward"])
        for step in range(1, STEPS + 1)
        for at in range(16)
    ]
    append(folder / "rollout_data_rank_0.jsonl", *lines)


@pytest.fixture(scope="module")
def binary(root: Path) -> str:
    write_binary(root / "binary")
    write_run(root / "other", steps=4, samples=8)
    return "binary"


def middle(board: BoardPage, card: str = "Reward") -> tuple[float, float, float]:
    """Return left edge, width and middle height of a card's plot."""
    box = board.curve(card).locator(".bk-Figure").bounding_box()
    assert box is not None
    return box["x"], box["width"], box["y"] + box["height"] / 2


def drag(page: Page, y: float, start: float, end: float) -> None:
    page.mouse.move(start, y)
    page.mouse.down()
    page.mouse.move((start + end) / 2, y)
    page.mouse.move(end, y)
    page.mouse.up()


def test_the_heads_of_all_curves_have_the_values_at_the_mouse(board: BoardPage, binary: str) -> None:
    board.go(run=binary, step=STEPS).settled(STEPS)
    left, width, y = middle(board)
    numbers = board.page.locator(".rl-curve .head .number")
    before = numbers.all_text_contents()
    assert len(before) > 1
    board.page.mouse.move(left + width / 2, y)
    places = board.page.locator(".rl-curve .head .at")
    expect(places).to_have_count(len(before))
    [place] = set(places.all_text_contents())
    at = int(place.removeprefix("at "))
    assert 12 < at < 19
    source = board.source("reward")
    shown = float(board.curve("Reward").locator(".number").inner_text())
    assert shown == pytest.approx(source["y"][at - 1], abs=6e-4)
    expect(board.curve("Reward").locator(".spread")).to_contain_text("…")
    assert not board.page.locator(".bk-Tooltip").count(), "nothing covers the chart"
    board.page.mouse.move(5, 5)
    expect(places).to_have_count(0)
    assert numbers.all_text_contents() == before


def spans(board: BoardPage) -> list[float]:
    """Return how many steps each curve shows."""
    return list(board.page.evaluate(_SPANS))


def test_a_zoom_has_a_chip_and_a_double_click_keeps_the_step(board: BoardPage, binary: str) -> None:
    board.go(run=binary, step=20).settled(20)
    board.until(lambda: len(spans(board)) > 1, "there are several curves")
    whole = spans(board)
    chip = board.page.locator(".rl-curve-bar .zoomed")
    expect(chip).to_be_hidden()
    left, width, y = middle(board)
    drag(board.page, y, left + width * 0.4, left + width * 0.7)
    expect(chip).to_contain_text("steps")
    board.until(lambda: all(span < whole[0] / 2 for span in spans(board)), "all curves are zoomed")
    chip.click()
    expect(chip).to_be_hidden()
    board.page.locator(".rl-curve-bar").get_by_role("button", name="Zoom", exact=True).click()
    expect(chip).to_have_text("steps 10–30 ×")
    board.page.mouse.dblclick(left + width * 0.5, y)
    expect(chip).to_be_hidden()
    board.until(lambda: spans(board) == whole, "all steps again")
    board.settled(20)
    assert parse_qs(urlsplit(board.page.url).query)["step"] == ["20"]


def test_the_band_is_chosen_once_and_stands_in_the_address(board: BoardPage, binary: str) -> None:
    board.go(run=binary, step=20).settled(20)
    bar = board.page.locator(".rl-curve-bar")
    expect(bar.locator(".said")).to_contain_text("± 2 standard errors")
    expect(board.curve("Reward").locator(".head")).to_have_attribute("title", re.compile("2·s/√n"))
    board.choose_band("density")
    expect(bar.locator(".said")).to_have_text("density")
    expect(bar.locator("[aria-busy]")).to_have_count(0)
    board.until(lambda: "band=density" in board.page.url, "the band stands in the address")
    board.page.reload()
    expect(bar.locator("select:not(.events)")).to_have_value("density")
    board.choose_band("automatic")
    board.until(lambda: "band=" not in board.page.url, "the default does not")


def test_a_brush_over_the_histogram_is_a_filter(board: BoardPage, binary: str) -> None:
    board.go(run=binary, step=20).settled(20)
    box = board.page.locator(".rl-distribution .bars").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    drag(board.page, y, box["x"] + box["width"] * 0.6, box["x"] + box["width"] * 0.97)
    expect(board.count).to_contain_text("match")
    won = int((board.source("reward")["y"][19] * 16).round())
    expect(board.count).to_have_text(f"{won} of 16 match")
    board.page.mouse.click(box["x"] + box["width"] * 0.25, y)
    expect(board.count).to_have_text(f"{16 - won} of 16 match")


def test_a_unit_never_drops(board: BoardPage, binary: str) -> None:
    board.go(run=binary, step=20).settled(20)
    unit = board.curve("Response length").locator(".unit.fixed")
    whole = "node => node.scrollWidth <= node.clientWidth && node.clientWidth > 20"
    for width in (1440, 390):
        board.page.set_viewport_size({"width": width, "height": 900})
        expect(unit).to_have_text("tokens")
        board.until(lambda: unit.evaluate(whole), f"the unit is whole at {width} px")
    board.page.set_viewport_size(VIEWPORT)
