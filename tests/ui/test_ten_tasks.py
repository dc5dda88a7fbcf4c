"""Ten questions of an engineer: each is answered from the opened run by at most three clicks or keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pandas as pd
import pytest
from playwright.sync_api import expect

from rlpanel.app.demo import write_recording
from tests.conversations import FAILED_SEARCHES, repair_episode, write_agent_run
from tests.factories import append, line, write_run
from tests.turning_runs import TURN, write_engine_drift, write_failing_tool, write_hacked_reward
from tests.ui.board import BoardPage, cells_of

pytestmark = pytest.mark.slow

#: Clicks that any of the questions may take.
MAX_CLICKS = 3

#: Counts clicks and keys since the last call. A choice of a select counts as two: a reader opens it first.
COUNT = """() => {
    window.done = 0
    if (window.counted) return
    window.counted = true
    const select = (event) => event.composedPath()[0].tagName === "SELECT"
    const acts = { pointerdown: () => 1, keydown: () => 1, input: (event) => 2 * select(event) }
    for (const kind of Object.keys(acts))
        window.addEventListener(kind, (event) => { window.done += acts[kind](event) }, true)
}"""


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write_recording("grpo_calculator", root / "calculator")
    write_recording("grpo_calculator", root / "second")
    write_failing_tool(root / "tool")
    write_hacked_reward(root / "hack")
    write_engine_drift(root / "engine")
    write_agent_run(root / "repair", repair_episode())
    write_run(root / "live", steps=4, samples=8)


@contextmanager
def within(board: BoardPage, clicks: int, run: str, **selected: object) -> Iterator[BoardPage]:
    """Open a run; what is then done must take just so many clicks, and never more than three."""
    assert 1 <= clicks <= MAX_CLICKS
    board.go(run=run, **selected).settled()
    expect(board.badge).to_contain_text(run)
    board.page.evaluate(COUNT)
    yield board
    assert board.page.evaluate("window.done") == clicks


def query(board: BoardPage) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(board.page.url).query))


def tab_is(board: BoardPage, name: str) -> None:
    expect(board.page.locator(".rl-sample [role=tab][aria-selected=true]")).to_have_text(name)


def read_headline(board: BoardPage, *words: str) -> None:
    """Wait until the first finding above the curves has these words, and click it."""
    first = board.page.locator(".rl-current-findings .sentence").first
    for word in words:
        expect(first).to_contain_text(word)
    first.click()
    expect(board.page.locator(".rl-opened-finding")).to_contain_text("Finding:")


@pytest.mark.parametrize(
    ("run", "words"),
    [("calculator", ["From step 21 on", "error of add", "while the reward fell"]), ("tool", ["search"])],
)
def test_1_and_2_why_the_reward_falls_and_the_failed_call_of_the_tool(
    board: BoardPage, run: str, words: list[str]
) -> None:
    with within(board, 1, run):
        read_headline(board, *words)
        tab_is(board, "Conversation")
        expect(board.page.locator(".rl-conversation .call .answer.wrong").first).to_be_in_viewport()


def test_3_reward_for_empty_answers(board: BoardPage) -> None:
    with within(board, 1, "hack"):
        read_headline(board, "responses are empty", "while the reward rose")
        board.until(lambda: query(board)["step"] == str(TURN), "the first step with empty responses is open")
        board.until(lambda: set(board.column("response")) == {""}, "all listed responses are empty")
        assert set(board.column("reward")) == {"1"}
        expect(board.sample_head).to_contain_text("reward 1")


def test_4_two_runs_and_two_checkpoints_of_one(board: BoardPage) -> None:
    with within(board, 3, "calculator"):
        board.tab("Compare")
        words = board.page.locator(".rl-compare-runs")
        expect(words).to_contain_text("36 prompts in both runs")
        expect(board.page).to_have_url(re.compile("against=second"))
        board.pick(".rl-against-run", "This run, at other steps")
        expect(words).to_contain_text("mean difference −0.35")


def test_5_the_prompts_that_are_forgotten_and_their_samples(board: BoardPage) -> None:
    with within(board, 2, "calculator"):
        board.tab("Prompts")
        rows = board.page.locator(".rl-prompts-table .tabulator-row")
        expect(board.page.locator(".rl-courses [aria-selected=true]")).to_have_text("forgotten 12")
        expect(rows).to_have_count(12)
        rows.first.click()
        tab_is(board, "History")


def test_6_the_worst_new_sample_while_the_run_grows(board: BoardPage, root: Path) -> None:
    with within(board, 2, "live"):
        board.at_step(4)
        board.page.locator(".rl-query summary").get_by_text("Presets").click()
        board.page.locator(".rl-query").get_by_text("Lowest reward", exact=True).click()
        for step, worst in ((5, 3), (6, 6)):
            lines = [line(step, index=at, reward=-float(at == worst)) for at in range(8)]
            append(root / "live" / "rollout_data_rank_0.jsonl", *lines)
            board.at_step(step)
            board.until(lambda: board.column("reward")[0] == "−1", "the worst sample stands on top")


def test_7_the_engine_that_leaves_the_trainer(board: BoardPage) -> None:
    with within(board, 1, "engine"):
        read_headline(board, "engine")
        tab_is(board, "Tokens")
        shown = query(board)
        assert (shown["metric"], shown["filter"]) == ("engine_log_ratio", "rank == 1")
        assert abs(int(shown["step"]) - TURN) <= 2


def test_8_the_turn_where_sixty_turns_go_wrong(board: BoardPage) -> None:
    with within(board, 1, "repair"):
        tab_is(board, "Conversation")
        board.press("e")
        turn = board.page.locator(f'section.message[aria-label="assistant {FAILED_SEARCHES[0]}"]')
        expect(turn.locator(".answer.wrong").first).to_be_in_viewport()


def test_9_a_finding_is_shared_with_its_tab(board: BoardPage) -> None:
    board.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    with within(board, 3, "calculator"):
        read_headline(board, "error of add")
        board.tab("Text")
        board.page.get_by_text("share link").click()
        expect(board.page.locator(".rl-share")).to_contain_text("Copied.")
    uid, sent = board.uid(), board.page.evaluate("navigator.clipboard.readText()")
    board.page.goto(sent)
    board.settled().shows(uid)
    tab_is(board, "Text")
    expect(board.page.locator(".rl-opened-finding")).to_contain_text("error of add")


def test_10_a_slice_as_a_table_for_a_notebook(board: BoardPage) -> None:
    with within(board, 2, "calculator", step=30, filter="reward > 0"):
        rewards = board.until(lambda: board.column("reward"), "the slice is listed")
        assert 0 < len(rewards) < 20
        board.page.locator(".rl-query summary").get_by_text("Export").click()
        with board.page.expect_download() as taken:
            board.page.locator(".rl-query").get_by_text("JSONL", exact=True).click()
    frame = pd.read_json(taken.value.path(), lines=True)
    assert frame.reward.tolist() == pytest.approx([float(each) for each in rewards])
    assert set(frame.step) == {30}
    expect(board.rows.locator(cells_of("reward"))).to_have_count(len(frame))
