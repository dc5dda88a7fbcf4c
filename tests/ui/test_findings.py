"""Findings: badge, list, clicks that show what is behind them, shading, links, and the keyboard."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import expect

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES, Rule, RuleContext
from tests.conftest import VIEWPORT
from tests.factories import append, sample, write_run
from tests.ui.board import BoardPage, ServerLog, cells_of
from tests.ui.conftest import OpenBoard

if TYPE_CHECKING:
    from playwright.sync_api import Locator

MARKUP = '<img src=x onerror="window.ran = 1">'


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path, grpo_run: Path) -> None:
    """The recorded run, a run whose labels are markup, and a run without findings."""
    shutil.copytree(grpo_run, root / "grpo")
    write_run(root / "healthy", steps=3)
    write_run(root / "unchecked", steps=3)
    write_unused(root / "failed", "environment_error")
    write_unused(root / "unused", "ok")
    folder = root / "markup"
    folder.mkdir()
    rows = [
        sample(step, index=index, kind=MARKUP[index % 2 :], response=_response(step, index))
        for step in range(1, 21)
        for index in range(32)
    ]
    append(folder / "rollout_data_rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))


def write_unused(folder: Path, status: str) -> None:
    """Write a run of which more samples are not trained on from step 11 on, 18 of 32."""
    folder.mkdir()
    rows = []
    for step in range(1, 21):
        for index in range(32):
            unused = (step * 7 + index) % 32 < (18 if step > 10 else 2)
            fate = {"split": "discarded" if unused else "train", "status": status if unused else "ok"}
            rows.append(sample(step, index=index) | fate)
    append(folder / "rollout_data_rank_0.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))


def _response(step: int, index: int) -> str:
    """Return a response that is broken from step 9 on if the label is the markup."""
    return f"{step} {index} half \ufffd" if step > 8 and index % 2 == 0 else f"{step} {index}"


def badge_of(board: BoardPage) -> Locator:
    return board.page.locator(".rl-findings summary.pill")


def listed(board: BoardPage) -> Locator:
    """Open the list, and return its findings."""
    badge_of(board).click()
    return board.page.locator(".rl-findings .finding")


def open_finding(board: BoardPage) -> None:
    """Open the GRPO run's finding about invalid characters at its onset."""
    board.go(run="grpo", step=3, theme="dark").settled(3)
    listed(board).filter(has_text="Invalid UTF-8").locator(".sentence").first.click()
    expect(board.step_label.locator("b")).to_have_text("Step 11")


def query(board: BoardPage) -> dict[str, str]:
    """Return the page's query string as a dict."""
    return dict(parse_qsl(urlsplit(board.page.url).query))


def shaded(board: BoardPage) -> list[list[float]]:
    """Return the left and right edges of the shading, for each curve of a newly opened page."""
    edges = board.page.evaluate(SHADING)
    assert len(edges) == board.page.locator(".rl-curve").count()
    return list(edges)


#: Edges of the shading, for each figure that is on the page.
SHADING = """() => Bokeh.documents.flatMap((doc) => [...doc.all_models])
    .filter((model) => model.type === "Figure")
    .map((figure) => figure.renderers.find((renderer) => renderer.data_source.name === "shading"))
    .map((renderer) => renderer?.visible
        ? [...renderer.data_source.get_array("left"), ...renderer.data_source.get_array("right")] : [])"""
#: Text of the element that has the focus, also inside shadow roots.
FOCUSED = """() => {
    let focused = document.activeElement
    while (focused?.shadowRoot?.activeElement) { focused = focused.shadowRoot.activeElement }
    return focused.textContent
}"""


def test_a_link_to_a_finding_shows_it(board: BoardPage) -> None:
    board.open(run="grpo", finding="invalid_text:").settled()
    expect(board.step_label.locator("b")).to_have_text("Step 11")
    board.until(lambda: all(edges == [10.5, 60.0] for edges in shaded(board)), "all curves are shaded")


@pytest.mark.slow
def test_a_shared_link_keeps_its_step_and_shades_the_finding(board: BoardPage) -> None:
    board.open(run="grpo", step=20, finding="invalid_text:").settled(20)
    expect(board.page.locator(".rl-opened-finding")).to_contain_text("Invalid UTF-8")
    board.until(lambda: all(edges for edges in shaded(board)), "all curves are shaded")
    board.at_step(20)


def test_a_finding_that_the_run_lacks_is_ignored(board: BoardPage) -> None:
    board.go(run="grpo", step=20, finding="nonsense:<b>").settled(20)
    expect(badge_of(board)).to_contain_text("alarm")
    board.until(lambda: "finding" not in query(board), "the link does not name it")
    expect(board.page.locator(".rl-opened-finding")).to_be_hidden()


