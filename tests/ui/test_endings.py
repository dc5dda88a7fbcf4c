"""The page Failures, and the tab Judging: cards of judges, a verifier's output, and texts that stay texts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.ended_runs import HOSTILE, call, plain_talk, write_ended_run
from tests.ui.board import BoardPage

UPSTREAM = Path(__file__).parents[1] / "data" / "upstream"
LOG = "rollout_data_rank_0.jsonl"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write_ended_run(root / "ended", steps=4)
    shutil.copytree(UPSTREAM / "verifiers-0.4.0" / "judges", root / "verifiers")
    shutil.copytree(UPSTREAM / "harbor-0.26.0", root / "harbor")
    lines = [
        {
            "messages": plain_talk("391"),
            "judge_calls": [call(f"judge {number}", float(number % 2)) for number in range(1000)],
        },
        {
            "messages": plain_talk("391"),
            "judge_calls": [{"name": HOSTILE, "model": HOSTILE, "verdict": HOSTILE, "answer": HOSTILE}],
            "verifier": {HOSTILE: HOSTILE},
        },
        {"messages": plain_talk("391"), "status": "timeout", "status_reason": HOSTILE, "env": HOSTILE},
    ]
    (root / "many").mkdir()
    (root / "many" / LOG).write_text("".join(json.dumps({"step": 1, **line}) + "\n" for line in lines))
    (root / "plain").mkdir()
    (root / "plain" / LOG).write_text('{"step": 1, "response": "r"}\n')


def test_what_verifiers_judges_recorded_is_a_card_with_its_request(board: BoardPage) -> None:
    board.go(run="verifiers", step=1, page="samples", tab="judging").settled()
    board.rows.nth(3).click()
    tab = board.page.locator(".rl-judging")
    expect(tab.locator(".summary")).to_have_text("2 judge calls · 1 without a verdict · 182 tokens")
    expect(tab.locator(".card")).to_have_count(2)
    strict = tab.locator(".card").nth(1)
    expect(strict.locator(".head")).to_contain_text("judge-strict")
    expect(strict.locator(".verdict")).to_have_text("no verdict")
    expect(strict.locator(".facts")).to_have_text("90 → 1 tokens")
    expect(strict.locator("pre")).to_have_count(0)
    strict.locator("summary").click()
    expect(strict.locator("pre").first).to_contain_text("Reference answer")
    expect(strict.locator("pre").nth(1)).to_have_text("maybe")


def test_harbors_test_log_stands_beside_the_trajectory(board: BoardPage) -> None:
    uid = "hello__bbbbbbb/agent/trajectory.json:0"
    board.go(run="harbor", split="eval", step=0, sample=uid, page="samples", tab="judging").settled()
    outputs = board.page.locator(".rl-judging .output")
    expect(outputs).to_have_count(3)
    expect(outputs.first.locator("pre")).to_contain_text("✗ test_outputs.py::test_hello_content")
    outputs.nth(1).locator("summary").click()
    expect(outputs.nth(1).locator("pre")).to_contain_text("1 failed, 1 passed")


def test_a_thousand_calls_open_in_parts_and_a_missing_request_is_said(board: BoardPage) -> None:
    board.go(run="many", step=1, sample=f"{LOG}:0", page="samples", tab="judging").settled()
    tab = board.page.locator(".rl-judging")
    expect(tab.locator(".card")).to_have_count(50)
    tab.get_by_role("button", name="950 more judge calls").click()
    expect(tab.locator(".card")).to_have_count(100)
    board.rows.nth(1).click()
    expect(tab.locator(".card")).to_have_count(1)
    expect(tab.locator(".card .note")).to_have_text("The request is not logged.")
    board.rows.nth(2).click()
    expect(tab.locator(".note")).to_contain_text("No judge call and no output of a verifier is logged")


@pytest.mark.slow
def test_hostile_texts_of_judges_and_verifiers_stay_texts(board: BoardPage) -> None:
    board.go(run="many", step=1, page="samples", tab="judging").settled()
    board.rows.nth(1).click()
    tab = board.page.locator(".rl-judging")
    expect(tab.locator(".card")).to_have_count(1)
    expect(tab.locator(".verdict")).to_have_text(HOSTILE)
    expect(tab.locator(".output pre")).to_have_text(HOSTILE)
    expect(tab.locator("img")).to_have_count(0)
    board.go(run="many", page="failures").settled()
    failures = board.page.locator(".rl-failures-view")
    expect(failures.locator("summary")).to_contain_text(f"{HOSTILE} 1")
    expect(failures.locator("q").first).to_contain_text(HOSTILE)
    expect(failures.locator(".judges td").first).to_have_text("judge 0")
    expect(failures.locator("img")).to_have_count(0)
    expect(board.page).not_to_have_title("ran")


def test_failures_by_class_and_a_click_that_shows_their_samples(board: BoardPage) -> None:
    board.go(run="ended", page="failures").settled()
    page = board.page.locator(".rl-failures-view")
    expect(page.locator(".class")).to_have_count(10)
    crash = page.locator(".class").filter(has_text="crash of the environment")
    expect(crash.locator(".kind")).to_have_text("infrastructure")
    expect(crash.locator(".counts b")).to_have_text("4")
    expect(crash.locator(".bars span")).to_have_count(4)
    refusal = page.locator(".class").filter(has_text="refusal")
    expect(refusal.locator("summary")).to_contain_text("4 inferred from texts")
    refusal.locator("summary").click()
    expect(refusal.locator(".sample q").first).to_have_text("I'm sorry, but I can't help with that.")
    expect(page.locator(".judges")).to_contain_text("Krippendorff's alpha")
    expect(page.locator(".judges tr")).to_have_count(4)
    refusal.locator(".head").click()
    expect(board.count).to_contain_text("4")
    expect(board.rows.first).to_contain_text("I'm sorry")
    expect(board.page.locator(".rl-conversation")).to_contain_text("I can't help with that")


def test_a_run_without_rewards_statuses_and_judges_has_neither_page_nor_tab(board: BoardPage) -> None:
    board.go(run="plain", page="samples").settled()
    expect(board.page.get_by_role("tab", name="Failures")).to_have_count(0)
    expect(board.page.get_by_role("tab", name="Judging")).to_have_count(0)
