"""The board with little data, no data, or errors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.factories import line, sample, write_run
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import OpenBoard
from tests.unit.store.snapshot.test_remarks import TRAINED, write_state, write_trl

FILE = "rollout_data_rank_0.jsonl"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path / "root") as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def run_beside(root: Path) -> None:
    """Return what the shared page shows when it opens."""
    write_run(root / "beside", steps=7, samples=4)


def test_a_root_that_is_not_there_yet_shows_how_to_begin_and_then_its_first_run(
    server: Served, open_board: OpenBoard, tmp_path: Path
) -> None:
    board = open_board(server=server)
    expect(board.stage).to_contain_text("No such folder yet")
    expect(board.stage).to_contain_text('"step": 3')
    write_run(tmp_path / "root" / "first", steps=2, samples=4)
    board.settled()
    expect(board.badge).to_contain_text("first")


@pytest.mark.slow
def test_the_demo_is_one_click_away(server: Served, open_board: OpenBoard, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    board = open_board(server=server)
    board.page.get_by_role("button", name="Open the demo run").click()
    board.settled()
    expect(board.badge).to_contain_text("couplets-grpo")
    points = len(board.source("reward")["x"])
    board.until(lambda: len(board.source("reward")["x"]) > points, "the demo grows")


@pytest.mark.slow
def test_a_run_without_tokens_has_no_empty_panel(board: BoardPage, root: Path) -> None:
    write_run(root / "plain", steps=range(0, 2400, 100), samples=4, tokens=False)
    board.go(run="plain", step=100).settled(100)
    titles = board.page.locator(".rl-curve .head b").all_inner_texts()
    assert titles == ["Reward", "Response length", "Reward gap"]  # the prompt's length is constant
    expect(board.page.get_by_role("tab", name="Conversation", selected=True)).to_be_visible()
    board.press("ArrowRight")
    board.at_step(200)
    board.tab("Tokens")
    expect(board.page.locator(".rl-tokens:not(.rl-conversation)")).to_contain_text(
        "This sample has no tokens"
    )


def test_a_run_of_bad_lines_says_where_and_why(server: Served, open_board: OpenBoard, tmp_path: Path) -> None:
    folder = tmp_path / "root" / "broken"
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(b'{"step": 1\n[1]\n{"prompt": "x"}\n')
    board = open_board(server=server)
    expect(board.stage).to_contain_text("No samples yet")
    board.stage.locator("summary").click()
    reasons = board.stage.locator(".rl-bad-lines li")
    expect(reasons).to_have_count(3)
    expect(reasons.nth(0)).to_contain_text(f"{FILE}:1 not valid JSON")
    expect(reasons.nth(1)).to_contain_text(f"{FILE}:2 a JSON array")
    expect(reasons.nth(2)).to_contain_text(f"{FILE}:3 no 'step'")


def test_a_bad_line_is_counted_and_the_rest_is_kept(board: BoardPage, root: Path) -> None:
    folder = root / "partly"
    folder.mkdir(parents=True)
    lines = [line(1, index=0), b"garbage\n", line(1, index=1), line(1, index=2)[:-9]]
    (folder / FILE).write_bytes(b"".join(lines))
    board.go(run="partly").settled(1)
    expect(board.count).to_have_text("2 of step 1")
    expect(board.badge).to_contain_text("1 bad line")
    with (folder / FILE).open("ab") as log:
        log.write(line(1, index=2)[-9:])
    expect(board.badge).to_contain_text("3 samples")


def test_odd_samples_are_shown_as_what_they_are(board: BoardPage, root: Path) -> None:
    folder = root / "odd"
    folder.mkdir(parents=True)
    short = sample(
        "12", index=0, response_tokens=["a", "b", "c"], logprobs=[-1.0, -2.0], ref_logprobs=[-1.0, -1.0]
    )
    short = {key: value for key, value in short.items() if key not in ("values", "token_rewards")}
    rows = [
        short,
        sample(12.0, index=1, reward=None),
        sample(12, index=2, reward=float("nan"), drop=["logprobs"]),
    ]
    (folder / FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    board.go(run="odd").settled(12)
    expect(board.sample_head).to_contain_text("'logprobs' has 2 values for 3 tokens")
    assert board.column("reward")[1:] == ["–", "–"]
    expect(board.page.locator(".rl-distribution")).to_contain_text("n = 3, 2 missing")


@pytest.mark.slow
def test_a_folder_that_vanishes_leaves_its_last_state(board: BoardPage, root: Path) -> None:
    write_run(root / "vanishes", steps=2, samples=4)
    board.go(run="vanishes").settled(2)
    shutil.rmtree(root / "vanishes")
    expect(board.badge).to_contain_text("1 problem")
    board.at_step(2)


def test_steps_that_may_hold_an_evaluation_are_marked_in_the_head_at_the_step_and_in_the_list(
    board: BoardPage, root: Path
) -> None:
    folder = root / "evaluated"
    write_trl(folder, TRAINED)
    write_state(folder, {"step": 4, "eval_reward": 0.25})
    board.go(run="evaluated", step=4).settled(4)
    badge = board.page.locator(".rl-remarks")
    expect(badge.locator("summary")).to_have_text("1 step may hold evaluation samples")
    expect(badge.locator("li")).to_be_hidden()
    badge.locator("summary").click()
    expect(badge.locator("li")).to_contain_text("the trainer evaluated at this step")
    expect(board.page.locator(".rl-step .doubts")).to_have_text("may hold evaluation samples")
    badge.locator("summary").click()
    board.press("ArrowLeft")
    board.at_step(3)
    expect(board.page.locator(".rl-step .doubts")).to_have_count(0)
    expect(board.page.locator(".rl-runs .reward", has_text="0.75?")).to_be_visible()