def test_the_list_shows_title_sentence_evidence_and_advice(board: BoardPage) -> None:
    board.go(run="grpo", step=3).settled(3)
    expect(badge_of(board)).to_have_text("▲1 alarm")
    expect(badge_of(board)).to_have_class("pill alarm")
    first = listed(board).first
    expect(first.locator(".title")).to_contain_text("Invalid UTF-8")
    expect(first.locator(".sentence")).to_contain_text("with lang = zh contain invalid characters")
    expect(first.locator(".evidence").first).to_contain_text("on average; step")
    expect(first.locator(".advice")).to_contain_text("Check next: ")
    board.press("Escape")


def test_a_click_lands_at_the_onset_with_filter_sort_tab_curve_and_sample(board: BoardPage) -> None:
    board.go(run="grpo", step=3, theme="dark").settled(3)
    board.tab("Group")
    open_finding(board)
    expect(listed(board).first).to_be_visible()
    board.press("Escape")
    expect(board.curve("Responses with invalid characters")).to_be_in_viewport()
    board.until(lambda: query(board).get("filter", "").startswith("invalid_chars > 0"), "the filter is set")
    shown = query(board)
    assert (shown["sort"], shown["finding"]) == ("-invalid_chars", "invalid_text:")
    assert "search" not in shown
    expect(board.page.get_by_role("tab", name="Tokens", selected=True)).to_be_visible()
    expect(board.count).to_contain_text("match")
    expect(board.sample_head).to_contain_text("step 11 ·")
    assert board.uid() == shown["sample"]
    expect(board.selected).to_have_count(1)
    assert float(board.selected.locator(cells_of("invalid_chars")).inner_text()) > 0


def test_the_step_before_and_the_worst_step_are_one_click_away(board: BoardPage) -> None:
    open_finding(board)
    line = board.page.locator(".rl-opened-finding")
    line.get_by_role("button", name="before 10").click()
    expect(board.step_label.locator("b")).to_have_text("Step 10")
    expect(line.get_by_role("button", name="before 10")).to_have_attribute("aria-current", "step")
    line.get_by_role("button", name="worst 60").click()
    expect(board.step_label.locator("b")).to_have_text("Step 60")
    expect(line.get_by_role("button", name="worst 60")).to_have_attribute("aria-current", "step")


def test_the_list_is_used_by_keyboard(board: BoardPage) -> None:
    board.go(run="grpo", step=3).settled(3)
    expect(badge_of(board)).to_contain_text("alarm")
    badge_of(board).focus()
    board.press("Enter")
    items = board.page.locator(".rl-findings .finding")
    expect(items.first).to_be_visible()
    for text in ("before 10", "onset 11", "worst 60", "Bisect", "From step 11 on"):
        board.press("Tab")
        assert board.page.evaluate(FOCUSED).startswith(text)
    board.press("Escape")
    expect(items.first).to_be_hidden()
    assert board.page.evaluate(FOCUSED) == "▲1 alarm"
    board.press("Space")
    for _ in range(5):
        board.press("Tab")
    board.press("Enter")
    expect(board.step_label.locator("b")).to_have_text("Step 11")


def test_a_number_of_the_step_leads_to_its_curve(board: BoardPage) -> None:
    board.go(run="grpo", step=3).settled(3)
    number = board.page.get_by_role("button", name=re.compile("^zero-variance groups"))
    expect(board.curve("Zero-variance groups")).to_have_count(0)
    board.page.set_viewport_size({"width": 1000, "height": 500})
    count = board.page.locator(".rl-curve").count()
    value = number.locator("b").inner_text()
    number.click()
    expect(board.curve("Zero-variance groups")).to_be_in_viewport(ratio=1)
    expect(board.page.locator(".rl-curve")).to_have_count(count + 1)
    board.head_says("Zero-variance groups", value)
    expect(number).to_have_count(0)  # the head of the curve has it
    board.page.set_viewport_size(VIEWPORT)


@pytest.mark.slow
def test_the_affected_steps_are_shaded_in_all_curves_then_only_in_the_findings_own(
    open_board: OpenBoard,
) -> None:
    board = open_board(run="grpo", step=3, curves="reward,invalid_text_share").settled(3)
    listed(board).filter(has_text="Invalid UTF-8").locator(".sentence").first.click()
    expect(board.step_label.locator("b")).to_have_text("Step 11")
    board.until(lambda: all(edges == [10.5, 60.0] for edges in shaded(board)), "all curves are shaded")
    line = board.page.locator(".rl-opened-finding")
    expect(line).to_contain_text("Finding: Invalid UTF-8")
    board.press("ArrowRight")
    expect(board.step_label.locator("b")).to_have_text("Step 12")
    assert all(edges == [10.5, 60.0] for edges in shaded(board))
    line.get_by_role("button", name="Close the finding").click()
    expect(line).to_be_hidden()
    board.until(
        lambda: sum(edges != [] for edges in shaded(board)) == 1, "only the finding's curve is shaded"
    )
    board.until(lambda: "finding" not in query(board), "the link does not name the finding")


