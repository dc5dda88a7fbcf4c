"""The README's screenshots, and visible defects: blank charts, horizontal scrolling, cut text.

``RLPANEL_SHOTS=1`` writes the screenshots into ``docs/images``.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from playwright.sync_api import expect

from rlpanel.app.demo import write_recording
from rlpanel.investigations.report_file import FILE
from rlpanel.recording.writer.writer import RolloutWriter
from tests.ended_runs import write_ended_run
from tests.factories import append, line, write_run
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import OpenBoard
from tests.unit.lint.linted_runs import faulty_run, write

pytestmark = pytest.mark.slow

IMAGES = Path(__file__).parents[2] / "docs" / "images"
#: Colours of each visible canvas; a blank one has a single colour.
COLORS = """(canvases) => canvases.filter((canvas) => canvas.width > 100).map((canvas) => {
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
  return new Set(new Uint32Array(data.buffer)).size
})"""


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write_recording("ppo_couplets", root / "couplets-ppo")
    write_recording("grpo_couplets", root / "couplets-grpo")
    write_recording("grpo_calculator", root / "calculator-grpo")


def picture(board: BoardPage, name: str, tmp_path: Path) -> bytes:
    """Take a screenshot of the page, for the docs if that is requested."""
    folder = IMAGES if os.environ.get("RLPANEL_SHOTS") else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    return board.page.screenshot(path=folder / name)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_board_of_the_readme(board: BoardPage, tmp_path: Path, theme: str) -> None:
    board.go(run="couplets-ppo", step=9, theme=theme).settled(9)
    expect(board.page.locator(f".rl-{theme}").first).to_be_attached()
    board.search.fill("road lies")
    board.search.press("Enter")
    expect(board.count).to_contain_text("match")
    board.rows.first.get_by_text("road lies").first.click()
    board.page.locator('.rl-tokens-text [data-i="13"]').click()
    board.search.fill("")
    board.search.press("Enter")
    board.search.blur()
    expect(board.count).to_contain_text("64 of step 9")
    board.page.mouse.move(5, 500)
    drawn = board.page.locator(".rl-curve canvas, canvas.rl-strip")
    # Five curves and the strip; Bokeh puts an empty canvas over each of its plots.
    board.until(lambda: sum(count > 3 for count in drawn.evaluate_all(COLORS)) == 6, "six drawings")
    assert len(picture(board, f"board-{theme}.png", tmp_path)) > 50_000


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_conversation_of_the_docs(board: BoardPage, tmp_path: Path, theme: str) -> None:
    board.go(run="calculator-grpo", step=24, theme=theme, filter="tool_errors > 0").settled()
    expect(board.page.locator(f".rl-{theme}").first).to_be_attached()
    talk = board.page.locator(".rl-conversation")
    expect(talk.locator(".answer.wrong")).to_contain_text("calculator unavailable")
    # The captions of the tutorial and of agents.md name the finding and its run.
    finding = board.page.locator(".rl-current-findings .sentence")
    expect(finding).to_contain_text("rollouts that call add have an error")
    expect(finding).to_be_in_viewport()
    expect(board.badge).to_contain_text("calculator-grpo")
    expect(board.page.locator(".rl-side")).not_to_contain_text("no-tokens")
    board.page.mouse.move(5, 500)
    assert len(picture(board, f"conversation-{theme}.png", tmp_path)) > 50_000
    talk.get_by_role("button", name="By token", exact=True).click()
    expect(talk.locator(".token").first).to_be_visible()
    assert len(picture(board, f"conversation-tokens-{theme}.png", tmp_path)) > 50_000
    talk.get_by_role("button", name="Rendered", exact=True).click()


def test_the_form_of_the_docs(open_board: OpenBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)  # the page shows the folder as it was named
    for at, (a, b) in enumerate([(17, 25), (17, 25), (8, 36), (8, 36), (51, 9)]):
        said = f"{a} + {b} = {a + b - at % 2}. The answer is {a + b - at % 2}."
        task = {"id": f"sum/{a}-{b}", "text": f"What is {a} + {b}? Think first, then answer."}
        graded = {"score": float(at % 2 == 0), "by": "exact match"}
        row = {"task": task, "said": said, "gold": str(a + b), "graded": graded, "seconds": 0.5 + at}
        append(tmp_path / "results" / "eval.jsonl", json.dumps(row).encode() + b"\n")
    with Served(Path("results")) as server:
        board = open_board(server=server, theme="dark")
        board.page.set_viewport_size({"width": 1440, "height": 880})
        form = board.page.locator(".rl-mapping")
        if not form.is_visible():
            board.stage.get_by_role("button", name="Map the fields of a file").click()
        form.get_by_label("prompt", exact=True).select_option("task.text")
        form.get_by_label("response", exact=True).select_option("said")
        expect(form.locator(".sample")).to_have_count(3)
        board.settled()
        board.page.mouse.move(5, 500)
        assert len(picture(board, "map-dark.png", tmp_path)) > 50_000


def test_the_lint_of_the_docs(board: BoardPage, root: Path, tmp_path: Path) -> None:
    write(root / "calculator-faulty", faulty_run())
    board.go(run="calculator-faulty", page="lint", theme="dark").settled()
    board.page.get_by_role("button", name="Read all samples").click()
    expect(board.page.locator(".rl-lint-note")).not_to_contain_text("up to 8 of a step")
    expect(board.page.locator(".rl-lint-rules section.failed .rule").first).to_be_visible()
    expect(board.page.locator(".rl-dark").first).to_be_attached()
    board.page.mouse.move(5, 500)
    assert len(picture(board, "lint-dark.png", tmp_path)) > 50_000


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_failures_and_judges_of_the_docs(
    board: BoardPage, root: Path, tmp_path: Path, theme: str
) -> None:
    if not (root / "ended").exists():
        write_ended_run(root / "ended")
    board.go(run="ended", page="failures", theme=theme).settled()
    failures = board.page.locator(".rl-failures-view")
    expect(failures.locator(".class")).to_have_count(10)
    expect(failures.locator(".judges tr")).to_have_count(4)
    # It may be open from the other theme: what a reader opened stays open.
    failures.locator("details").nth(2).evaluate("fold => { fold.open = true }")
    expect(failures.locator("details[open]")).to_have_count(1)
    board.page.mouse.move(5, 500)
    assert len(picture(board, f"failures-{theme}.png", tmp_path)) > 50_000
    board.go(run="ended", step=12, page="samples", tab="judging", theme=theme).settled()
    board.rows.nth(13).click()
    tab = board.page.locator(".rl-judging")
    expect(tab.locator(".is-missing")).to_have_count(1)
    tab.locator(".card summary").nth(1).click()
    expect(tab.locator(".card pre").first).to_have_text("Grade.")
    board.page.mouse.move(5, 500)
    assert len(picture(board, f"judging-{theme}.png", tmp_path)) > 50_000


def write_crew(run: Path) -> None:
    """Four rollouts of a lead with two sub-agents, one of which failed, and a branch that tries again."""
    below = {"parent": "lead", "branch_kind": "sub-agent"}
    parts = [
        ("lead", "Repair the parser.", "The lexer drops the last quote; I add it, and all tests pass.", {}),
        ("reader", "Which function reads strings?", "lexer.read_string, at line 88.", below),
        ("tester", "Run the tests.", "2 of 40 tests fail: quoted strings.", below | {"status": "timeout"}),
        ("tester again", "Run the tests.", "40 of 40 pass.", {"parent": "tester", "branch_kind": "retry"}),
    ]
    with RolloutWriter(run, rank=0) as writer:
        for at in range(4):
            for number, (name, asked, answered, fields) in enumerate(parts):
                tokens = answered.split()
                writer.write(
                    step=1,
                    episode=f"q{at}",
                    group="parser",
                    agent=name,
                    branch=name,
                    messages=[
                        {"role": "user", "content": asked},
                        {"role": "assistant", "content": answered},
                    ],
                    response_tokens=tokens,
                    loss_mask=[1.0] * len(tokens),
                    reward=float(at % 2),
                    advantage=at % 2 - 0.5,
                    timing={"start": 100.0 * at + 10 * number, "total": 8.0 + number},
                    **fields,
                )


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_agents_of_the_docs(board: BoardPage, root: Path, tmp_path: Path, theme: str) -> None:
    if not (root / "crew").exists():
        write_crew(root / "crew")
    uid = "rollout_data_rank_0.jsonl:0"
    board.go(run="crew", step=1, sample=uid, page="samples", tab="tree", theme=theme).settled(1)
    expect(board.page.locator(".rl-tree .node")).to_have_count(4)
    expect(board.page.locator(".rl-tree .node").nth(2)).to_contain_text("timeout")
    assert len(picture(board, f"tree-{theme}.png", tmp_path)) > 50_000
    with RolloutWriter(root / "crew", rank=1) as writer:
        for at, phase in enumerate(("generation", "generation", "tool", "reward", "queue")):
            writer.begin(f"q{at}", step=2, agent=("lead", "tester")[at % 2], phase=phase, group="parser")
            if phase != "queue":
                writer.turn(f"q{at}", tokens=900 * (5 - at), text="I read lexer.py once more.", phase=phase)
        expect(board.page.locator("[role=tab][data-key=flight]")).to_have_count(1)
        board.go(run="crew", page="flight", theme=theme).settled()
        expect(board.page.locator(".rl-in-flight .rollout")).to_have_count(5)
        assert len(picture(board, f"in-flight-{theme}.png", tmp_path)) > 50_000
    expect(board.page.locator("[role=tab][data-key=flight]")).to_have_count(0)
    report = root / "calculator-grpo" / FILE
    claims = [
        {"kind": "text", "text": "## Why the reward falls\nThe tool fails **from step 21 on**."},
        {
            "kind": "number",
            "claim": {"metric": "reward_mean", "steps": "10..20", "expected": 0.794602, "tolerance": 0.001},
        },
        {
            "kind": "number",
            "text": "After it:",
            "claim": {"metric": "reward_mean", "steps": "21..40", "expected": 0.1},
        },
        {"kind": "finding", "claim": {"rule": "tool_fails", "onset": 21}},
    ]
    entries = [{"id": f"c{at}", "report": "The calculator"} | claim for at, claim in enumerate(claims)]
    report.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    board.go(run="calculator-grpo", page="investigations", theme=theme).settled()
    expect(board.page.locator(".rl-investigations .claim.holds")).to_have_count(2)
    expect(board.page.locator(".rl-investigations .claim.changed")).to_have_count(1)
    assert len(picture(board, f"investigations-{theme}.png", tmp_path)) > 50_000


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_prompts_of_the_docs(board: BoardPage, root: Path, tmp_path: Path, theme: str) -> None:
    chance = random.Random(3)
    by_class = {
        "learnt": lambda at: 0.05 if at < 0.5 else 0.95,
        "forgotten": lambda at: 0.9 if at < 0.5 else 0.05,
        "flickers": lambda at: 0.95 if int(at * 12) % 2 else 0.05,
        "never": lambda at: 0.0,
        "always": lambda at: 1.0,
        "steady": lambda at: 0.5,
    }
    kinds = [*by_class] * 12
    run = f"classes-{theme}"
    (root / run).mkdir()
    for step in range(1, 41):
        lines = [
            line(
                step, prompt=f"How much is {prompt} times {prompt % 7 + 2}?", group=f"{step}-{prompt}",
                reward=float(chance.random() < by_class[kinds[prompt]](step / 41)), tokens=False,
                drop=("ref_reward", "ref_response"),
            )
            for prompt in chance.sample(range(len(kinds)), 30)
            for _ in range(8)
        ]  # fmt: skip
        append(root / run / "rollout_data_rank_0.jsonl", *lines)
    board.go(run=run, page="prompts", theme=theme, **{"class": "flickers"}).settled()
    expect(board.page.locator(".rl-prompt-grid canvas").first).to_be_visible()
    expect(board.page.locator(".rl-prompts-table .tabulator-row").first).to_be_visible()
    board.settled().page.mouse.move(5, 500)
    assert len(picture(board, f"prompts-{theme}.png", tmp_path)) > 50_000


@pytest.mark.parametrize("run", ["couplets-ppo", "couplets-grpo", "no-tokens"])
def test_nothing_scrolls_sideways(board: BoardPage, root: Path, run: str) -> None:
    if run == "no-tokens":  # not in the pictures above
        write_run(root / run, steps=range(0, 2400, 100), samples=16, tokens=False)
    board.go(run=run).settled()
    expect(board.badge).to_contain_text(run)
    for width in (1280, 1440):
        board.page.set_viewport_size({"width": width, "height": 900})
        wide = "() => document.scrollingElement.scrollWidth - window.innerWidth"
        board.until(lambda wide=wide: board.page.evaluate(wide) <= 0, f"{width} pixels are enough")
