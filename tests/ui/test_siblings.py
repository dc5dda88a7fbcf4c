"""The failing rollout beside the succeeding one, from the turn on where they part, in one click."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.factories import append, sample
from tests.ui.board import BoardPage

pytestmark = pytest.mark.slow
PAYLOAD = "<img src=x onerror=\"window.ran = 'siblings'\">"


def messages(tools: list[str], error: bool) -> list[dict[str, Any]]:
    """Return a conversation with one call a turn; the last one fails or ends the task."""
    made: list[dict[str, Any]] = [{"role": "user", "content": "Repair the lexer."}]
    for tool in tools:
        call = {"name": tool, "arguments": json.dumps({"query": PAYLOAD})}
        made.append({"role": "assistant", "content": "", "tool_calls": [call]})
        text = "\n".join(f"{PAYLOAD} {n}" for n in range(30))
        made.append({"role": "tool", "content": text, "is_error": error and tool == "search"})
    return [*made, {"role": "assistant", "content": "I gave up." if error else "Repaired."}]


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    """A group of agents: three rollouts, of which one was discarded, and one fails from turn 24 on."""
    start = ["read"] * 23
    rollouts = [
        (0.0, [*start, *["search"] * 40], "ok"),
        (1.0, [*start, "grep", "edit"], "ok"),
        (0.0, ["ls"], "discarded"),
    ]
    lines = [
        sample(1, index=at, tokens=False, group="a", reward=reward, messages=messages(tools, not reward),
               prompt_messages=1, status=status, drop=["prompt", "response", "ref_response", "ground_truth"])
        for at, (reward, tools, status) in enumerate(rollouts)
    ]  # fmt: skip
    (root / "agents").mkdir()
    append(
        root / "agents" / "rollout_data_rank_0.jsonl", *(json.dumps(each).encode() + b"\n" for each in lines)
    )


@pytest.mark.parametrize("width", [390, 1024, 1440, 1920])
def test_the_place_where_rollouts_part_is_in_sight(board: BoardPage, width: int) -> None:
    board.page.set_viewport_size({"width": width, "height": 900})
    board.go(run="agents", step=1).settled(1)
    board.tab("Diff")
    view = board.page.locator(".rl-compare")
    lines = view.locator(".line")
    expect(lines).to_have_text(["same until turn 23", "first different turn: 24, another tool"])
    parting = view.locator(".turn.parting").first
    if width > 1000:  # a phone scrolls the whole page
        in_sight = (
            "turn => { const { top, height } = turn.getBoundingClientRect(); return height && top < 840 }"
        )
        board.until(lambda: parting.evaluate(in_sight), "the turn is in sight")
    table = view.locator("table")
    expect(table.locator("tr").nth(1).locator("td").nth(2)).to_have_text("40")
    expect(table.locator("tr").nth(2).locator("td").nth(2)).to_have_text("0")
    assert table.evaluate("table => table.scrollWidth <= table.parentElement.clientWidth")
    assert view.locator("img").count() == 0
    assert board.page.evaluate("window.ran") is None


def pair(board: BoardPage) -> tuple[Locator, Locator]:
    """The conversations that stand beside each other."""
    both = board.page.locator(".rl-conversation:visible")
    expect(both).to_have_count(2)
    return both.nth(0), both.nth(1)


def part_in_sight(board: BoardPage, words: str) -> None:
    """Expect that both conversations show the message at which they part, and say how."""
    board.settled()
    for conversation, tool in zip(pair(board), ("search", "grep"), strict=True):
        parting = conversation.locator(".message.parting")
        expect(parting).to_have_attribute("data-parting", f"The rollouts part here: {words}")
        expect(parting).to_have_attribute("aria-label", "assistant 24")
        expect(parting).to_be_in_viewport()
        expect(parting.locator(".asked b.tool").first).to_have_text(tool)


def test_two_rollouts_are_read_beside_each_other_by_one_key(board: BoardPage) -> None:
    board.page.set_viewport_size({"width": 1440, "height": 900})
    board.open(run="agents", step=1, tab="conversation").settled(1)
    first = board.uid
    board.press("b")
    part_in_sight(board, "another tool")
    expect(board.page.locator(".rl-parting")).to_contain_text("First different turn: 24, another tool.")
    expect(board.page.locator(".rl-parting")).to_contain_text("the highest reward of the group")
    expect(board.page).to_have_url(re.compile("pair=.*"))
    assert board.uid == first
    shared = board.page.url
    board.page.goto("about:blank")
    board.page.goto(re.sub("&turn=[0-9]+", "", shared))
    board.settled(1)
    part_in_sight(board, "another tool")
    pair(board)[1].locator(".list").focus()
    board.press("e")  # the keys are those of the conversation that has the focus
    expect(pair(board)[0].locator(".to-error .count")).to_have_text("error 40")
    board.page.locator(".rl-to-parting").get_by_role("button").click()
    part_in_sight(board, "another tool")
    board.press("b")
    expect(board.page.locator(".rl-conversation:visible")).to_have_count(1)
    assert "pair=" not in board.page.url
    assert board.page.evaluate("window.ran") is None


def test_group_and_diff_lead_to_both_conversations(board: BoardPage) -> None:
    board.page.set_viewport_size({"width": 1440, "height": 900})
    board.open(run="agents", step=1, tab="group").settled(1)
    board.page.locator(".rl-group-cards .card-box").nth(1).get_by_role("button", name="beside").click()
    part_in_sight(board, "another tool")
    board.open(run="agents", step=1, tab="diff").settled(1)
    board.page.locator(".rl-read-both").get_by_role("button").click()
    part_in_sight(board, "another tool")
    # Another sample of no common group closes the second conversation, and so does another address.
    board.go(run="agents", step=1, tab="conversation").settled(1)
    expect(board.page.locator(".rl-conversation:visible")).to_have_count(1)


def test_a_rollout_of_no_common_group_is_not_shown_beside(board: BoardPage) -> None:
    board.open(run="agents", step=1, tab="conversation", pair="rollout_data_rank_0.jsonl:999").settled(1)
    expect(board.page.locator(".rl-conversation:visible")).to_have_count(1)
    expect(board.page).not_to_have_url(re.compile("pair="))
