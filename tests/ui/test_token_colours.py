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
