"""The tab Tree: a rollout's sub-agents and branches, by keyboard and click, and 500 rows without a stall."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.ui.board import BoardPage

UPSTREAM = Path(__file__).parents[1] / "data" / "upstream"
#: Milliseconds: a longer task of the browser is one that a reader notices as a stall.
STALL = 1000
TRACES = "rollouts/step_1/train/all/traces.jsonl"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    shutil.copytree(UPSTREAM / "verifiers-0.4.0" / "fork", root / "fork")
    shutil.copytree(UPSTREAM / "harbor-0.26.0", root / "harbor")
    chance = random.Random(3)
    rows = [
        {
            "step": 1,
            "episode": "large",
            "agent": f"agent {at % 5}",
            "branch": f"n{at}",
            "messages": [
                {"role": "user", "content": f"task {at}"},
                {"role": "assistant", "content": f"done {at}"},
            ],
            "response_token_ids": [1] * (at % 40 + 1),
            "reward": at / 500,
        }
        | ({"parent": f"n{chance.randrange(max(0, at - 20), at)}", "branch_kind": "sub-agent"} if at else {})
        for at in range(500)
    ]
    (root / "large").mkdir()
    (root / "large" / "rank_0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def nodes(board: BoardPage) -> Locator:
    return board.page.locator(".rl-tree .node")


def test_a_fork_shows_what_each_branch_trained(board: BoardPage) -> None:
    board.go(run="fork", step=1, sample=f"{TRACES}:0", page="samples", tab="tree").settled()
    expect(board.page.locator(".rl-tree .summary")).to_contain_text("2 rows (root 1, branch 1) · 10 tokens")
    expect(nodes(board)).to_have_count(2)
    branch = nodes(board).nth(1)
    expect(branch.locator(".kind")).to_have_text("branch")
    expect(branch.locator(".tokens")).to_contain_text("1 / 5")
    expect(branch.locator(".advantage")).to_have_text("−0.5")
    expect(branch).to_have_attribute("title", "branch 1 · shares 2 messages with its parent")


def test_keys_move_and_open_a_row_at_its_own_turn(board: BoardPage) -> None:
    board.go(run="fork", step=1, sample=f"{TRACES}:0", page="samples", tab="tree").settled()
    root, branch = nodes(board).first, nodes(board).nth(1)
    expect(root).to_have_attribute("aria-current", "true")
    root.press("ArrowDown")
    expect(branch).to_be_focused()
    branch.press("ArrowLeft")
    expect(root).to_be_focused()
    root.press("ArrowRight")
    expect(branch).to_be_focused()
    branch.press("Enter")
    board.settled()
    expect(board.page.get_by_role("tab", name="Conversation", selected=True)).to_be_visible()
    assert "traces.jsonl%3A0%2F1" in board.page.url
    board.tab("Tree")
    expect(nodes(board).nth(1)).to_have_attribute("aria-current", "true")


def test_harbors_sub_agent_is_below_its_call(board: BoardPage) -> None:
    board.go(run="harbor", page="samples", tab="tree", filter="episode == 'draw__fffffff'").settled()
    expect(nodes(board).filter(has_text="sub-1").locator(".link")).to_have_text("called in turn 2")


def test_500_rows_are_shown_without_a_stall(board: BoardPage) -> None:
    board.go(run="large", step=1, sample="rank_0.jsonl:0", page="samples", tab="conversation").settled()
    board.page.evaluate(
        """() => {
            window.tasks = []
            const note = (list) => list.getEntries().forEach((each) => window.tasks.push(each.duration))
            new PerformanceObserver(note).observe({type: "longtask"})
        }"""
    )
    board.tab("Tree")
    expect(nodes(board)).to_have_count(500)
    nodes(board).first.press("End")
    expect(nodes(board).last).to_be_focused()
    board.settled()
    assert max(board.page.evaluate("window.tasks"), default=0) < STALL


def test_a_run_without_episodes_has_no_tree(board: BoardPage, root: Path) -> None:
    (root / "plain").mkdir()
    (root / "plain" / "rank_0.jsonl").write_text(
        json.dumps({"step": 1, "prompt": "p", "response": "r"}) + "\n"
    )
    board.go(run="plain", step=1, page="samples").settled()
    expect(board.page.get_by_role("tab", name="Text", exact=True)).to_be_visible()
    expect(board.page.get_by_role("tab", name="Tree")).to_have_count(0)
