"""The way to the turning point of a long rollout: outline, map, hits, errors, rewards, a link's turn."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, WebSocketRoute, expect

from tests.conversations import FAILED_SEARCHES, LOOKED_FOR, gallery_episode, repair_episode, write_agent_run
from tests.ui.board import BoardPage

#: Words that only one turn has, behind what is sent and drawn at first.
HIDDEN = "the last straw"


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    write_agent_run(root / "repair", repair_episode())
    write_agent_run(root / "images", gallery_episode())
    far = repair_episode(40)
    far["messages"][60]["content"] = "a line\n" * 5_000 + f"This is {HIDDEN}.\n" + "a line\n" * 500
    write_agent_run(root / "far", far)
    broken = {"id": "1", "function": {"name": "add", "arguments": '{"a": <img src=x onerror=alert(1)>'}}
    fine = {"id": "2", "function": {"name": "add", "arguments": '{"a": 5, "b": 1}'}}
    messages = [
        {"role": "user", "content": "5 + 1?"},
        {"role": "assistant", "content": "", "tool_calls": [broken, fine]},
        {"role": "tool", "tool_call_id": "1", "content": "no JSON"},
        {"role": "tool", "tool_call_id": "2", "content": "6"},
        {"role": "assistant", "content": "6"},
    ]
    write_agent_run(root / "broken", {"step": 1, "messages": messages, "prompt_messages": 1, "reward": 1.0})


class Trajectory:
    """The conversation of the shown sample, with its outline and its stops."""

    def __init__(self, board: BoardPage) -> None:
        self.board = board
        self.root = board.page.locator(".rl-conversation")
        self.list = self.root.locator(".list")
        self.rows = self.root.locator(".outline .row")
        self.here = self.root.locator(".outline .row[aria-current]")

    def turn(self, number: int) -> Locator:
        return self.root.locator(f'section.message[aria-label="assistant {number}"]')

    def stop(self, kind: str) -> Locator:
        return self.root.locator(f".to-{kind} .count")


@pytest.fixture
def repair(board: BoardPage) -> Trajectory:
    board.go(run="broken", tab="conversation").settled(1)  # so that each test begins at the beginning
    board.go(run="repair", tab="conversation").settled(1)
    found = Trajectory(board)
    expect(found.stop("error")).to_have_text("error 7")
    return found


def test_the_turn_where_60_turns_go_wrong_is_one_key_away(repair: Trajectory) -> None:
    """Task 8 of the review: at most two clicks or keys from the opened run to the failing turn."""
    keys = ["e"]
    for key in keys:
        repair.board.press(key)
    assert len(keys) <= 2
    first = repair.turn(FAILED_SEARCHES[0])
    expect(first).to_be_in_viewport()
    expect(first.locator(".gutter")).to_contain_text("error 1 of 7")
    expect(first.locator(".gutter .minus")).to_have_text("−0.1")
    expect(first.locator(".answer.wrong")).to_contain_text("search index was built")
    expect(repair.here).to_contain_text("24")
    repair.board.until(lambda: "turn=24" in repair.board.page.url, "the address names the turn")


def test_keys_and_buttons_walk_through_errors_and_rewards(repair: Trajectory) -> None:
    repair.board.press("r")
    expect(repair.stop("reward")).to_have_text("reward 1 of 13")
    expect(repair.here).to_contain_text("9")
    for key, place, turn in (("e", 1, 24), ("e", 2, 25), ("Shift+E", 1, 24), ("Shift+E", 7, 52)):
        repair.board.press(key)
        expect(repair.stop("error")).to_have_text(f"error {place} of 7")
        expect(repair.here).to_contain_text(str(turn))
    repair.root.get_by_title("Next error (e)").click()
    expect(repair.stop("error")).to_have_text("error 1 of 7")
    expect(repair.turn(24)).to_be_in_viewport()


def test_the_outline_sums_plain_turns_filters_and_follows_the_text(repair: Trajectory) -> None:
    expect(repair.rows.filter(has_text="2–8")).to_have_count(1)
    repair.root.locator(".turns-toggle").click()
    repair.root.locator('.outline-chip[data-filter="errors"]').click()
    expect(repair.rows.locator(".turn")).to_have_text([str(turn) for turn in FAILED_SEARCHES])
    repair.root.locator('.outline-chip[data-filter="all"]').click()
    repair.rows.filter(has_text="39–43").click()
    expect(repair.turn(39)).to_be_in_viewport()
    expect(repair.here.locator(".turn")).to_have_text("39")
    repair.board.press("ArrowDown")
    expect(repair.turn(40)).to_be_in_viewport()
    repair.board.press("Escape")
    box = repair.list.bounding_box()
    assert box
    repair.list.hover(position={"x": box["width"] - 60, "y": box["height"] / 2})  # beside the open outline
    repair.board.page.mouse.wheel(0, -100_000)
    expect(repair.here.locator(".tools")).to_have_text("given")


def test_a_link_stands_on_its_turn(repair: Trajectory) -> None:
    repair.board.press("e")
    repair.board.until(lambda: "turn=24" in repair.board.page.url, "the address names the turn")
    repair.board.page.reload()
    repair.board.settled()
    expect(repair.turn(24)).to_be_in_viewport()
    expect(repair.here).to_contain_text("24")
    repair.board.page.goto(repair.board.page.url.replace("turn=24", "turn=99"))
    repair.board.settled()
    expect(repair.root.locator(".stops")).to_contain_text("There is no turn 99 here.")


def test_a_search_marks_its_hits_and_opens_on_the_first(board: BoardPage) -> None:
    board.go(run="repair", tab="conversation", search=LOOKED_FOR).settled()
    here = Trajectory(board)
    marks = here.root.locator("mark")
    expect(here.stop("hit")).to_contain_text("hit 1 of ")
    expect(here.turn(2).locator("mark.current")).to_have_text(LOOKED_FOR)
    expect(marks.first).to_be_in_viewport()
    board.press("n")
    expect(here.stop("hit")).to_contain_text("hit 2 of ")
    expect(here.turn(24).locator(".asked mark.current")).to_be_in_viewport()
    for _ in range(9):  # the ninth is in a line that was folded
        board.press("n")
    expect(here.root.locator("mark.current")).to_be_in_viewport()
    expect(here.turn(24).get_by_text("▾ fewer lines")).to_have_count(1)
    board.go(run="repair", tab="conversation").settled(1)
    expect(marks).to_have_count(0)


def test_words_in_a_text_that_is_not_loaded_are_found(board: BoardPage) -> None:
    board.go(run="far", tab="conversation", search=HIDDEN).settled()
    here = Trajectory(board)
    expect(here.stop("hit")).to_have_text("hit 1 of 1")
    expect(here.root.locator("mark.current")).to_have_text(HIDDEN)
    expect(here.root.locator("mark.current")).to_be_in_viewport()


def test_a_text_that_comes_late_is_marked_and_shown_nothing_before(board: BoardPage) -> None:
    """The text is held back on its way, and the list scrolls by itself meanwhile, as on a busy machine."""
    held: list[Callable[[], None]] = []
    late = {"holds": False}

    def pass_on(route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def to_page(message: str | bytes) -> None:
            late["holds"] = late["holds"] or (isinstance(message, str) and f"This is {HIDDEN}" in message)
            if late["holds"]:
                held.append(partial(route.send, message))
            else:
                route.send(message)

        server.on_message(to_page)

    board.page.route_web_socket(re.compile(".*"), pass_on)
    query = urlencode({"run": "far", "tab": "conversation", "search": HIDDEN})
    board.page.goto(f"{board.url}?{query}")  # not settled: what would say so is held back
    here = Trajectory(board)
    expect(here.stop("hit")).to_have_text("hit 1 of 1")
    board.until(lambda: late["holds"], "the text is on its way")
    assert here.root.locator("mark").count() == 0
    here.list.evaluate("list => { list.scrollTop += 3 }")
    board.page.wait_for_function("() => new Promise((resolve) => setTimeout(() => resolve(true), 300))")
    late["holds"] = False
    for send in held:
        send()
    expect(here.root.locator("mark.current")).to_have_text(HIDDEN)
    expect(here.root.locator("mark.current")).to_be_in_viewport()


def test_the_reader_finds_words_in_this_conversation(repair: Trajectory) -> None:
    repair.list.focus()
    repair.board.press("/")
    field = repair.root.get_by_label("Find in this conversation")
    expect(field).to_be_focused()
    field.fill("/shard 3[0-9]/")
    expect(repair.stop("hit")).to_have_text("hit 1 of 70")
    expect(repair.root.locator("mark.current")).to_have_text("shard 30")
    field.press("Enter")
    expect(repair.root.locator("mark.current")).to_have_text("shard 31")
    field.fill("/(/")
    expect(repair.root.locator(".stops")).to_contain_text("regular expression")
    field.fill("nowhere")
    expect(repair.root.locator(".stops")).to_contain_text("not in this conversation")
    field.press("Escape")
    expect(repair.root.locator("mark")).to_have_count(0)


def test_long_results_are_folded_and_calls_are_one_line(board: BoardPage) -> None:
    board.open(run="repair", tab="conversation").settled(1)  # a search unfolds what it finds
    repair = Trajectory(board)
    expect(repair.stop("error")).to_have_text("error 7")
    repair.board.press("e")
    turn = repair.turn(24)
    expect(turn.locator(".asked")).to_have_text(f'search(query="{LOOKED_FOR}")')
    code = turn.locator(".answer .code")
    repair.board.until(lambda: code.inner_text().count("\n") == 7, "eight lines are shown")
    turn.get_by_role("button", name="▸ 33 more lines").click()
    expect(turn.locator(".answer .code")).to_contain_text("shard 39 of 40")
    turn.get_by_role("button", name="▾ fewer lines").click()
    expect(turn.locator(".answer .code")).not_to_contain_text("shard 39 of 40")


def test_a_call_that_cannot_be_read_says_so_and_shows_its_text(board: BoardPage) -> None:
    board.go(run="broken", tab="conversation").settled(1)
    asked = Trajectory(board).root.locator(".asked")
    expect(asked.nth(0)).to_contain_text("could not be read: add")
    expect(asked.nth(0)).to_contain_text("<img src=x onerror=alert(1)>")
    expect(asked.nth(0).locator("img")).to_have_count(0)
    expect(asked.nth(1)).to_have_text("add(a=5, b=1)")


def test_images_stand_where_the_text_has_them_and_arrows_lead_through_them(board: BoardPage) -> None:
    board.go(run="images", tab="conversation").settled(1)
    here = Trajectory(board)
    question = here.root.locator('section.message[aria-label="user"]')
    expect(question.locator(".images")).to_have_count(2)
    expect(question).not_to_contain_text("[image]")
    expect(question.locator(".images").nth(1).locator("img")).to_have_count(4)
    order = question.locator(".prose").evaluate(
        """(node) => [...node.querySelectorAll('.images')]
          .map((strip) => strip.previousSibling.textContent.trim())"""
    )
    assert order == ["Here is the first frame:", "Then come four more:"]
    expect(here.turn(1).locator(".answer .images img")).to_have_count(1)
    question.locator(".image").nth(4).click()
    bar = here.root.locator("dialog.full-image")
    expect(bar).to_contain_text("5 of 6")
    board.press("ArrowRight")
    expect(bar).to_contain_text("6 of 6")
    board.press("ArrowRight")
    expect(bar).to_contain_text("6 of 6")
    board.press("ArrowLeft")
    expect(bar).to_contain_text("5 of 6")
    board.press("Escape")
    expect(bar).to_be_hidden()
    board.tab("Text")
    strip = board.page.locator(".rl-images")
    expect(strip.locator("img")).to_have_count(6)
    expect(strip).to_contain_text("image 6 · image/png")


def test_the_map_stands_beside_what_it_stands_for(board: BoardPage) -> None:
    board.page.set_viewport_size({"width": 1920, "height": 1080})
    try:
        board.go(run="repair", tab="conversation").settled(1)
        here = Trajectory(board)
        bars = here.root.locator(".map .bars")
        expect(bars).to_have_count(62)
        expect(here.root.locator(".map i.failed")).to_have_count(7)
        expect(here.root.locator(".map .reward-bar u.minus")).to_have_count(8)
        expect(here.root.locator(".map-legend")).to_contain_text("error")
        assert "reward −0.1" in str(bars.nth(25).get_attribute("title"))
        board.press("e")
        expect(here.turn(24)).to_be_in_viewport()
        apart = """(list) => {
          const root = list.getRootNode()
          const bar = root.querySelectorAll(".map .bars")[25].getBoundingClientRect()
          const frame = root.querySelector(".map .frame").getBoundingClientRect()
          return Math.abs(bar.top - frame.top)
        }"""
        board.until(lambda: here.list.evaluate(apart) <= 3, "the frame stands at the turn in sight")
    finally:
        board.page.set_viewport_size({"width": 1440, "height": 900})


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1024, 1920])
def test_targets_are_large_enough_and_type_is_readable(board: BoardPage, width: int) -> None:
    board.page.set_viewport_size({"width": width, "height": 900})
    try:
        board.go(run="repair", tab="conversation", search=LOOKED_FOR).settled()
        here = Trajectory(board)
        expect(here.root.locator("mark.current")).to_be_visible()
        small = """(root) => [...root.querySelectorAll("button")]
          .filter((node) => node.offsetHeight && (node.offsetHeight < 24 || node.offsetWidth < 24))
          .map((node) => node.outerHTML.slice(0, 80))"""
        assert here.root.evaluate(small) == []
        tiny = """(root) => [...root.querySelectorAll("*")]
          .filter((node) => node.offsetHeight && node.textContent.trim())
          .filter((node) => parseFloat(getComputedStyle(node).fontSize) < 12)
          .map((node) => node.outerHTML.slice(0, 80))"""
        assert here.root.evaluate(tiny) == []
    finally:
        board.page.set_viewport_size({"width": 1440, "height": 900})
