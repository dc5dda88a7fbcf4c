"""A finding leads to its evidence in at most two clicks, and closing it gives back what the viewer had."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import expect

from rlpanel.app.demo import write_recording
from tests.turning_runs import TURN, write_engine_drift, write_failing_tool, write_truth_shift
from tests.ui.board import BoardPage

pytestmark = pytest.mark.slow

#: Counts the clicks from now on.
COUNT = """() => {
    window.clicks = 0
    window.counted ??= document.addEventListener("click", () => { window.clicks += 1 }, true) ?? true
}"""


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    """Runs whose truth shifts, whose engine drifts, whose tool fails; and the recorded agent."""
    write_truth_shift(root / "truth")
    write_engine_drift(root / "engine")
    write_failing_tool(root / "tool")
    write_recording("grpo_calculator", root / "calculator")


def query(board: BoardPage) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(board.page.url).query))


def headline(board: BoardPage, run: str, **selected: object) -> BoardPage:
    """Open a run, and click its first finding above the curves."""
    board.go(run=run, theme="dark", **selected)
    expect(board.badge).to_contain_text(run)
    first = board.page.locator(".rl-current-findings .sentence").first
    expect(first).to_be_visible()
    board.page.evaluate(COUNT)
    first.click()
    expect(board.page.locator(".rl-opened-finding")).to_contain_text("Finding:")
    return board


def tab(board: BoardPage) -> str:
    return board.page.locator(".rl-sample [role=tab][aria-selected=true]").inner_text()


@pytest.mark.parametrize(("run", "call"), [("calculator", "add"), ("tool", "search")])
def test_a_failing_tool_opens_the_conversation_at_the_failed_call(
    board: BoardPage, run: str, call: str
) -> None:
    headline(board, run)
    board.until(lambda: tab(board) == "Conversation", "the conversation is open")
    board.until(lambda: int(query(board)["turn"]) > 0, "the address names the turn")
    expect(board.page.locator(".rl-conversation .call .answer.wrong").first).to_be_in_viewport()
    assert board.page.evaluate("window.clicks") <= 2


def test_a_shifted_truth_opens_the_text_at_the_end_of_the_response(board: BoardPage) -> None:
    headline(board, "truth")
    expect(board.page.locator(".rl-opened-finding")).to_contain_text(f"From step {TURN} on, the mean reward")
    expect(board.page.locator(".rl-opened-finding")).to_contain_text(f"before {TURN - 1}")
    board.until(lambda: tab(board) == "Text", "the text is open")
    expect(board.pair.locator("section").first).to_contain_text("The answer is")
    expect(board.pair.locator("[data-in-sight]")).to_be_in_viewport()
    expect(board.pair.locator("section").last.locator("p")).to_be_in_viewport()
    assert board.page.evaluate("window.clicks") == 1


def test_a_token_rule_opens_the_tokens_with_the_metric_and_the_token(board: BoardPage) -> None:
    headline(board, "engine")
    board.until(lambda: tab(board) == "Tokens", "the tokens are open")
    shown = query(board)
    assert (shown["metric"], shown["filter"]) == ("engine_log_ratio", "rank == 1")
    assert int(shown["token"]) >= 0
    assert abs(int(shown["step"]) - TURN) <= 2


def test_closing_a_finding_gives_back_what_the_viewer_had(board: BoardPage) -> None:
    own = {"filter": "reward > 0.5", "sort": "-reward", "metric": "logprob", "tab": "group"}
    headline(board, "engine", step=30, **own)
    board.until(lambda: query(board)["filter"] == "rank == 1", "the finding's filter is set")
    board.page.get_by_role("button", name="Close the finding").click()
    board.until(lambda: own.items() <= query(board).items(), "all is as before")
    assert not query(board).keys() & {"finding", "curves", "token"}


def test_what_the_viewer_has_changed_since_stays(board: BoardPage) -> None:
    headline(board, "engine", step=30, filter="reward > 0.5", tab="group")
    board.until(lambda: query(board)["filter"] == "rank == 1", "the finding's filter is set")
    board.tab("Conversation")
    board.page.get_by_role("button", name="Close the finding").click()
    board.until(lambda: query(board)["filter"] == "reward > 0.5", "the filter is as before")
    assert query(board)["tab"] == "conversation"


def test_another_run_has_no_filter_curve_or_sort_of_the_finding(board: BoardPage) -> None:
    headline(board, "calculator")
    board.until(lambda: "tool_errors" in query(board).get("filter", ""), "the finding's filter is set")
    board.page.locator(".rl-runs").get_by_role("treeitem", name="engine").click()
    expect(board.badge).to_contain_text("engine")
    board.until(lambda: query(board)["run"] == "engine", "the other run is shown")
    left = {"filter", "sort", "curves", "finding", "turn", "tab"}
    board.until(lambda: not query(board).keys() & left, "nothing of the finding is left")


def test_a_shared_link_to_a_finding_can_be_closed_too(board: BoardPage) -> None:
    headline(board, "calculator")
    board.until(lambda: "tool_errors" in query(board).get("filter", ""), "the finding's filter is set")
    board.open(**query(board))
    expect(board.page.locator(".rl-opened-finding")).to_contain_text("Finding:")
    board.page.get_by_role("button", name="Close the finding").click()
    board.until(lambda: not query(board).keys() & {"filter", "sort", "finding", "curves"}, "nothing is left")


def test_the_grid_shows_the_sample_that_a_finding_chose(board: BoardPage) -> None:
    headline(board, "truth")
    expect(board.selected).to_have_count(1)
    expect(board.selected).to_be_in_viewport()
    assert board.uid() == query(board)["sample"]


def test_explain_begins_with_the_finding_and_counts_calls_and_rollouts_of_each_tool(board: BoardPage) -> None:
    headline(board, "tool")
    board.page.locator("[role=tab][data-key=explain]").click()
    assert board.page.evaluate("window.clicks") == 2
    expect(board.page.locator(".rl-explain-finding")).to_contain_text(
        "Of the calls of search, 150 of 429 fail"
    )
    expect(board.page.locator(".rl-opened-finding .sentence")).to_contain_text("have an error of search")
    expect(board.page.locator(".rl-explain-finding")).not_to_contain_text("have an error of search")
    tools = board.page.locator(".rl-explain-tools button.row")
    expect(tools.first).to_contain_text("search")
    expect(tools).to_have_count(3)
    note = board.page.locator(".rl-contrast-note")
    expect(note).to_contain_text(f"Steps {TURN}–{TURN + 4} (40 samples) against steps {TURN - 5}–{TURN - 1}")
    expect(note).to_contain_text("Most different: tool errors")
    tools.first.click()
    board.until(lambda: query(board)["filter"] == "`tool_errors.search` > 0", "its rollouts are shown")


def test_the_choice_in_explain_is_in_the_address(board: BoardPage) -> None:
    board.go(run="engine", page="explain", step=30, explain="shares:surprisal_mean:20", theme="dark")
    summary = board.page.locator(".rl-explain-summary")
    expect(summary).to_contain_text("Surprisal in step 30")
    expect(summary).to_contain_text("in step 20")
    board.pick(".rl-explain-what", "What is different in two sets")
    board.pick(".rl-contrast-choice", "Steps / other steps")
    board.page.locator(".rl-contrast-a input").fill("4-6")
    board.page.locator(".rl-contrast-a input").press("Enter")
    board.until(lambda: query(board)["explain"].startswith("contrast:ranges:4-6:1"), "the address has it")
    board.open(**query(board))
    expect(board.page.locator(".rl-contrast-note")).to_contain_text("Steps 4–6 (96 samples)")


def test_where_nothing_stands_out_words_stand_in_place_of_a_table(board: BoardPage) -> None:
    board.go(run="engine", page="explain", step=30, explain="shares:surprisal_mean:20", theme="dark")
    expect(board.page.locator(".rl-explain-summary")).to_contain_text("nothing stands out")
    expect(board.page.locator(".rl-explain-shares button.row")).to_have_count(0)
    expect(board.page.locator(".rl-explain-all button")).to_be_visible()
