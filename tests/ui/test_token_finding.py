"""Finding tokens: keys, outliers, search and zoom."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import OpenTokens
from tests.ui.token_page import TokenPage, TokenTab, generated, make_sample, metrics, raw_line
from tests.waiting import wait_until

WORDS = [" let", " us", " think", " step", " by", " st", "ep", ".", "\n"]


@pytest.fixture
def page(token_tab: TokenTab) -> Page:
    """The page on which all views of this module are drawn."""
    return token_tab.page


def press(board: TokenPage, *keys: str) -> None:
    for key in keys:
        board.page.locator(".rl-tokens").press(key)


def token_becomes(board: TokenPage, i: int) -> None:
    wait_until(lambda: board.view.token == i, message=f"token {i}", page=board.page)


def test_arrows_walk_the_tokens_and_the_focus_is_seen(open_tokens: OpenTokens, page: Page) -> None:
    board = open_tokens(sample=make_sample(raw_line(0)), token=5)
    page.keyboard.press("Tab")
    view = page.locator(".rl-tokens")
    expect(view).to_be_focused()
    expect(view).to_have_css("outline", "rgb(255, 157, 92) solid 2px")
    press(board, "ArrowRight", "ArrowRight", "ArrowLeft")
    token_becomes(board, 6)
    press(board, "Escape")
    token_becomes(board, -1)


def test_arrows_stop_at_both_ends(open_tokens: OpenTokens) -> None:
    board = open_tokens(sample=make_sample(raw_line(0)))
    press(board, "ArrowRight", "ArrowLeft")
    token_becomes(board, 0)
    press(board, "Escape", "ArrowLeft", "ArrowRight")
    token_becomes(board, 22)


def test_shift_and_arrows_walk_the_outliers_of_the_metric(open_tokens: OpenTokens) -> None:
    sample = generated(WORDS * 100)
    assert sample.logprobs is not None
    assert sample.ref_logprobs is not None
    sizes = np.abs(sample.logprobs - sample.ref_logprobs)
    beyond = np.flatnonzero(sizes > np.percentile(sizes, 99, method="lower"))
    board = open_tokens(sample=sample, metric="log_ratio")
    expect(board.page.locator(".rl-outliers")).to_have_text(f"{len(beyond)} outliers")
    for i in [*beyond, beyond[0]]:
        press(board, "Shift+ArrowRight")
        token_becomes(board, int(i))
    press(board, "Shift+ArrowLeft")
    token_becomes(board, int(beyond[-1]))


@pytest.mark.parametrize(
    ("typed", "beyond"),
    [
        ("90%", lambda x: np.abs(x) > np.percentile(np.abs(x), 90, method="lower")),
        ("0.8", lambda x: np.abs(x) > 0.8),
        ("> 0.5", lambda x: x > 0.5),
        ("<-.5", lambda x: x < -0.5),
        ("< 5%", lambda x: x < np.percentile(x, 5, method="higher")),
        ("> 95 %", lambda x: x > np.percentile(x, 95, method="lower")),
    ],
)
def test_what_counts_as_an_outlier_is_chosen(
    open_tokens: OpenTokens, typed: str, beyond: Callable[[np.ndarray], np.ndarray]
) -> None:
    sample = generated(WORDS * 40)
    assert sample.logprobs is not None
    assert sample.ref_logprobs is not None
    wanted = np.flatnonzero(beyond(sample.logprobs - sample.ref_logprobs))
    board = open_tokens(sample=sample, metric="log_ratio")
    bound = board.page.locator(".rl-bound")
    bound.fill(typed)
    expect(board.page.locator(".rl-outliers")).to_have_text(f"{len(wanted)} outliers")
    for i in wanted[:3]:
        bound.press("Enter")
        token_becomes(board, int(i))


def test_a_bound_that_is_none_is_said_and_escape_brings_the_usual_one(open_tokens: OpenTokens) -> None:
    board = open_tokens(sample=generated(WORDS * 40), metric="log_ratio")
    bound, count = board.page.locator(".rl-bound"), board.page.locator(".rl-outliers")
    expect(count).to_have_text("4 outliers")
    for typed in ("big", "101%", "5 6"):
        bound.fill(typed)
        expect(count).to_have_text("Invalid bound")
    bound.press("Escape")
    expect(count).to_have_text("4 outliers")
    expect(board.page.locator(".rl-tokens")).to_be_focused()


def test_the_least_and_the_greatest_can_be_listed(open_tokens: OpenTokens) -> None:
    line = raw_line(0)
    board = open_tokens(sample=make_sample(line), metric="prob")
    board.page.locator(".rl-bound").fill("< 5%")
    board.page.locator(".rl-outliers").click()
    shown = board.page.locator(".rl-extremes button").all_text_contents()
    order = np.argsort(np.exp(line["logprobs"]), kind="stable")[:10]
    assert [text.split()[0] for text in shown] == [f"#{i}" for i in order]


def test_the_ten_most_extreme_tokens_are_listed(open_tokens: OpenTokens) -> None:
    line = raw_line(0)
    board = open_tokens(sample=make_sample(line), metric="log_ratio")
    board.page.locator(".rl-outliers").click()
    shown = board.page.locator(".rl-extremes button").all_text_contents()
    ratios = metrics(line)["log_ratio"]
    order = np.argsort(-np.abs(ratios), kind="stable")[:10]
    assert [text.split()[0] for text in shown] == [f"#{i}" for i in order]
    board.page.locator(".rl-extremes button").first.click()
    token_becomes(board, 13)


def test_brackets_change_the_metric_and_go_round(open_tokens: OpenTokens) -> None:
    board = open_tokens(sample=make_sample(raw_line(0)), metric="token_reward")
    press(board, "]")
    wait_until(lambda: board.view.metric == "log_ratio", page=board.page)
    press(board, "[", "[")
    wait_until(lambda: board.view.metric == "surprisal", page=board.page)


def test_keys_of_the_view_do_not_reach_the_page(open_tokens: OpenTokens, page: Page) -> None:
    board = open_tokens(sample=make_sample(raw_line(0)))
    page.evaluate(
        "window.keys = []; document.addEventListener('keydown', event => window.keys.push(event.key))"
    )
    press(board, "ArrowLeft", "]", "j")
    press(board, "/")
    page.keyboard.type("tj")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("window.keys") == ["j"]


@pytest.mark.parametrize(
    ("typed", "pattern"),
    [("step", "step"), ("THINK step", "think step"), (r"/s\w+p\./", r"s\w+p\."), ("(", r"\(")],
)
def test_a_search_counts_hits_over_token_borders(open_tokens: OpenTokens, typed: str, pattern: str) -> None:
    text = "".join(WORDS * 100)
    board = open_tokens(sample=generated(WORDS * 100))
    press(board, "/")
    board.page.keyboard.type(typed)
    count = len(re.findall(pattern, text))
    expect(board.page.locator(".rl-found")).to_have_text(f"{count} hits")


def test_the_tokens_of_a_hit_are_marked_whole(open_tokens: OpenTokens) -> None:
    board = open_tokens(sample=generated(WORDS))
    press(board, "/")
    board.page.keyboard.type("y st")
    expect(board.page.locator(".rl-found")).to_have_text("1 hit")
    assert board.page.locator(".hit").all_text_contents() == [" by", " st"]


def test_enter_walks_the_hits_even_where_nothing_was_drawn(open_tokens: OpenTokens) -> None:
    tokens = WORDS * 1000
    tokens[8000] = " needle"
    board = open_tokens(sample=generated(tokens))
    press(board, "/")
    board.page.keyboard.type("needle")
    board.page.keyboard.press("Enter")
    token_becomes(board, 8000)
    expect(board.token(8000)).to_be_in_viewport()
    expect(board.token(8000)).to_have_class(re.compile("hit"))
    expect(board.page.locator(".rl-found")).to_have_text("1 of 1 hit")


def test_a_broken_pattern_is_said(open_tokens: OpenTokens) -> None:
    board = open_tokens(sample=generated(WORDS))
    press(board, "/")
    board.page.keyboard.type("/(/")
    expect(board.page.locator(".rl-found")).to_have_text("Invalid regular expression")


def test_dragging_zooms_and_escape_shows_all(open_tokens: OpenTokens, page: Page) -> None:
    board = open_tokens(sample=generated(WORDS * 10))
    box = board.strip.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 20.5 / 90, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 40.5 / 90, box["y"] + 5, steps=3)
    page.mouse.up()
    expect(page.locator(".rl-zoomed")).to_have_text("tokens 20–40 ✕")
    page.mouse.move(box["x"] + 2, box["y"] + 5)
    expect(board.tip.locator("b").first).to_have_text("#20")
    press(board, "Escape")
    expect(page.locator(".rl-zoomed")).to_be_hidden()
    assert board.view.token == -1


def test_where_tokens_share_a_pixel_the_extreme_one_is_found(open_tokens: OpenTokens, page: Page) -> None:
    sample = generated([" a"] * 32768)
    assert sample.logprobs is not None
    assert sample.ref_logprobs is not None
    ratios = sample.logprobs - sample.ref_logprobs
    board = open_tokens(sample=sample)
    box = board.strip.bounding_box()
    assert box is not None
    columns = board.strip.evaluate("canvas => canvas.width")
    column = columns // 2
    of_column = np.flatnonzero(np.floor(np.arange(32768) / 32768 * columns) == column)
    page.mouse.move(box["x"] + (column + 0.5) / columns * box["width"], box["y"] + 5)
    farthest = of_column[np.argmax(np.abs(ratios[of_column]))]
    expect(board.tip.locator("b").first).to_have_text(f"#{farthest}")


def test_text_strip_and_lines_share_one_token_and_one_visible_range(
    open_tokens: OpenTokens, page: Page
) -> None:
    board = open_tokens(sample=generated(WORDS * 400))
    box = board.strip.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 2000.5 / 3600, box["y"] + 5)
    wait_until(lambda: board.view.token >= 0, page=page)
    pinned = board.view.token
    assert pinned == pytest.approx(2000, abs=3600 / box["width"])
    expect(board.token(pinned)).to_be_in_viewport()
    band, cursor, lines = (
        page.locator(selector) for selector in (".rl-band", ".rl-cursor.pin", "canvas.rl-lines")
    )
    place, here, below = band.bounding_box(), cursor.bounding_box(), lines.bounding_box()
    assert place is not None
    assert here is not None
    assert below is not None
    assert place["x"] <= here["x"] <= place["x"] + place["width"]
    assert here["y"] + here["height"] == pytest.approx(below["y"] + below["height"], abs=1)
    board.text.evaluate("text => { text.scrollTop = 0 }")
    wait_until(lambda: (band.bounding_box() or place)["x"] == pytest.approx(box["x"], abs=2), page=page)
    edge = board.text.bounding_box()
    assert edge is not None
    bottoms = page.locator("[data-i]").evaluate_all("all => all.map(t => t.getBoundingClientRect().bottom)")
    first_out = int(np.argmax(np.array(bottoms) > edge["y"] + edge["height"]))
    assert band.evaluate("band => band.clientWidth") == pytest.approx(box["width"] * first_out / 3600, abs=4)


def test_a_line_stands_where_its_values_are(open_tokens: OpenTokens, page: Page) -> None:
    values = np.array(raw_line(0)["values"])
    board = open_tokens(sample=make_sample(raw_line(0)))
    row = page.locator(".rl-row-label").evaluate_all("labels => labels.map(l => l.dataset.row)")
    page.locator(".rl-row-range").nth(row.index("token_return")).click()  # does not change the value row
    heights = page.locator("canvas.rl-lines").evaluate(
        """(canvas, cells) => Array.from({length: cells}, (_, i) => {
            const pen = canvas.getContext("2d"), guide = pen.getImageData(0, 8, 1, 1).data;
            const x = Math.floor(((i + 0.5) / cells) * canvas.width);
            const {data} = pen.getImageData(x, 0, 1, 60);
            const isGuide = (y) => [0, 1, 2].every((channel) => data[4 * y + channel] === guide[channel]);
            const weights = Array.from({length: 60}, (_, y) => isGuide(y) ? 0 : data[4 * y + 3]);
            const all = weights.reduce((a, b) => a + b);
            return weights.reduce((sum, weight, y) => sum + weight * (y + 0.5), 0) / all;
        })""",
        23,
    )
    share = (values - values.min()) / np.ptp(values)
    assert board.view.token == -1
    np.testing.assert_allclose(heights, 8 + (1 - share) * 48, atol=3)


def test_a_row_becomes_a_line_by_a_click_on_its_range(open_tokens: OpenTokens, page: Page) -> None:
    board = open_tokens(sample=make_sample(raw_line(0)))
    lines = page.locator("canvas.rl-lines")
    before = lines.evaluate("canvas => canvas.toDataURL()")
    page.locator(".rl-row-range").nth(0).click()
    wait_until(lambda: lines.evaluate("canvas => canvas.toDataURL()") != before, page=page)
    board.page.locator(".rl-row-range").nth(0).click()
    wait_until(lambda: lines.evaluate("canvas => canvas.toDataURL()") == before, page=page)