@pytest.mark.slow
def test_a_checked_run_is_marked_in_the_list_of_runs(board: BoardPage) -> None:
    board.go(run="grpo").settled(60)
    expect(badge_of(board)).to_contain_text("alarm")
    grpo = board.page.locator(".rl-runs .run").filter(has_text="grpo")
    expect(grpo.get_by_role("img", name="alarm")).to_be_visible()
    expect(grpo).to_have_attribute("title", re.compile("alarm at step 60: From step 11 on"))
    board.page.locator(".rl-runs").get_by_role("treeitem", name="healthy").click()
    board.settled(3)
    healthy = board.page.locator(".rl-runs .run").filter(has_text="healthy")
    expect(healthy).to_have_attribute("title", re.compile("no current findings"))
    expect(healthy.get_by_role("img")).to_have_count(0)
    expect(grpo.get_by_role("img", name="alarm")).to_be_visible()


def test_where_no_sample_passes_only_the_place_is_filtered(board: BoardPage) -> None:
    board.go(run="markup").settled(20)
    listed(board).first.get_by_role("button", name="before 8").click()
    expect(board.step_label.locator("b")).to_have_text("Step 8")
    board.until(lambda: query(board)["filter"].startswith("kind == "), "the filter names the category only")
    expect(board.count).to_have_text("16 of 32 match")


def test_symptoms_are_below_their_cause_and_open_as_well(board: BoardPage) -> None:
    board.go(run="markup").settled(20)
    symptom = listed(board).first.locator(".symptom .sentence")
    expect(symptom).to_contain_text("contain the new phrase")
    symptom.click()
    expect(board.step_label.locator("b")).to_have_text("Step 9")
    expect(board.page.locator(".rl-opened-finding")).to_contain_text("contain the new phrase")


@pytest.mark.slow
def test_texts_of_the_log_stay_texts(board: BoardPage) -> None:
    board.go(run="markup").settled(20)
    items = listed(board)
    expect(items.first).to_contain_text(MARKUP)
    items.first.locator(".sentence").first.click()
    expect(board.page.locator(".rl-opened-finding")).to_contain_text(MARKUP)
    assert board.page.evaluate("window.ran") is None
    assert board.page.locator(".rl-findings img, .rl-opened-finding img").count() == 0


def test_a_run_without_findings_says_so(board: BoardPage) -> None:
    board.go(run="healthy").settled(3)
    expect(badge_of(board)).to_have_text("no findings")
    badge_of(board).click()
    expect(board.page.locator(".rl-findings .list")).to_have_text("No findings in the complete steps.")
    board.press("Escape")


def test_a_rule_that_failed_is_named_by_the_badge(
    board: BoardPage, monkeypatch: pytest.MonkeyPatch, server_log: ServerLog
) -> None:
    def broken(context: RuleContext) -> Iterator[Finding]:
        raise ValueError("no such column")
        yield

    monkeypatch.setitem(RULES, "broken", Rule("broken", "Broken", broken, (), ""))
    board.go(run="unchecked").settled(3)
    expect(badge_of(board)).to_contain_text("1 warning")
    badge_of(board).click()
    shown = board.page.locator(".rl-findings .finding").first
    expect(shown).to_contain_text("Rule failed")
    expect(shown).to_contain_text("The rule broken (Broken) failed")
    expect(shown).to_contain_text("ValueError: no such column")
    board.press("Escape")
    (logged,) = server_log.take()
    assert "The rule broken (Broken) failed" in logged


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "title", "split", "condition"),
    [
        ("failed", "Environment errors", "discarded", 'status == "environment_error"'),
        ("unused", "Discarded samples", "discarded", ""),
    ],
)
def test_findings_on_unused_samples_lead_to_these(
    board: BoardPage, run: str, title: str, split: str, condition: str
) -> None:
    board.go(run=run, step=3, theme="dark").settled(3)
    listed(board).filter(has_text=title).get_by_role("button", name="samples").first.click()
    board.until(lambda: query(board).get("split") == split, "the split of the affected samples")
    expect(board.step_label.locator("b")).to_have_text("Step 11")
    assert query(board).get("filter", "") == condition
    expect(board.rows.first).to_be_visible()
    expect(board.count).to_contain_text("18")
