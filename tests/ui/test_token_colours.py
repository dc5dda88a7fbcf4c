"""Equal values of a token metric have equal colours, wherever in a run they are shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from rlpanel import open_run
from tests.factories import append, sample
from tests.ui.board import BoardPage

#: Log-ratios of the tokens of two samples of each step; the first token has the same value in both.
CALM, WILD = [0.3, 0.0, -0.02, 0.01], [0.3, -7.0, 2.0, 0.0]
RUN = "scales"


@pytest.fixture(scope="module")
def uids(root: Path) -> list[str]:
    """Uids of the calm and the wild sample of the last step."""
    (root / RUN).mkdir()
    rows = [
        sample(
            step, index=index, tokens=False, response="abcd", response_tokens=[*"abcd"], reward=float(index),
            logprobs=[-1.0] * 4, ref_logprobs=[-1.0 - ratio for ratio in ratios],
        )
        for step in (1, 2)
        for index, ratios in enumerate((CALM, WILD))
    ]  # fmt: skip
    append(root / RUN / "rollout_data_rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))
    with open_run(root / RUN) as run:
        snapshot = run.view.snapshot
        return [str(uid) for uid in snapshot.uids(snapshot.rows_of(2))]


def color(token: Locator) -> str:
    expect(token).to_be_visible()
    return str(token.evaluate("span => getComputedStyle(span).backgroundColor"))


def strip_color(board: BoardPage, token: int = 0) -> str:
    """Return the colour of a token of four in the heat map's first row."""
    pixel = board.page.locator("canvas.rl-strip").evaluate(
        """(canvas, token) => {
            const y = 6 * (canvas.width / canvas.clientWidth)
            const x = ((token + 0.5) / 4) * canvas.width
            return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3)
        }""",
        token,
    )
    return f"rgb({', '.join(map(str, pixel))})"


def text_token(board: BoardPage, token: int) -> Locator:
    return board.page.locator(f'.rl-tokens-text [data-i="{token}"]')


def test_equal_values_have_equal_colours_in_text_heat_map_and_conversation(
    board: BoardPage, uids: list[str]
) -> None:
    seen = set()
    for uid in uids:
        board.go(run=RUN, step=2, sample=uid, tab="tokens").shows(uid)
        board.settled()
        seen |= {color(text_token(board, 0)), strip_color(board)}
        board.go(run=RUN, step=2, sample=uid, tab="conversation", mode="tokens").settled()
        seen.add(color(board.page.locator('.rl-conversation .token[data-i="0"]')))
    assert len(seen) == 1


def test_a_value_beyond_the_scale_is_marked_and_the_legend_says_where_the_scale_is_from(
    board: BoardPage, uids: list[str]
) -> None:
    board.go(run=RUN, step=2, sample=uids[1], tab="tokens").shows(uids[1])
    board.settled()
    legend = board.page.locator(".rl-legend:visible")
    expect(legend).to_contain_text("−5.00")
    expect(legend).to_contain_text("+5.00 nats")
    expect(text_token(board, 1)).to_have_class("token beyond")
    expect(text_token(board, 2)).to_have_class("token")
    expect(legend.locator("i")).to_have_attribute(
        "title", re.compile("One scale for all samples of the run.*root mean square", re.DOTALL)
    )


def test_the_scale_can_be_chosen_and_stands_in_the_address(board: BoardPage, uids: list[str]) -> None:
    board.go(run=RUN, step=2, sample=uids[0], tab="tokens").shows(uids[0])
    board.settled()
    on_run = color(text_token(board, 2))
    board.page.locator(".rl-scale:visible", has_text="sample").click()
    expect(board.page.locator(".rl-scale.chosen:visible")).to_have_text("sample")
    board.settled()
    assert "scale=sample" in board.page.url
    assert color(text_token(board, 2)) != on_run
    board.go(run=RUN, step=2, sample=uids[1], tab="conversation", mode="tokens").settled()
    expect(board.page.locator(".rl-conversation .rl-scale.chosen")).to_have_text("run")


def lines_pixel(board: BoardPage, line: int) -> str:
    """Return the colour of the first of four tokens in a line of the page Rollouts; line 0 is the mean."""
    pixel = board.page.locator(".rl-rollouts-view canvas").evaluate(
        """(canvas, line) => {
            const label = canvas.getRootNode().querySelectorAll(".label")[line]
            const ratio = canvas.width / canvas.clientWidth
            const y = (parseFloat(label.style.top) + 7) * ratio
            return [...canvas.getContext("2d").getImageData(canvas.width / 8, y, 1, 1).data].slice(0, 3)
        }""",
        line,
    )
    return f"rgb({', '.join(map(str, pixel))})"


def test_rollouts_have_the_same_colours_and_a_click_opens_the_token(
    board: BoardPage, uids: list[str]
) -> None:
    board.go(run=RUN, step=2, sample=uids[0], tab="tokens").shows(uids[0])
    same = color(text_token(board, 0))
    board.page.get_by_role("tab", name="Rollouts", exact=True).click()
    expect(board.page.locator(".rl-rollouts-view .label")).to_have_count(3)
    board.settled()
    assert {lines_pixel(board, line) for line in (1, 2)} == {same}
    lines = board.page.locator(".rl-rollouts-view .plot")
    box = lines.bounding_box()
    assert box is not None
    lines.hover(position={"x": box["width"] * 0.4, "y": 32})  # the second token of the first line
    expect(board.page.locator(".rl-rollouts-view .said")).to_have_text("#1 “b”: log-ratio -7.0000 nats")
    lines.click(position={"x": box["width"] * 0.4, "y": 32})
    board.shows(uids[1])
    expect(text_token(board, 1)).to_have_class("token beyond pinned")
    assert "token=1" in board.settled().page.url


def test_rollouts_are_walked_by_keys(board: BoardPage, uids: list[str]) -> None:
    board.go(run=RUN, step=2, sample=uids[0], tab="tokens", page="rollouts").settled()
    view = board.page.locator(".rl-rollouts-view")
    view.focus()
    for key in ("Escape", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        board.press(key)
    expect(view.locator(".said")).to_contain_text("#2")
    board.press("Shift+ArrowLeft")  # the outlier of the line above
    expect(view.locator(".said")).to_contain_text("-7.0000 nats")
    board.press("Enter")
    board.shows(uids[1])
