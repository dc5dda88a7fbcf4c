"""The page Investigations: a person adds claims, sees marks, exports, and lets an agent move the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from rlpanel.errors import SettingError
from rlpanel.investigations.report_file import FILE
from rlpanel.mcp_server.http_server import BoardClient
from tests.factories import line
from tests.ui.board import BoardPage, Served
from tests.ui.conftest import OpenBoard

LOG = "rollout_data_rank_0.jsonl"
MARKUP = "<img src=x onerror=\"window.ran = 'claim'\"> 汉字 😀"
PASSAGE = f"# Head\n{MARKUP} [press](javascript:window.ran=1) <script>window.ran = 2</script> **so**"


def write(folder: Path, reward: float = 0.0) -> Path:
    """Write a run of three steps, whose reward is step + ``reward``."""
    folder.mkdir(exist_ok=True)
    rows = [
        line(step, index=at, response=f"it says {MARKUP}", reward=step + reward)
        for step in (1, 2, 3)
        for at in (0, 1)
    ]
    (folder / LOG).write_bytes(b"".join(rows))
    return folder


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write(root / "run")
    write(root / "new")
    claim = {"metric": "reward_mean", "steps": "2", "expected": 2.0}
    entries = [
        {"id": "p", "report": "Found", "kind": "text", "text": PASSAGE},
        {"id": "n", "report": "Found", "kind": "number", "text": MARKUP, "claim": claim},
        {"id": "c", "report": "Found", "kind": "number", "claim": claim | {"expected": 7.0}},
        {"id": "b", "report": "Found", "kind": "finding", "claim": {"rule": MARKUP}},
        {"id": "o", "report": MARKUP, "kind": "number", "other_run": f"../{MARKUP}", "claim": claim},
    ]
    marked = write(root / "marked")
    lines = [json.dumps(entry, ensure_ascii=False) for entry in entries]
    (marked / FILE).write_text("\n".join([*lines, "{damaged"]) + "\n", "utf-8")


def claims(board: BoardPage, mark: str = "") -> Locator:
    """The claims with a mark."""
    return board.page.locator(f".rl-investigations .claim{mark and f'.{mark}'}")


def add(board: BoardPage, kind: str, **fields: str) -> None:
    """Fill the form and send it."""
    form = board.page.locator(".rl-investigations .claim-form")
    if form.get_attribute("open") is None:
        form.locator("summary").click()
    form.locator("[name=kind]").select_option(label=kind)
    for name, value in fields.items():
        field = form.locator(f"[name={name}]")
        if field.evaluate("node => node.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    form.get_by_role("button", name="Claim this").click()


def test_a_person_adds_claims_of_each_kind_and_removes_one(board: BoardPage, root: Path) -> None:
    board.go(run="run", page="investigations").settled()
    expect(board.page.locator(".rl-investigations")).to_contain_text("Each is evaluated at every load")
    add(board, "a number", metric="reward_mean", steps="2..3", text="The reward *rises*.")
    expect(claims(board, "holds")).to_have_count(1)
    expect(claims(board)).to_contain_text("reward_mean at step 2..3")
    expect(claims(board).locator("em")).to_have_text("rises")
    add(board, "a quotation", uid=f"{LOG}:0", quote=MARKUP)
    expect(claims(board, "holds")).to_have_count(2)
    add(board, "a query", question="steps", options='{"step": 1}')
    expect(claims(board, "holds")).to_have_count(3)
    add(board, "a number", metric="reward_mean", steps="2", expected="9")
    expect(board.page.locator(".rl-investigations .said")).to_contain_text(
        "does not hold: the difference is 7"
    )
    add(board, "a query", question="steps", options="{")
    expect(board.page.locator(".rl-investigations .wrong")).to_have_text("The options are no JSON object")
    expect(board.page.locator(".rl-investigations .line strong")).to_have_text("3 hold")
    claims(board).first.get_by_role("button", name="Remove from the report").click()
    expect(claims(board)).to_have_count(2)
    kinds = [json.loads(each)["kind"] for each in (root / "run" / FILE).read_text("utf-8").splitlines()]
    assert kinds == ["number", "quotation", "query", "removed"]
    assert board.page.evaluate("window.ran") is None


def test_a_page_without_claims_offers_some_and_ends_below_them(board: BoardPage) -> None:
    board.open(run="new", page="investigations").settled()
    card, offers = board.page.locator(".rl-page-view"), board.page.locator(".rl-investigations .offers li")
    expect(offers).to_have_count(2)
    board.until(lambda: 0 < (card.bounding_box() or {"height": 0})["height"] < 420, "no large empty box")
    finding = offers.first.locator("span").inner_text()
    offers.first.get_by_role("button", name="Claim this").click()
    expect(claims(board, "holds")).to_contain_text(finding)
    expect(offers).to_have_count(0)


def test_marks_are_shown_and_a_claim_leads_to_its_place(board: BoardPage) -> None:
    board.go(run="marked", page="investigations").settled()
    expect(board.page.locator(".rl-investigations .line strong")).to_have_text("1 hold, 1 changed, 2 broken")
    expect(claims(board, "changed")).to_contain_text("claimed 7 · now 2")
    expect(claims(board, "broken").first).to_contain_text("there is no rule")
    expect(claims(board, "broken").last).to_contain_text("is gone: it was deleted or renamed")
    expect(board.page.locator(".rl-investigations .problem")).to_contain_text("line 6 holds no valid entry")
    claims(board, "holds").locator(".about").click()
    board.settled()
    expect(board.step_label.locator("b")).to_have_text("Step 2")
    assert "page=" not in board.page.url


def test_markup_of_a_report_never_runs(board: BoardPage) -> None:
    board.go(run="marked", page="investigations").settled()
    passage = board.page.locator(".rl-investigations .passage")
    expect(passage.locator("h1")).to_have_text("Head")
    expect(passage).to_contain_text("<script>window.ran = 2</script>")
    assert board.page.locator(".rl-investigations :is(img, script, a)").count() == 0
    assert board.page.evaluate("window.ran") is None


def test_the_export_holds_claims_and_marks(board: BoardPage) -> None:
    board.go(run="marked", page="investigations").settled()
    expect(claims(board)).to_have_count(4)
    with board.page.expect_download() as taken:
        board.page.get_by_role("button", name="Export as HTML").click()
    assert taken.value.suggested_filename == "marked-reports.html"
    text = Path(taken.value.path()).read_text("utf-8")
    assert text.count("<article") == 4
    assert "1 hold, 1 changed, 2 broken" in text
    assert "<img" not in text
    assert "<script" not in text


def test_an_agent_moves_the_page_by_its_code(board: BoardPage, served: Served) -> None:
    board.go(run="marked", page="investigations").settled()
    board.page.get_by_role("button", name="Let an agent move this page").click()
    code = board.page.locator(".rl-investigations .code strong").inner_text()
    agent = BoardClient(served.url)
    agent.show("?run=run&step=3&page=samples", code)
    board.settled(3)
    expect(board.notice.last).to_contain_text("An agent moved this page")
    assert "run=run" in board.page.url
    agent.show(f"?run=run&step=1&sample={LOG}%3A0&page=samples", code)
    board.shows(f"{LOG}:0")
    board.go(run="marked", page="investigations").settled()
    board.page.locator(".rl-investigations .code").get_by_role("button", name="End").click()
    expect(board.page.locator(".rl-investigations .code strong")).to_have_count(0)
    with pytest.raises(SettingError, match="no open page has this code"):
        agent.show("?step=1", code)


def test_a_read_only_board_shows_claims_and_writes_none(open_board: OpenBoard, root: Path) -> None:
    before = (root / "marked" / FILE).read_bytes()
    with Served(root, read_only=True) as server:
        board = open_board(server=server, run="marked", page="investigations")
        expect(claims(board)).to_have_count(4)
        expect(board.page.locator(".rl-investigations .claim-form")).to_be_hidden()
        assert claims(board).get_by_role("button", name="Remove from the report").count() == 0
        board.go(run="run", step=1, tab="conversation", mode="raw").settled(1)
        select_text(board, board.page.locator(".rl-conversation .message .body").last)
        expect(board.page.locator(".rl-sample .claim")).to_be_hidden()
    assert (root / "marked" / FILE).read_bytes() == before


def select_text(board: BoardPage, text: Locator) -> None:
    """Select a text with the mouse, as a reader does."""
    text.click(click_count=3)
    board.settled()


def test_a_selected_text_and_a_finding_become_claims(board: BoardPage, root: Path) -> None:
    run = root / "seen"
    messages = [
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": "The value is `6`."},
        {"role": "assistant", "content": MARKUP},
    ]
    run.mkdir()
    rows = [
        line(step, index=at, messages=messages, prompt_messages=1, reward=0.0 if step > 4 else 1.0)
        for step in range(1, 13)
        for at in range(4)
    ]
    (run / LOG).write_bytes(b"".join(rows))
    board.go(run="seen", step=1, tab="conversation", mode="raw").settled(1)
    expect(board.page.locator(".rl-sample .claim")).to_be_hidden()
    select_text(board, board.page.locator(".rl-conversation .message .plain", has_text="The value is"))
    board.page.get_by_role("button", name="claim this").click()
    field = board.page.get_by_label("Sentence that the selected text supports")
    field.fill(MARKUP)
    field.press("Enter")
    expect(board.page.locator(".quotation .said")).to_have_text("Written to Investigations")
    written = json.loads((run / FILE).read_text("utf-8").splitlines()[0])
    assert written["kind"] == "quotation"
    assert written["claim"]["field"] == "messages.1"
    assert written["claim"]["text"].endswith("The value is `6`.")
    assert written["text"] == MARKUP
    board.page.locator(".rl-findings summary.pill").click()
    board.page.locator(".rl-findings .finding").first.locator("button").first.click()
    board.settled()
    board.page.locator(".rl-opened-finding .claim").click()
    expect(board.page.locator(".rl-opened-finding .claimed")).to_have_text("Written to Investigations")
    board.go(run="seen", page="investigations").settled()
    expect(claims(board, "holds")).to_have_count(2)
    assert board.page.evaluate("window.ran") is None
