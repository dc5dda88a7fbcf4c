"""The conversation tab: what it shows of an agent's sample, and that a model's text stays text."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.conversations import episode, long_episode, write_agent_run
from tests.factories import sample, write_run
from tests.integration.http_client import ask
from tests.ui.board import BoardPage, Served, cells_of
from tests.ui.conftest import OpenBoard, Profile
from tests.ui.test_hostile import ATTACK, NAMED, SENTRY, nothing_ran

DATA = Path(__file__).parents[1] / "data"
#: A text of which a conversation shows only the beginning until the rest is requested.
LONG_TEXT = "0123456789" * 5_000
#: What a model that loops writes: an opening of a formula, without an end.
LOOP = "\\(a " * 24_750
#: Keeps what the page sends.
RECORD_SENT = """
    window.sent = []
    const { send } = WebSocket.prototype
    WebSocket.prototype.send = function (message) {
        window.sent.push(String(message))
        send.call(this, message)
    }
"""


@pytest.fixture(scope="module", autouse=True)
def runs(root: Path, profile: Profile) -> None:
    profile.context.add_init_script(SENTRY)
    write_agent_run(root / "agent", *(episode(step, index) for step in (1, 2) for index in range(8)))
    write_agent_run(root / "long", long_episode())
    write_run(root / "plain", steps=2)
    shutil.copytree(DATA / "trl_tools", root / "trl_tools")
    for name in (
        "areal-1.0.4",
        "verl-0.9.1",
        "prime-rl-559b44772",
        "rllm-9beb6e0f",
        "nemo-gym-07d6b0d07",
        "nemo-rl-7ea279abf",
    ):
        shutil.copytree(DATA / "upstream" / name, root / name)
    shutil.copytree(DATA / "upstream" / "roll-8eb27cc2" / "agentic_native", root / "roll")
    write_agent_run(root / "hostile", hostile_line())
    traces = (("e1", "solver"), ("e1", "critic"), ("e2", "solver"))
    lines = [episode(1, at, episode=name, agent=agent) for at, (name, agent) in enumerate(traces)]
    write_agent_run(root / "episodes", *lines)
    messages = [
        {"role": "user", "content": LONG_TEXT},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "b"},
    ]
    looped = [{"role": "user", "content": "q"}, {"role": "assistant", "content": LOOP}, messages[2]]
    write_agent_run(root / "loop", {"step": 1, "messages": looped, "prompt_messages": 1, "reward": 1.0})
    write_agent_run(root / "cut", {"step": 1, "messages": messages, "prompt_messages": 1, "reward": 1.0})


def hostile_line() -> dict[str, object]:
    """A sample whose every text, name and address of a conversation is an attack."""
    call = {"id": "1", "function": {"name": NAMED, "arguments": ATTACK}}
    markdown = (
        f"# {ATTACK}\n\n```{NAMED}\n{ATTACK}\n```\n\n[{NAMED}](javascript:window.ran=1) $\\text{{{NAMED}}}$"
    )
    messages = [
        {"role": "system", "content": ATTACK},
        {"role": NAMED, "content": ATTACK, "name": NAMED},
        {"role": "user", "content": [{"type": "text", "text": markdown}, {"type": "image", "image": NAMED}]},
        {"role": "assistant", "content": markdown, "reasoning_content": ATTACK, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": ATTACK, "name": NAMED},
        {"role": "tool", "tool_call_id": "2", "content": f'{{"error": "{NAMED}"}}'},
        {"role": "assistant", "content": markdown},
    ]
    return sample(
        1,
        drop=("prompt", "response"),
        messages=messages,
        prompt_messages=3,
        response_tokens=[ATTACK, NAMED, ATTACK],
        loss_mask=[1, 0, 1],
        logprobs=[-1.0, -2.0, -3.0],
        ref_logprobs=[-1.0, -1.0, -1.0],
        values=[0.1, 0.2, 0.3],
        token_rewards=[0.1, 0.2, 0.3],
        status=NAMED,
        status_reason=ATTACK[:120],
        judge={NAMED: ATTACK},
    )


class Talk:
    """The conversation on a board."""

    def __init__(self, board: BoardPage) -> None:
        self.board = board
        self.root = board.page.locator(".rl-conversation")
        self.messages = self.root.locator("section.message:not(.judge)")
        self.calls = self.root.locator(".call")

    def message(self, title: str) -> Locator:
        return self.messages.filter(has=self.board.page.locator(".gutter b").get_by_text(title, exact=True))

    def mode(self, name: str) -> None:
        self.root.locator(".mode").get_by_text(name, exact=True).click()


@pytest.fixture
def talk(board: BoardPage) -> Talk:
    board.go(run="agent", step=1, theme="dark").settled(1)
    found = Talk(board)
    # The page may begin with another run of the same texts, whose sample is one of several traces.
    expect(board.badge).to_contain_text("16 samples")
    expect(found.root.get_by_title("Show this trace")).to_have_count(0)
    expect(found.messages).to_have_count(5)
    found.mode("Rendered")
    return found


@pytest.mark.slow
def test_samples_with_turns_open_as_conversation_and_others_as_tokens(open_board: OpenBoard) -> None:
    board = open_board(run="agent").settled()
    expect(board.page.get_by_role("tab", name="Conversation", selected=True)).to_be_visible()
    board.go(run="plain").settled()
    expect(board.page.get_by_role("tab", name="Tokens", selected=True)).to_be_visible()
    board.tab("Text")
    board.until(lambda: "tab=reference" in board.page.url, "the address names the tab")
    board.go(run="agent", tab="reference").settled()
    expect(board.page.get_by_role("tab", name="Text", selected=True)).to_be_visible()


def test_roles_turns_rewards_versions_and_judges(talk: Talk) -> None:
    titles = talk.messages.locator(".gutter b")
    expect(titles).to_have_text(["system", "user", "assistant 1", "assistant 2", "assistant 3"])
    expect(talk.message("assistant 3").locator(".gutter .reward")).to_have_text("+0.8")
    expect(talk.message("assistant 1").locator(".gutter")).to_contain_text("policy 44")
    expect(talk.root.locator(".judge")).to_contain_text("The number is right.")


def test_results_stand_beside_their_calls_and_errors_are_marked(talk: Talk) -> None:
    expect(talk.calls).to_have_count(2)
    expect(talk.calls.nth(0).locator(".asked")).to_have_text('python(code="3.7 * 1.6")')
    expect(talk.calls.nth(0).locator(".answer")).to_contain_text('"value": 5.92')
    expect(talk.calls.nth(0).locator(".wrong")).to_have_count(0)
    expect(talk.calls.nth(1).locator(".wrong")).to_contain_text("NameError")
    expect(talk.root.locator(".map i.failed")).to_have_count(1)


def test_system_prompt_and_reasoning_are_folded(talk: Talk) -> None:
    first = talk.message("system").locator("details")
    expect(first).not_to_have_attribute("open", "")
    expect(first).to_contain_text("You can run Python.")
    thought = talk.message("assistant 1").locator("details")
    thought.locator("summary").click()
    expect(thought.locator(".plain")).to_contain_text("so I call the tool")
    talk.root.get_by_role("button", name="Unfold all").click()
    expect(talk.message("system").locator("details .plain, details .prose")).to_contain_text("one sentence")
    talk.root.get_by_role("button", name="Fold all").click()
    expect(first).not_to_have_attribute("open", "")


def test_markdown_and_formulas_are_drawn_and_raw_text_is_one_click_away(talk: Talk) -> None:
    answer = talk.message("assistant 3")
    expect(answer.locator("strong")).to_have_text("failed again")
    expect(answer.locator("td").first).to_have_text("km")
    expect(answer.locator("pre code")).to_contain_text("print(3.7 * 1.609344)")
    expect(answer.locator("a")).to_have_count(0)
    expect(answer).to_contain_text("https://outside.invalid/page")
    expect(talk.message("user").locator("math mfrac")).to_have_count(1)
    talk.mode("Raw")
    expect(answer.locator(".plain")).to_contain_text("**failed again**")


def test_tokens_of_the_turns_are_coloured_and_lead_to_the_token_view_and_back(talk: Talk) -> None:
    talk.mode("By token")
    answer = talk.message("assistant 3").locator(".token")
    expect(talk.root.locator(".rl-chip.chosen")).to_have_text("log-ratio")
    colors = answer.evaluate_all("(spans) => new Set(spans.map((span) => span.style.backgroundColor)).size")
    assert colors > 5
    expect(talk.calls.nth(1).locator(".answer .token.outside").first).to_be_visible()
    first = answer.first.get_attribute("data-i")
    talk.message("assistant 3").hover()
    talk.message("assistant 3").get_by_role("button", name="tokens ↗").click()
    expect(talk.board.page.get_by_role("tab", name="Tokens", selected=True)).to_be_visible()
    pinned = talk.board.page.locator(".rl-tokens-text .token.pinned")
    expect(pinned).to_have_attribute("data-i", str(first))
    talk.board.page.locator(".rl-tokens-text .token[data-i='3']").click()
    talk.board.tab("Conversation")
    expect(talk.message("assistant 1").locator(".token.pinned")).to_have_attribute("data-i", "3")
    expect(talk.message("assistant 1").locator(".token.pinned")).to_be_in_viewport()


def test_another_metric_colours_the_turns_and_the_selection_keeps_it(talk: Talk) -> None:
    talk.mode("By token")
    span = talk.message("assistant 3").locator(".token").first
    before = span.evaluate("(span) => span.style.backgroundColor")
    talk.root.locator(".rl-chip").get_by_text("KL k3", exact=True).click()
    expect(talk.root.locator(".rl-chip.chosen")).to_have_text("KL k3")
    talk.board.until(lambda: span.evaluate("(span) => span.style.backgroundColor") != before, "a new colour")
    talk.board.until(lambda: "metric=kl_k3" in talk.board.page.url, "the address names the metric")


def test_images_are_thumbnails_and_open_in_full_size(talk: Talk) -> None:
    images = talk.message("user").locator(".image img")
    expect(images).to_have_count(2)
    sizes = images.evaluate_all("(all) => all.map((one) => [one.naturalWidth, one.naturalHeight])")
    assert sizes == [[320, 180], [480, 267]]
    images.nth(1).click()
    full = talk.root.locator("dialog.full-image img")
    expect(full).to_be_visible()
    talk.board.until(lambda: full.evaluate("(image) => image.naturalWidth") == 900, "the full size")
    talk.board.press("Escape")
    expect(full).not_to_be_visible()


@pytest.mark.parametrize("visits", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_link_to_turns_with_images_sends_no_model(
    profile: Profile, served: Served, clean: None, visits: int
) -> None:
    """Bokeh sends a model whole, with its buffers, if it does not know that the server has it."""
    board = BoardPage(profile.context.new_page(), served.url)
    board.page.add_init_script(RECORD_SENT)
    for _ in range(visits):
        board.open(run="agent", step=1, theme="dark")
        expect(Talk(board).root.locator(".image img")).to_have_count(2)
        sent = "\n".join(board.page.evaluate("() => window.sent"))
        assert '["want","image"]' in sent
        assert '"attributes"' not in sent
    board.page.close()


def test_the_grid_shows_the_first_image_of_each_sample(talk: Talk) -> None:
    images = talk.board.rows.locator(f"{cells_of('thumbnail')} img")
    expect(images).to_have_count(8)
    size = "(image) => [image.naturalWidth, image.naturalHeight]"
    talk.board.until(lambda: images.first.evaluate(size) == [96, 54], "the thumbnail")
    expect(images.first).to_have_attribute("src", re.compile("^data:image/(png|jpeg);base64,"))
    talk.board.go(run="plain").settled()
    expect(talk.board.grid.locator(cells_of("thumbnail"))).to_have_count(0)


def test_the_traces_of_an_episode_are_one_click_apart_and_fold_into_one_row(board: BoardPage) -> None:
    board.go(run="episodes").settled()
    board.tab("Conversation")
    traces = Talk(board).root.locator(".traces")
    expect(traces.get_by_role("button", pressed=True)).to_have_text("solver")
    traces.get_by_role("button", name="critic").click()
    expect(board.sample_head).to_contain_text("line 2")
    expect(traces.get_by_role("button", pressed=True)).to_have_text("critic")
    setting = board.settings().get_by_label("One row per episode")
    setting.check()
    expect(board.rows).to_have_count(2)
    expect(board.rows.locator(cells_of("traces"))).to_have_text(["2", "1"])
    setting.uncheck()
    expect(board.rows).to_have_count(3)


def test_of_200_turns_only_those_in_view_are_drawn(board: BoardPage) -> None:
    board.go(run="long").settled()
    talk = Talk(board)
    expect(talk.messages).to_have_count(102)
    expect(talk.calls.first).to_contain_text("row of page 0")
    assert talk.calls.count() < 30
    rows = talk.root.locator(".outline .row")
    expect(rows.locator(".failed", has_text="!")).to_have_count(10)
    expect(rows).to_have_count(3 + 2 * 10)  # given, turn 1, each error and what is before it, the end
    rows.first.focus()
    board.press("End")
    expect(talk.message("assistant 101")).to_be_in_viewport()
    expect(talk.message("assistant 101")).to_contain_text("Read.")
    expect(rows.last).to_have_attribute("aria-current", "true")
    assert talk.calls.count() < 60


def test_a_cut_text_is_loaded_on_demand(board: BoardPage) -> None:
    board.go(run="cut").settled()
    first = Talk(board).message("user").first
    first.get_by_role("button", name="Show 30,000 more characters").click()
    expect(first.get_by_role("button", name="Show 30,000 more characters")).to_have_count(0)
    board.until(lambda: len(first.locator(".prose").inner_text()) >= len(LONG_TEXT), "the whole text")


def test_the_text_of_a_model_that_loops_keeps_nobody_waiting(board: BoardPage) -> None:
    board.go(run="loop").settled()
    answer = Talk(board).message("assistant 1")
    answer.get_by_role("button", name="Show 79,000 more characters").click()
    waits, remark = [], answer.locator(".remark")

    def is_shown() -> bool:
        started = time.monotonic()
        assert ask(board.url, "/health").status == 200
        waits.append(time.monotonic() - started)
        return remark.count() > 0

    board.until(is_shown, "the text is formatted")
    assert max(waits) < 10  # 60 s while it was formatted on the event loop
    expect(remark).to_contain_text("The rest is shown as plain text")
    board.until(lambda: len(answer.locator(".prose").inner_text()) >= len(LOOP) // 4 * 3, "the whole text")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("verl-0.9.1/dump", ["user", "assistant 1", "assistant 2"]),
        ("trl_tools", ["user", "assistant 1", "assistant 2"]),
        ("prime-rl-559b44772", ["system", "user", "assistant 1", "assistant 2"]),
        ("rllm-9beb6e0f", ["system", "user", "assistant 1", "assistant 2"]),
        ("nemo-gym-07d6b0d07", ["developer", "user", "assistant 1", "assistant 2"]),
        ("roll", ["system", "user", "assistant 1", "assistant 2"]),
    ],
)
def test_files_of_real_trainers(board: BoardPage, run: str, expected: list[str]) -> None:
    board.go(run=run).settled()
    talk = Talk(board)
    expect(talk.messages.locator(".gutter b")).to_have_text(expected)
    expect(talk.calls.first.locator(".answer")).to_be_visible()


def test_tokens_of_verls_turns_are_told_from_a_tools(board: BoardPage) -> None:
    board.go(run="verl-0.9.1/recorded").settled()
    talk = Talk(board)
    board.rows.filter(has_text="12 * 9").first.click()
    board.tab("Conversation")
    expect(talk.messages.locator(".gutter b")).to_have_text(["user", "assistant 1", "assistant 2"])
    talk.mode("By token")
    expect(talk.message("assistant 2").locator(".token").first).to_be_visible()
    expect(talk.calls.first.locator(".answer .token.outside").first).to_be_visible()
    expect(talk.calls.first.locator(".answer .token:not(.outside)")).to_have_count(0)
    # verl's rejection sampling took the last of the policy's own tokens from the loss.
    expect(talk.message("assistant 1").locator(".token:not(.outside)").first).to_be_visible()


def test_areals_text_is_shown_whole_although_areal_cuts_the_prompt_in_a_turn(board: BoardPage) -> None:
    """AReaL ends the prompt where as many tokens are left as were trained on, also if tools wrote some."""
    board.go(run="areal-1.0.4").settled()
    talk = Talk(board)
    board.tab("Conversation")
    titles = talk.messages.locator(".gutter b")
    expect(titles).to_have_text(["user", "assistant 1", "assistant 2"])
    expect(talk.messages.nth(0)).to_contain_text("What is 12 * 9?")
    expect(talk.message("assistant 1").locator(".asked")).to_have_text('python(code="12 * 9")')
    expect(talk.message("assistant 1").locator(".answer")).to_contain_text("108")
    expect(talk.message("assistant 1").locator(".begun .first")).to_contain_text(
        '<tool_call>{"name": "python"'
    )
    expect(board.page.locator(".rl-conversation .rl-notes")).to_contain_text("are in the prompt")
    expect(talk.message("assistant 2")).to_contain_text("It is 108.")


def test_an_environment_that_speaks_last_is_told_apart(board: BoardPage) -> None:
    board.go(run="nemo-rl-7ea279abf").settled()
    titles = Talk(board).messages.locator(".gutter b")
    expect(titles).to_have_text(["user", "assistant 1", "environment"])


def test_nothing_of_a_conversation_is_run(board: BoardPage) -> None:
    board.go(run="hostile").settled()
    talk = Talk(board)
    board.tab("Conversation")
    expect(talk.messages).to_have_count(6)
    for mode in ("Rendered", "Raw", "By token"):
        talk.mode(mode)
        if talk.root.get_by_role("button", name="Unfold all").is_visible():
            talk.root.get_by_role("button", name="Unfold all").click()
        for message in talk.messages.all():
            message.scroll_into_view_if_needed()
            message.hover(force=True)
        expect(talk.calls.first).to_contain_text("onerror")
        nothing_ran(board.page)
    talk.root.locator(".token").first.hover()
    expect(talk.root.locator(".rl-tip")).to_contain_text("onerror")
    expect(talk.root.locator(".banner")).to_contain_text("<img class=evil")
    expect(talk.root.locator(".image")).to_contain_text("image cannot be read")
    nothing_ran(board.page)


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 768, 1024, 1920])
def test_the_conversation_fits_at_any_width(board: BoardPage, width: int) -> None:
    board.page.set_viewport_size({"width": width, "height": 900})
    try:
        board.go(run="agent", step=2).settled()
        talk = Talk(board)
        expect(talk.calls.first).to_be_visible()
        wide = "() => document.scrollingElement.scrollWidth - window.innerWidth"
        board.until(lambda: board.page.evaluate(wide) <= 0, f"{width} pixels are enough")
        inside = "(node) => node.scrollWidth <= node.clientWidth + 1"
        assert talk.root.locator(".list").evaluate(inside)
    finally:
        board.page.set_viewport_size({"width": 1440, "height": 900})
