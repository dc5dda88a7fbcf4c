"""The replay of a rollout, in the conversation and the tree; jumps to calls and plans; weights in the map."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from rlpanel.app.demo import write_recording
from tests.conversations import called, episode, long_episode, repair_episode, write_agent_run
from tests.ui.board import BoardPage
from tests.ui.conftest import OpenBoard

UPSTREAM = Path(__file__).parents[1] / "data" / "upstream"
BASE = 1_795_324_430.0
HOSTILE = "<img src=x onerror=alert(1)>"
TURNS = 1000


def turn(at: float, name: str, number: int, text: str) -> list[dict[str, Any]]:
    """Return a call at a time, and its result 1.5 seconds later."""
    asked = {
        "role": "assistant",
        "content": text,
        "tool_calls": [called(name, number)],
        "timestamp": BASE + at,
    }
    answer = {"role": "tool", "tool_call_id": f"call-{number}", "content": f"{name} {number} is done"}
    return [asked, answer | {"timestamp": BASE + at + 1.5}]


def row(branch: str, start: float, end: float, *messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a row of one episode with its times."""
    return {
        "step": 1, "episode": "q7", "agent": branch, "branch": branch, "group": "q7", "prompt_messages": 1,
        "messages": [{"role": "user", "content": f"Task of {branch}", "timestamp": BASE + start}, *messages],
        "reward": 1.0, "timing": {"start": BASE + start, "total": end - start},
    } | fields  # fmt: skip


def write_lines(folder: Path, *lines: dict[str, Any], facts: dict[str, Any] | None = None) -> None:
    folder.mkdir()
    (folder / "rank_0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if facts is not None:
        (folder / "run.json").write_text(json.dumps(facts))


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path) -> None:
    below = {"parent": "lead", "branch_kind": "sub-agent"}
    last = {"role": "assistant", "content": "Written.", "timestamp": BASE + 64}
    write_lines(
        root / "agents",
        row(
            "lead",
            0,
            64,
            *turn(2, "delegate", 1, "I ask two."),
            *turn(60, "delegate", 2, "Wait, one more."),
            last,
        ),
        row("first", 4, 20, *turn(6, "read", 11, "I read."), **below),
        row("second", 8, 58, *turn(9, "search", 21, "I search."), **below),
        row("third", 61, 63, *turn(61, "write", 31, "I write."), **below),
    )
    plain = [
        {
            "step": 1,
            "episode": "e",
            "branch": name,
            "messages": [{"role": "user", "content": "?"}, *said],
            **fields,
        }
        for name, said, fields in (
            ("lead", [*turn(0, "ask", 1, "I ask."), *turn(0, "ask", 2, "Again.")], {}),
            (
                "late",
                [{"role": "assistant", "content": "Later."}],
                {"parent": "lead", "branch_kind": "sub-agent"},
            ),
        )
    ]
    for each in plain:
        for message in each["messages"]:
            message.pop("timestamp", None)
    plain[0]["messages"][3]["tool_calls"] = [called("ask", 2, task="Find the source")]
    plain[1]["messages"][0]["content"] = "Find the source"
    write_lines(root / "untimed", *plain)
    write_lines(root / "one", {"step": 1, "messages": [{"role": "assistant", "content": HOSTILE}]})
    back = [{"role": "assistant", "content": f"{at}", "timestamp": BASE - at} for at in range(4)]
    write_lines(root / "back", {"step": 1, "messages": back, "prompt_messages": 0})
    hostile = turn(1, HOSTILE, 1, f"Wait, {HOSTILE}") + turn(2, "b", 2, f"Actually {HOSTILE}")
    write_lines(root / "hostile", row(HOSTILE, 0, 5, *hostile))
    write_agent_run(root / "repair", repair_episode())
    write_agent_run(root / "long", long_episode(TURNS, 5000))
    weighted = [episode(1, at, reward=float(at % 2), advantage=at % 2 - 0.5, group="g") for at in range(4)]
    write_agent_run(root / "weighted", *weighted)
    (root / "weighted" / "run.json").write_text(json.dumps({"algo": "grpo"}))
    shutil.copytree(UPSTREAM / "harbor-0.26.0", root / "harbor")
    shutil.copytree(UPSTREAM / "verifiers-0.4.0" / "fork", root / "fork")
    shutil.copytree(UPSTREAM / "prime-rl-559b44772", root / "prime")
    write_recording("grpo_calculator", root / "calculator")


class Replay:
    """The replay in the open tab."""

    def __init__(self, board: BoardPage, host: str = ".rl-conversation") -> None:
        self.board = board
        self.root = board.page.locator(host)
        self.toggle = self.root.locator(".replay-toggle")
        self.bar = self.root.locator(".replay")
        self.time = self.root.locator(".replay .time")
        self.notes = self.root.locator(".replay-notes")
        self.play = self.root.locator(".replay .play")

    def open(self) -> Replay:
        expect(self.toggle).to_be_visible()
        if self.toggle.get_attribute("aria-pressed") == "false":
            self.toggle.click()
        expect(self.bar).to_be_visible()
        return self

    def seek(self, at: float) -> None:
        self.root.locator(".seek").evaluate(
            "(node, at) => { node.value = at; node.dispatchEvent(new Event('input')) }", at
        )

    def message(self, number: int) -> Locator:
        return self.root.locator(f'section.message[data-index="{number}"]')


