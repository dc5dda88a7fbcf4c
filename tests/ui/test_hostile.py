"""Text that a model wrote, names of files, runs and columns: shown as text, never run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.factories import sample
from tests.ui.conftest import OpenBoard

ATTACK = (
    "<img src=x onerror='window.pwned=1'><svg onload='window.pwned=1'></svg><script>window.pwned=1</script>"
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe><a href='javascript:window.pwned=1'>x</a>"
    "</textarea><style>*{display:none}</style>"
)
#: Names on disk hold no slash and are short.
NAMED = "<img src=x onerror=window.pwned=1>"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    folder = root / f"a{NAMED}"
    folder.mkdir()
    lines = [
        sample(
            step,
            index=index,
            prompt=ATTACK,
            response=ATTACK,
            response_tokens=[ATTACK, "ok"],
            logprobs=[-0.1, -0.2],
            ref_logprobs=[-0.3, -0.1],
            values=[0.1, 0.2],
            token_rewards=[0.0, 1.0],
            ref_response=ATTACK,
            ground_truth=ATTACK,
            group=ATTACK,
            lang=NAMED,
            rewards={NAMED: 1.0 * index},
            note=ATTACK * 3,
            **{f"x{NAMED}": 0.5 * index},
        )
        for step in (1, 2)
        for index in range(4)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + f"{ATTACK}\n"
    (folder / f"rollout_data_rank_0{NAMED}.jsonl").write_text(text)


def test_nothing_that_a_log_says_is_run(open_board: OpenBoard) -> None:
    board = open_board(step=1).settled(1)
    page = board.page
    expect(board.page.locator(".rl-tokens-text")).to_contain_text("onerror")
    board.curve("Reward").hover()
    page.locator(".rl-tokens-text [data-i]").first.hover()
    page.locator(".rl-tokens-text [data-i]").first.click()
    board.tab("Pair")
    expect(board.pair).to_contain_text("<img src=x")
    board.pair.locator(".extra summary").click()
    board.badge.locator("summary").first.click()
    expect(board.badge.locator("li").first).to_contain_text("not valid JSON")
    page.locator(".rl-curve-choice").click()
    page.locator(".MuiPopover-root").get_by_text(f"x{NAMED}").click()
    page.keyboard.press("Escape")
    expect(page.locator(".MuiPopover-root")).to_have_count(0)
    expect(board.curve(f"X{NAMED}")).to_be_visible()
    board.grid.locator(".tabulator-row").nth(1).click()
    board.press("ArrowRight")
    board.at_step(2)
    assert page.evaluate("() => window.pwned") is None
    # None of the payload's elements stands anywhere, shadow roots included.
    assert page.locator("img[src='x'], iframe, svg[onload], a[href^='javascript']").count() == 0
