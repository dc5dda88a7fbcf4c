"""The failing rollout beside the succeeding one, from the turn on where they part, in one click."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

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