def conversation(board: BoardPage, run: str, **query: object) -> Replay:
    board.go(run=run, page="samples", tab="conversation", **query).settled()
    return Replay(board)


def test_turns_and_results_appear_at_their_recorded_times(board: BoardPage) -> None:
    replay = conversation(board, "agents", filter="branch == 'lead'").open()
    expect(replay.time).to_have_text("0:00 / 1:04 · 1 of 6")
    expect(replay.notes).to_contain_text("Played by the times of the messages.")
    expect(replay.notes).to_contain_text("1 stretch of more than 5 s without an event is shortened")
    expect(replay.message(0)).to_be_visible()
    expect(replay.message(1)).to_be_hidden()
    replay.seek(2.5)
    expect(replay.message(1).locator(".asked")).to_be_visible()
    expect(replay.message(1).locator(".answer")).to_be_hidden()
    replay.seek(3.6)
    expect(replay.message(1).locator(".answer")).to_be_visible()
    expect(replay.message(2)).to_be_hidden()
    replay.root.locator(".replay").get_by_title("End the replay").click()
    expect(replay.bar).to_be_hidden()
    expect(replay.message(2)).to_be_visible()


def test_space_and_arrows_play_and_step_and_the_address_names_the_turn(board: BoardPage) -> None:
    replay = conversation(board, "agents", filter="branch == 'lead'").open()
    step = board.step_label.inner_text()
    replay.seek(0)  # a replay begins at the message in sight, which an earlier test may have left below
    expect(replay.time).to_contain_text("1 of 6")
    board.press("ArrowRight")
    expect(replay.time).to_contain_text("2 of 6")
    board.press("ArrowRight")
    board.press("ArrowLeft")
    expect(replay.time).to_contain_text("2 of 6")
    assert board.step_label.inner_text() == step  # the page's own keys rest
    replay.root.locator(".speed").select_option("32")
    replay.root.locator(".list").focus()
    board.press("Space")
    expect(replay.time).to_contain_text("6 of 6")
    expect(replay.play).to_have_text("▶")  # it has ended
    board.until(lambda: "turn=3" in board.page.url, "the address names the turn at the playhead")
    replay.toggle.click()


def test_playing_asks_the_server_for_nothing_until_it_rests(board: BoardPage) -> None:
    replay = conversation(board, "repair").open()
    board.page.evaluate(
        """() => {
            window.sentFrames = 0
            const send = WebSocket.prototype.send
            WebSocket.prototype.send = function (...given) {
                window.sentFrames += 1
                return send.apply(this, given)
            }
        }"""
    )
    replay.root.locator(".speed").select_option("8")
    replay.play.click()
    board.until(lambda: int(replay.time.inner_text().split("· ")[1].split()[0]) > 20, "20 events are shown")
    expect(replay.play).to_have_text("❚❚")
    frames = int(board.page.evaluate("window.sentFrames"))
    replay.play.click()
    assert frames < 10
    replay.toggle.click()


def test_a_jump_takes_the_replay_along(board: BoardPage) -> None:
    replay = conversation(board, "repair").open()
    expect(replay.notes).to_contain_text("Played by the logged seconds of turns and calls, added up.")
    board.press("e")
    failing = replay.root.locator('section.message[aria-label="assistant 24"]')
    expect(failing.locator(".answer.wrong")).to_be_in_viewport()
    expect(replay.root.locator(".outline .row.ahead").first).to_be_attached()
    replay.toggle.click()
    expect(replay.root.locator(".outline .row.ahead")).to_have_count(0)


def test_the_tree_stands_at_the_playhead_of_the_conversation(board: BoardPage) -> None:
    replay = conversation(board, "agents", filter="branch == 'lead'").open()
    replay.seek(3.5)  # 3.5 s after the start: no sub-agent has begun
    board.tab("Tree")
    nodes = board.page.locator(".rl-tree .node")
    states = "(rows) => rows.map((row) => row.dataset.replay)"
    board.until(
        lambda: nodes.evaluate_all(states) == ["now", "ahead", "ahead", "ahead"], "only the first row runs"
    )
    tree = Replay(board, ".rl-tree")
    expect(tree.notes).to_contain_text("Up to 3 rows run at the same time; each is marked while it runs.")
    on = tree.root.get_by_title("One event on (→)")
    on.click()
    on.click()
    board.until(lambda: nodes.evaluate_all(states) == ["now", "now", "now", "ahead"], "two sub-agents run")
    nodes.nth(2).click()
    board.settled()
    expect(replay.bar).to_be_visible()  # the sub-agent's own conversation, at the same moment
    expect(replay.message(0)).to_be_visible()
    expect(replay.message(1)).to_be_hidden()
    replay.toggle.click()
    board.tab("Tree")
    board.until(lambda: nodes.evaluate_all(states) == [None] * 4, "all rows are shown again")


