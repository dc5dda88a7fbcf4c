"""Lists of the log that are no fields: menu, categories and hostile names, in the browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from rlpanel import open_run
from tests.factories import append, sample
from tests.ui.board import BoardPage

RUN = "arrays"
HOSTILE = "<img src=x onerror=document.title='run'>"


@pytest.fixture(scope="module")
def uid(root: Path) -> str:
    (root / RUN).mkdir()
    arrays = {"seen": [True, False, False, True], HOSTILE: [0.1, 0.2, 0.3, 0.4], "__proto__": [1, 2, 3, 3]}
    rows = [
        sample(
            step, tokens=False, response="abcd", response_tokens=[*"abcd"], reward=0.5, logprobs=[-1.0] * 4,
            ref_logprobs=[-1.5] * 4,
        ) | arrays
        for step in (1, 2)
    ]  # fmt: skip
    append(root / RUN / "rollout_data_rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))
    with open_run(root / RUN) as run:
        return str(run.snapshot.uid(1))


def test_the_menu_has_both_kinds_and_a_category_colours_the_tokens(board: BoardPage, uid: str) -> None:
    board.open(run=RUN, uid=uid, tab="tokens")
    menu = board.page.locator("select.rl-metrics")
    expect(menu).to_be_visible()
    groups = menu.evaluate("menu => [...menu.children].map(group => [group.label, group.children.length])")
    assert [label for label, _ in groups] == ["Declared", "Logged"]
    assert groups[1][1] == 3
    menu.select_option("logged:seen")
    expect(board.page.locator(".rl-category")).to_have_text(["false", "true"])
    colors = [
        board.page.locator(f'.rl-tokens-text [data-i="{token}"]').evaluate(
            "span => getComputedStyle(span).backgroundColor"
        )
        for token in range(4)
    ]
    assert colors[0] == colors[3] != colors[1] == colors[2]
    expect(board.page).to_have_url(re.compile("metric=logged%3Aseen"))


def test_names_from_the_log_are_text(board: BoardPage, uid: str) -> None:
    board.go(run=RUN, uid=uid, tab="tokens", metric="logged:__proto__")
    menu = board.page.locator("select.rl-metrics")
    expect(menu).to_have_value("logged:__proto__")
    menu.select_option(f"logged:{HOSTILE}")
    expect(board.page.locator(".rl-row-label.chosen")).to_have_text(HOSTILE)
    assert board.page.locator(".rl-tokens img").count() == 0