def test_a_tree_without_times_follows_the_turns_of_the_open_row(board: BoardPage) -> None:
    replay = conversation(board, "untimed", filter="branch == 'lead'").open()
    expect(replay.notes).to_have_text("Played by turn, one second each: the log has no times of turns.")
    board.tab("Tree")
    tree = Replay(board, ".rl-tree")
    nodes = board.page.locator(".rl-tree .node")
    expect(nodes.nth(0)).to_have_attribute("data-replay", "now")
    expect(nodes.nth(1)).to_have_attribute("data-replay", "ahead")
    expect(tree.root.locator(".replay-said")).to_contain_text("the log has no times of the rows")
    expect(tree.toggle).to_be_hidden()
    board.tab("Conversation")
    replay.seek(3.0)
    board.tab("Tree")
    expect(nodes.nth(1)).not_to_have_attribute("data-replay", "ahead")
    board.tab("Conversation")
    replay.toggle.click()


@pytest.mark.parametrize(
    ("run", "query", "note"),
    [
        ("harbor", {"filter": "episode == 'hello__aaaaaaa'"}, "Played by the times of the messages."),
        ("fork", {}, "all logged times are the same"),
        ("prime", {"step": 2}, "Played by"),
        ("calculator", {"step": 20}, "the log has no times of turns"),
        ("back", {}, "at least half of the logged times go backwards"),
        ("one", {}, "There is one message only; there is nothing to play."),
    ],
)
def test_each_log_says_where_its_times_are_from(
    board: BoardPage, run: str, query: dict[str, object], note: str
) -> None:
    replay = conversation(board, run, **query).open()
    expect(replay.notes).to_contain_text(note)
    replay.toggle.click()


def test_reduced_motion_moves_from_event_to_event(open_board: OpenBoard) -> None:
    board = open_board(run="agents", page="samples", tab="conversation", filter="branch == 'lead'")
    board.page.emulate_media(reduced_motion="reduce")
    replay = Replay(board).open()
    replay.seek(2.9)
    assert float(replay.root.locator(".seek").input_value()) == 2.0  # the event before


def test_keys_lead_to_calls_of_a_tool_and_to_new_plans(board: BoardPage) -> None:
    replay = conversation(board, "repair")
    root = replay.root
    expect(root.locator(".to-tool .count")).to_have_text("call 59")
    root.locator(".tool-choice").select_option("search")
    expect(root.locator(".to-tool .count")).to_have_text("call 9")
    root.locator(".list").focus()
    board.press("t")
    expect(root.locator(".outline .row[aria-current]")).to_contain_text("2")
    board.press("t")
    expect(root.locator(".to-tool .count")).to_have_text("call 2 of 9")
    board.press("p")
    expect(root.locator(".to-plan .count")).to_contain_text("new plan")
    marked = root.locator("section.message:has(.plan)").first
    expect(marked.locator(".plan")).to_have_attribute(
        "title", re.compile("after three turns with other tools")
    )


def test_the_map_has_the_weight_of_each_turn_in_the_gradient(board: BoardPage) -> None:
    board.page.set_viewport_size({"width": 1920, "height": 600})
    try:
        replay = conversation(board, "weighted")
        weights = replay.root.locator(".map .weight")
        expect(weights).to_have_count(3)
        expect(replay.root.locator(".map-legend")).to_contain_text("share of the gradient")
        bars = replay.root.locator(".map .bars", has=board.page.locator(".weight"))
        title = bars.first.get_attribute("title") or ""
        assert "% of the rollout's gradient · pushed down" in title
        replay = conversation(board, "repair")
        expect(replay.root.locator(".map-legend .why")).to_contain_text("Gradient by turn is not drawn:")
    finally:
        board.page.set_viewport_size({"width": 1440, "height": 900})


def test_hostile_words_stay_text(board: BoardPage) -> None:
    replay = conversation(board, "hostile").open()
    expect(replay.root.locator(".tool-choice option").nth(1)).to_contain_text("<img src=x")
    plan = replay.root.locator(".plan").first
    expect(plan).to_be_attached()
    expect(replay.root.locator(".messages img, .tools img")).to_have_count(0)
    replay.toggle.click()


def test_a_thousand_turns_are_not_built_at_once(board: BoardPage) -> None:
    replay = conversation(board, "long")
    messages = replay.root.locator("section.message")
    expect(messages).to_have_count(TURNS + 2)
    built = replay.root.locator("section.message > .body")
    assert built.count() < 60
    board.page.locator(".rl-conversation .outline .row").last.click()
    expect(replay.root.locator(f'section.message[aria-label="assistant {TURNS + 1}"]')).to_be_in_viewport()
    assert built.count() < 200
